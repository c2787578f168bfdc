"""A model that says what a test wrote down: an OpenAI-compatible server on loopback, streaming or not.

A script is a list of steps. A step is a text, which ends the turn, or a list of calls `(tool, arguments)`,
which the agent makes together. What the agent asked for is in `requests`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.real_hosts.wires import chat

Step = str | Sequence[tuple[str, dict[str, Any]]]


class ScriptedModel:
    """The server and its script; steps can be added while it runs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.number = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def say(self, *steps: Step) -> None:
        with self.lock:
            self.steps += steps

    def config(self) -> dict[str, Any]:
        """The `model` section of Hermes's config.yaml."""
        return {
            "provider": "custom",
            "base_url": self.url,
            "default": "scripted",
            "api_key": "none",
            "context_length": 200_000,
        }

    def _message(self, request: dict[str, Any]) -> tuple[str, list[tuple[str, Any]]]:
        """A text, or calls with their ids."""
        with self.lock:
            self.requests.append(request)
            # Whoever brings no tools (a title, a summary) does not use up a step.
            step: Step = self.steps.pop(0) if request.get("tools") and self.steps else "nothing more to say"
            self.number += 1
            number = self.number
        if isinstance(step, str):
            return step, []
        return "", [(f"call_{number}_{index}", call) for index, call in enumerate(step)]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None:
                return

            def do_GET(self) -> None:
                self._answer(json.dumps({"object": "list", "data": [{"id": "scripted"}]}).encode())

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                text, calls = model._message(request)
                kind, body = chat.written(self.path, request, text, calls)
                self._answer(body, kind)

            def _answer(self, body: bytes, kind: str = "application/json") -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    thread = threading.Thread(target=model.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        model.server.server_close()
        thread.join()
