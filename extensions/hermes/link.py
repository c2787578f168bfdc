"""The way to safekept's helper: asks it, starts it, and knows when it cannot be had.

It is started by the command that `safekept connect hermes` wrote down. On a machine without that program
nothing is protected, and that is reported. A helper that died is started again. Where none can be had, or it
hangs, each call is made by a process of its own. No tool waits beyond a deadline.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import stat
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from . import places
from .messages import UserMessages

try:
    client: Any = importlib.import_module(".client", __package__)  # the copy beside this file
except ImportError:  # loaded from the package, through the pip entry point
    client = importlib.import_module("safekept.integrations.helper.client")

HERE = os.path.dirname(os.path.abspath(__file__))
#: Seconds that a tool waits at most, a helper's start and a process of its own included. From 0.21 on Hermes
#: gives a hook 30, and blocks every tool for a minute where one took longer.
DEADLINE = 8.0
#: After one that did not answer: until it does.
IMPATIENT = 2.0
#: Seconds in which a helper says that it is at work, where a person waits and nothing else can do it.
LONG_PATIENCE = 30.0
#: Seconds for the helper to come up; a call that came for nothing is made directly.
START = 4.0
#: Seconds between two attempts with a helper that does not come up, or hangs.
PAUSE, LONGEST_PAUSE = 15.0, 300.0
#: Calls that protect something; without a helper they are made directly. The others only tell.
_COUNTS = ("before", "session-start")
#: What no later call makes good: where no helper answers, a process of its own does it, unwaited for.
_LAST = "session-end"

Answer = tuple[dict[str, str], bytes]


class Link:
    """One per process of Hermes; many threads may use it."""

    def __init__(self, voice: UserMessages, directory: str = HERE) -> None:
        self.voice, self.directory = voice, directory
        self.failures = 0  # calls without an answer
        self.trouble = ""  # why the last one was not; empty when it was
        self._answered = 0.0  # when it last answered
        self._slow = False
        self._came = 0.0  # when it was last started
        self._pause = PAUSE
        self._again = 0.0  # no attempt to start it before
        self._avoided = 0.0  # nor to ask it
        self._lock = threading.Lock()
        self._behind: list[subprocess.Popen[bytes]] = []
        self._connection: dict[str, Any] | None = None

    @property
    def home(self) -> str:
        """The home that this copy of the plugin is for: the one it lies in. Hermes may work for several in
        one process; the copy of the pip entry point lies in none, and serves the one that Hermes names."""
        above = os.path.dirname(self.directory)
        if os.path.basename(above) == "plugins" and self.connection:
            return os.path.dirname(above)
        return places.home()

    # ── what connect wrote down ────────────────────────────────────────────────────────────────

    @property
    def connection(self) -> dict[str, Any]:
        """`connection.json`; empty where it is missing or spoilt."""
        if self._connection is None:
            self._connection = read_document(os.path.join(self.directory, "connection.json"))
        return self._connection

    @property
    def command(self) -> list[str]:
        """How safekept is called on this machine; empty where it is not there."""
        recorded = self.connection.get("command")
        words = [word for word in recorded if isinstance(word, str)] if isinstance(recorded, list) else []
        if not words:
            return _own_program()
        if not os.path.isabs(words[0]):
            words[0] = _found(words[0])
        return words if words[0] and os.access(words[0], os.X_OK) else []

    def environment(self) -> dict[str, str]:
        """As safekept is to see it: the home that Hermes works in, and the places that were in force when
        the host was connected, where this process has no others."""
        found = dict(os.environ)
        found["HERMES_HOME"] = self.home
        kept = self.connection.get("environment")
        if isinstance(kept, Mapping) and kept.get("HOME") == found.get("HOME"):
            for name, value in kept.items():
                if name not in found and isinstance(value, str):
                    found[name] = value
        return found

    # ── asking ─────────────────────────────────────────────────────────────────────────────────

    def call(self, call: Mapping[str, object], session: str = "", deadline: float = 0.0) -> dict[str, Any]:
        """Tell safekept of a call; what it came to. Empty without an answer, which is reported where it
        means that something is not protected."""
        return self.ask("call", {**call, "host": "hermes"}, session, deadline)

    def ask(
        self, do: str, document: Mapping[str, object], session: str = "", deadline: float = 0.0
    ) -> dict[str, Any]:
        """One question as JSON, one answer as JSON."""
        environment = self.environment()
        body = json.dumps(document, ensure_ascii=True).encode()
        patience = deadline or (IMPATIENT if self._slow else DEADLINE)
        ends = time.monotonic() + patience
        answer: Answer | None = None
        # What a person asked for must not be done twice: there is one helper, and it is waited for.
        wait = client.PATIENCE if do == "call" else LONG_PATIENCE
        if client.wanted(environment) and (do != "call" or time.monotonic() >= self._avoided):
            answer = self._helped(do, document, environment, body, wait, ends)
        counts = do != "call" or document.get("kind") in _COUNTS
        if answer is None and counts and do == "call" and time.monotonic() < ends:
            answer = self._directly(environment, body, ends)
        if answer is None and do == "call" and document.get("kind") == _LAST and client.wanted(environment):
            self._left_behind(environment, body)
        return self._understood(answer, session, time.monotonic() >= ends, counts)

    def _helped(
        self,
        do: str,
        document: Mapping[str, object],
        environment: dict[str, str],
        body: bytes,
        wait: float,
        ends: float,
    ) -> Answer | None:
        place = client.helper_directory(environment)
        header = client.request(do, environment, host="hermes", cwd=str(document.get("directory") or "/"))
        begun = time.monotonic()
        answer: Answer | None = client.ask(place, header, body, ends - begun, wait)
        took = time.monotonic() - begun
        if answer is None and took >= wait and time.monotonic() < ends:
            self._avoided = time.monotonic() + PAUSE  # it is there and says nothing: it hangs
            return None
        if (answer is None and time.monotonic() < ends) or (answer and "stale" in answer[0]):
            answer = None
            if self._started(place, environment, begun, ends):
                answer = client.ask(place, header, body, max(1.0, ends - time.monotonic()), wait)
        if answer is None or "exit" not in answer[0]:
            return None
        self._answered = time.monotonic()
        return answer

    def _started(self, place: str, environment: dict[str, str], begun: float, ends: float) -> bool:
        """Whether a helper is there now; of many threads that find none one starts it."""
        with self._lock:
            now = time.monotonic()
            command = self.command
            if not command or now < self._again:
                return False
            if begun < self._came:
                return True
            start = [*command, "helper", "run", "--quiet"]
            there: bool = not self._answered and client.start(
                start, place, environment, min(START, ends - now)
            )
            if not there:
                # The stamp of one that was started a moment ago keeps others from it; that one is gone.
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(place, "started"))
                wait = START if self._answered else 0.5
                there = client.start(start, place, environment, min(wait, ends - time.monotonic()))
            if there:
                self._came, self._pause = time.monotonic(), PAUSE
            else:
                self._again = time.monotonic() + self._pause
                self._pause = min(self._pause * 4, LONGEST_PAUSE)
            return there

    def _directly(self, environment: dict[str, str], body: bytes, ends: float) -> Answer | None:
        """Without a helper: the same work in a process for this one call."""
        command = self.command
        if not command:
            return None
        try:
            done = subprocess.run(
                [*command, "helper", "call"],
                input=body,
                env=environment,
                cwd="/",
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=max(1.0, ends - time.monotonic()),
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return ({"exit": "0"}, done.stdout) if done.returncode == 0 else None

    def _left_behind(self, environment: dict[str, str], body: bytes) -> None:
        """The same in a process that outlives this one: the agent is about to end, and waits for nothing.

        A helper that is only slow may do it as well; of two such snapshots only one is ever due.
        """
        command = self.command
        if not command:
            return
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                [*command, "helper", "call"],
                stdin=subprocess.PIPE,
                env=environment,
                cwd="/",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(body)
            self._behind = [one for one in self._behind if one.poll() is None] + [process]

    def _understood(self, answer: Answer | None, session: str, late: bool, counts: bool) -> dict[str, Any]:
        document: object = None
        if answer is not None:
            with contextlib.suppress(ValueError):
                document = json.loads(answer[1]) if answer[1] else {}
        if isinstance(document, dict):
            self.trouble, self._slow = "", False
            return document
        if not counts:
            return {}
        self._slow = late
        self.failures += 1
        if not self.command:
            self.trouble = f"safekept is not installed here{self._where()}"
        elif late:
            self.trouble = "it took too long, and the tool was not kept waiting"
        else:
            self.trouble = "safekept does not answer and cannot be started"
        self.voice.say(f"not protecting: {self.trouble}", session)
        return {}

    def _where(self) -> str:
        command = self.connection.get("command")
        return f" (`{command[0]}` is gone)" if isinstance(command, list) and command else ""


def _own_program() -> list[str]:
    """Without a connection, as by the pip entry point: the program beside this Python, or on PATH."""
    import sys

    beside = os.path.join(os.path.dirname(sys.executable), "safekept")
    if os.access(beside, os.X_OK):
        return [beside]
    found = _found("safekept")
    return [found] if found else []


def _found(name: str) -> str:
    import shutil

    return shutil.which(name) or ""


def read_document(path: str) -> dict[str, Any]:
    """A document of ours; empty where it is missing or spoilt. A pipe in its place is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            read = json.loads(file.read(1 << 20)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
