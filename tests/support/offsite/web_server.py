"""A real HTTP server on loopback that writes down what it is told, and answers as it is asked to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass
class Heard:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    """Use it in a `with`; `url` has no slash at its end."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False  # take the request and never answer
    heard: list[Heard] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.change = threading.Condition()
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with outer.change:
                    outer.heard.append(Heard(self.command, self.path, dict(self.headers), body))
                    outer.change.notify_all()
                if outer.hang:
                    outer.ended.wait()
                    return
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            do_GET = do_POST

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.heard]

    def take(self, start: str = "") -> list[Heard]:
        """Those of a path, taken off the list: what comes in meanwhile stays for the next time."""
        with self.change:
            found = [one for one in self.heard if one.path.startswith(start)]
            self.heard[:] = [one for one in self.heard if not one.path.startswith(start)]
        return found

    def wait_for(self, count: int) -> None:
        """Until so many requests came; the test's own time limit is the only one."""
        with self.change:
            self.change.wait_for(lambda: len(self.heard) >= count)
