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

    def _message(self, request: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            self.requests.append(request)
            # Whoever brings no tools (a title, a summary) does not use up a step.
            step: Step = self.steps.pop(0) if request.get("tools") and self.steps else "nothing more to say"
            self.number += 1
            number = self.number
        if isinstance(step, str):
            return {"role": "assistant", "content": step}
        calls = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(step)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

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
                message = model._message(request)
                kind = "tool_calls" if message.get("tool_calls") else "stop"
                facts = {"id": "x", "created": 1, "model": "scripted"}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                if not request.get("stream"):
                    choice = {"index": 0, "message": message, "finish_reason": kind}
                    document = {**facts, "object": "chat.completion", "choices": [choice], "usage": usage}
                    self._answer(json.dumps(document).encode())
                    return
                calls = [{**call, "index": n} for n, call in enumerate(message.get("tool_calls") or [])]
                delta = {**message, **({"tool_calls": calls} if calls else {})}
                chunk = {**facts, "object": "chat.completion.chunk"}
                parts = [
                    {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                    {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": kind}], "usage": usage},
                ]
                lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
                self._answer(("".join(lines) + "data: [DONE]\n\n").encode(), "text/event-stream")

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
