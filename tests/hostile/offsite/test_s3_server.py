"""An S3 server that never comes to an end: a budget of names and of time bounds what it can cost us."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.objects import Options, open_objects
from safekept.core.objects.s3 import place as s3
from support.commands.waiting import PATIENT

NAME = (
    "<Contents><Key>p/{}-{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag>"
    "<Size>1</Size></Contents>"
)


class Endless(BaseHTTPRequestHandler):
    """There is always more; `names` on every page."""

    protocol_version = "HTTP/1.1"
    names = 0

    def do_GET(self) -> None:
        number = next(self.server.count)  # type: ignore[attr-defined]
        names = "".join(NAME.format(number, one) for one in range(self.names))
        body = (
            f"<ListBucketResult><Name>bucket</Name><IsTruncated>true</IsTruncated>{names}"
            f"<NextContinuationToken>{number}</NextContinuationToken></ListBucketResult>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40 if "list-type" not in self.path else len(body)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", "x")
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked has enough
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(names: int) -> Iterator[str]:
    handler = type("Endless", (Endless,), {"names": names})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.count = itertools.count()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def place(endpoint: str, patience: float = PATIENT):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "HOME": "/nonexistent"}
    options = Options(endpoint=endpoint, region="us-east-1", timeout=1.0, patience=patience)
    return contextlib.closing(open_objects("s3://bucket/p", environment=keys, options=options))


def test_a_listing_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(s3, "MOST_NAMES", 3000, raising=False)
    with serving(1000) as endpoint, place(endpoint) as objects:
        with pytest.raises(SafekeptError, match="it lists more than a place of ours can hold"):
            for _ in itertools.islice(objects.list(""), 10_000):
                pass


@pytest.mark.parametrize("ask", [lambda objects: list(objects.list("")), lambda objects: objects.present()])
def test_pages_without_end_that_name_nothing_are_given_up(ask):
    with serving(0) as endpoint, place(endpoint, patience=0.5) as objects:
        with pytest.raises(SafekeptError, match="it answers without end and names nothing"):
            ask(objects)


def test_no_more_is_read_at_once_than_any_object_of_ours_has():
    with serving(0) as endpoint, place(endpoint) as objects:
        with pytest.raises(SafekeptError, match="bytes, as none of ours has"):
            objects.read("config")
