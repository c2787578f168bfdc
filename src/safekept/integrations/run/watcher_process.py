"""The watcher as the one who started it sees it: asked to begin, left alone, told to end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from safekept.core.events import Event, Listener

_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from safekept.integrations.run.watcher import main; main()"
)


class WatcherLost(Exception):
    """The watcher is gone, and said nothing."""


class WatcherProcess:
    """Started at once. `ready` before the agent starts, `end` after it; `close` whatever happened."""

    def __init__(self, request: Mapping[str, object], environment: Mapping[str, str]) -> None:
        import safekept

        root = os.path.dirname(os.path.dirname(os.path.abspath(safekept.__file__)))
        # A session of its own: what the terminal sends is the agent's, and must not cut a checkpoint short.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=dict(environment),
        )
        self._send(json.dumps(request).encode() + b"\n")

    def ready(self, listener: Listener) -> dict[str, object]:
        """What the first checkpoint came to. Raises WatcherLost."""
        return self._answer("ready", listener)

    def end(self, listener: Listener) -> dict[str, object]:
        """The account of the whole watch, with the last mark in it. Raises WatcherLost."""
        self._process.send_signal(signal.SIGCONT)  # an agent that stopped it would keep us waiting for ever
        self._send(b"end\n")
        return self._answer("ended", listener)

    def close(self, patience: float = 5.0) -> None:
        """It ends when its input is closed; one that does not is ended."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()  # a checkpoint that is cut off leaves nothing behind
            self._process.wait()

    def _send(self, line: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError):  # its silence will tell
            stream.write(line)
            stream.flush()

    def _answer(self, name: str, listener: Listener) -> dict[str, object]:
        stream = self._process.stdout
        assert stream is not None
        for line in stream:
            try:
                document = json.loads(line)
            except ValueError:
                break
            if "progress" in document:
                listener(Event(**document["progress"]))
            elif isinstance(document.get(name), dict):
                return dict(document[name])
        raise WatcherLost
