"""A REST server that means no good: no wait without an end, no password for others, no odd names."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.objects import Options, open_objects
from safekept.core.objects.errors import PlaceRefused, PlaceUnreachable

OK = b"HTTP/1.1 200 OK\r\n"


class Hostile:
    """Answers every connection with what it is given; `trickle` repeats the last part for ever, slowly."""

    def __init__(self, *parts: bytes, trickle: bool = False) -> None:
        self.parts, self.trickle, self.heard = parts, trickle, b""
        self.ended = threading.Event()

    def __enter__(self) -> Hostile:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"rest:http://ada@127.0.0.1:{self.listener.getsockname()[1]}/agents"
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with contextlib.suppress(OSError), connection:
                    self.heard += connection.recv(65536)
                    connection.sendall(b"".join(self.parts))
                    while self.trickle and not self.ended.wait(0.05):
                        connection.sendall(self.parts[-1][-1:])

    def open(self):
        options = Options(timeout=0.6, patience=0.1)
        return contextlib.closing(
            open_objects(self.url, environment={"RESTIC_REST_PASSWORD": "hunter2"}, options=options)
        )


@pytest.mark.parametrize(
    "parts",
    [(b"H",), (OK + b"x",), (OK + b"Content-Length: 9999999\r\n\r\n", b"x")],
    ids=["first", "head", "body"],
)
def test_an_answer_that_trickles_is_given_up_in_time(parts):
    with Hostile(*parts, trickle=True) as server, server.open() as objects:
        began = time.monotonic()
        with pytest.raises(PlaceUnreachable):
            objects.read("config")
        assert time.monotonic() - began < 20  # it would go on for ever


def test_a_password_does_not_follow_a_redirect():
    with Hostile(OK) as other:
        moved = (
            f"HTTP/1.1 302 Found\r\nLocation: {other.url.removeprefix('rest:')}\r\nContent-Length: 0\r\n\r\n"
        )
        with Hostile(moved.encode()) as server, server.open() as objects:
            with pytest.raises(PlaceRefused, match=r"Found \(302\)"):
                objects.read("config")
            assert b"Authorization: Basic" in server.heard
        assert other.heard == b""


def test_names_in_a_listing_are_those_of_a_vault_or_passed_over():
    good = "ab" * 32
    listed = [{"name": name, "size": 1} for name in ("../../etc/passwd", good, good.upper(), "x" * 10**5, "")]
    body = json.dumps(listed).encode()
    with Hostile(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body) as server, server.open() as objects:
        assert [stored.name for stored in objects.list("keys/")] == [f"keys/{good}"]


@pytest.mark.parametrize("body", [b'["only", "names"]', b"{}", b'[{"name": "x"}]', b"\xff", b"<html>"])
def test_a_listing_that_is_none_is_refused_and_never_an_empty_one(body):
    with Hostile(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body) as server, server.open() as objects:
        with pytest.raises(PlaceRefused, match="its listing is not one of version 2"):
            list(objects.list("keys/"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" + b"[]," * 400_000 + b"[]]", "it lists more than a place of ours can hold"),
        (b"[" + b"0," * 1_000_000 + b"0]", "it lists more than a place of ours can hold"),
        (b"[" + b" " * (50 << 20), "bytes, as none of ours has"),
    ],
    ids=["lists", "numbers", "blanks"],
)
def test_a_listing_is_counted_before_it_is_taken_apart(body, words):
    with Hostile(OK + b"Content-Length: %d\r\n\r\n" % len(body), body) as server, server.open() as objects:
        with pytest.raises(SafekeptError, match=words):
            list(objects.list("keys/"))


@pytest.mark.parametrize("header", [b"Content-Length: ", b"Content-Range: bytes 0-3/"])
def test_a_length_that_no_number_has_is_no_length(header):
    parts = (OK + header + b"9" * 5000 + b"\r\n\r\n", b"kept")
    with Hostile(*parts) as server, server.open() as place:
        with contextlib.suppress(PlaceRefused, PlaceUnreachable):
            assert place.size("config") == 4
        with contextlib.suppress(PlaceRefused, PlaceUnreachable):
            assert place.read("config", 0, 4) == b"kept"
