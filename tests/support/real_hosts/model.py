"""A model that says what a test wrote down, by one host's wire, and looks at the project each time.

The prompt names a scene (`scene=NAME`); which of its steps comes next is told by how many answers with calls
the conversation has since. So a request that comes again gets the same answer, and a subagent has a scene of
its own. `states` are the true states: the tree as it was when the host asked, before the step that followed.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

from .deeds import Await, Deed, Silence, Step, Use, changes

_SCENE = re.compile(r"scene=(\w+)")
_AGENT = re.compile(r"agent_id\W+([\w-]+)")
_TOKEN = re.compile(r"[\w-]{12}\.[0-9a-f]{32}")
#: One call as a host's tool takes it: its name and its arguments, which of some tools are a text.
Call = tuple[str, dict[str, Any] | str]
Tree = dict[str, object]


@dataclass
class Model:
    """One host's model. `wire`: how it asks; `spell`: its tools (None: it needs no such deed)."""

    wire: ModuleType
    spell: Callable[[Deed], Call | None]
    look: Callable[[], Tree]
    scenes: dict[str, list[Step]] = field(default_factory=dict)
    states: dict[str, dict[int, Tree]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    silent: threading.Event = field(default_factory=threading.Event)
    speak: threading.Event = field(default_factory=threading.Event)

    def plays(self, name: str, *steps: Step) -> str:
        """Adds a scene; the prompt that begins it."""
        kept: list[Step] = []
        for step in steps:
            if isinstance(step, str | Silence):
                kept.append(step)
            elif fitting := [deed for deed in step if self.spell(deed) is not None]:
                kept.append(fitting)
        self.scenes[name] = kept
        self.states[name] = {}
        return f"please play scene={name}"

    def true_states(self, name: str) -> list[Tree]:
        """The tree before each change of the scene, in order."""
        return [tree for _, tree in sorted(self.states[name].items())]

    def answer(self, request: dict[str, Any]) -> tuple[str, list[tuple[str, Call]]]:
        """A text, or calls with their ids."""
        self.requests.append(request)
        scene, number = _where(self.wire.said(request))
        steps = self.scenes.get(scene, [])
        step: Step = steps[number] if number < len(steps) else "done"
        if not request.get("tools") or not steps:
            return "done", []  # a title, a summary
        if changes(step):
            self.states[scene].setdefault(number, self.look())
        if isinstance(step, Silence):
            self.silent.set()
            self.speak.wait(900)
            return "done", []
        if isinstance(step, str):
            return step, []
        known = [_completed(deed, request) for deed in step]
        spelled = [call for deed in known if (call := self.spell(deed)) is not None]
        return "", [(f"call_{scene}{number}_{index}", call) for index, call in enumerate(spelled)]


def _completed(deed: Deed, request: dict[str, Any]) -> Deed:
    """With what only the conversation can tell: the token of the last plan, the last subagent."""
    if isinstance(deed, Await) and (agents := _AGENT.findall(json.dumps(request))):
        return Await(agents[-1])
    if isinstance(deed, Use) and deed.confirm and (tokens := _TOKEN.findall(json.dumps(request))):
        return Use(deed.tool, {**deed.arguments, "confirm": tokens[-1]})
    return deed


def _where(said: Iterator[tuple[str, str]]) -> tuple[str, int]:
    """The scene that is played, and how many of its steps were."""
    scene, played = "", []
    for who, what in said:
        if who == "user" and (found := _SCENE.findall(what)):
            scene, played = found[-1], []
        elif who == "calls" and what not in played:
            played.append(what)
    return scene, len(played)


@contextmanager
def serving(models: Sequence[Model]) -> Iterator[None]:
    """Each on a port of its own, until the end."""
    servers = []
    try:
        for model in models:
            server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(model))
            server.daemon_threads = True
            servers.append(server)
            model.url = f"http://127.0.0.1:{server.server_address[1]}"
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield
    finally:
        for model in models:
            model.speak.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            return

        def do_GET(self) -> None:
            self._write("application/json", b'{"object": "list", "data": [], "models": []}')

        do_HEAD = do_GET

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not model.wire.asks(self.path):
                self._write("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
                return
            text, calls = model.answer(json.loads(raw))
            self._write(*model.wire.written(self.path, json.loads(raw), text, calls))

        def _write(self, kind: str, body: bytes) -> None:
            try:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the host was ended meanwhile

    return Handler
