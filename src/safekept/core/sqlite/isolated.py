"""Capture in a helper process, for callers that may have the database open themselves.

A process that closes any descriptor of a database loses its own locks on it. Inside an agent that
would corrupt the very thing we protect, so the work happens in a process of its own, which ends
with the content: when the consumer closes it, when it is read, or when this process dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..entries import Content, DatabaseFacts, EntryLost, Outcome, Remark
from ..events import Event, Listener
from ..files import sweep_temporaries, write_all
from ..platform.descriptors import widen_pipe
from .capture import CaptureOptions

if TYPE_CHECKING:
    import subprocess

#: Every frame: one letter (Event, Head, Data, Trailer, Lost) and the length of what follows.
FRAME = struct.Struct(">cI")

PIPE_SIZE = 1 << 20

#: Beyond the deadline the helper keeps itself: a helper stuck in the kernel says nothing for this long.
_SILENCE = 30.0

#: The helper imports nothing but the standard library and this package, so it needs no site-packages.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from safekept.core.sqlite.helper import main; main()"


def capture_isolated(
    path: str, name: str, options: CaptureOptions, queries: Mapping[str, str], listener: Listener
) -> Content:
    """Start a helper and wait until it holds the database still. Raises EntryLost as `capture` does."""
    import safekept

    root = os.path.dirname(os.path.dirname(os.path.abspath(safekept.__file__)))
    request = {
        "path": os.path.abspath(path),
        "name": name,
        "scratch": os.path.abspath(options.scratch),
        "deadline": options.deadline,
        "check": options.check,
        "method": options.method,
        "queries": dict(queries),
        "lean": options.lean.as_dict() if options.lean is not None else None,
    }
    silence = options.deadline + _SILENCE
    return IsolatedContent(_started(root, name), request, name, silence, listener)


def _started(root: str, name: str) -> subprocess.Popen[bytes]:
    import subprocess

    try:
        # Descriptors of this process are not inherited: an inherited one would be one more of the
        # database, and closing it at exit is harmless only in a process that holds no locks.
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            close_fds=True,
            bufsize=0,
        )
    except OSError as error:
        reason = f"the capture process could not be started: {error.strerror or error}"
        raise EntryLost(Remark(name, Outcome.UNREADABLE, reason)) from error


class IsolatedContent(Content):
    """What a helper sends."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        request: Mapping[str, object],
        name: str,
        silence: float,
        listener: Listener,
    ) -> None:
        super().__init__()
        self._child, self._name, self._silence, self._listener = child, name, silence, listener
        self.size = self.mtime_ns = 0
        try:
            assert child.stdin is not None and child.stdout is not None
            self._output = child.stdout.fileno()
            widen_pipe(self._output, PIPE_SIZE)
            with contextlib.suppress(BrokenPipeError):
                write_all(child.stdin.fileno(), json.dumps(request).encode() + b"\n")
            head = self._next(b"H")
            self.size, self.mtime_ns = head["size"], head["mtime_ns"]
        except BaseException:
            self.close()
            # Stopped before its copies lost their names: they are known as a dead process's.
            sweep_temporaries(str(request["scratch"]))
            raise

    def chunks(self) -> Iterator[bytes]:
        left = self.size
        try:
            while left:
                letter, payload = self._frame()
                if letter != b"D":
                    self._other(letter, payload)
                    continue
                left -= len(payload)
                yield payload
            trailer = self._next(b"T")
            self.database = DatabaseFacts(**trailer["database"])
            self.remarks.extend(_remark(fields) for fields in trailer["remarks"])
        finally:
            self.close()

    def _next(self, wanted: bytes) -> dict[str, Any]:
        while True:
            letter, payload = self._frame()
            if letter == wanted:
                fields: dict[str, Any] = json.loads(payload)
                return fields
            self._other(letter, payload)

    def _other(self, letter: bytes, payload: bytes) -> None:
        fields = json.loads(payload)
        if letter == b"E":
            self._listener(Event(**fields))
        elif letter == b"L":
            raise EntryLost(_remark(fields))
        else:
            raise self._lost(f"the capture process said {letter!r} out of turn")

    def _frame(self) -> tuple[bytes, bytes]:
        letter, length = FRAME.unpack(self._exactly(FRAME.size))
        return letter, self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        if self._child.returncode is not None:
            raise self._lost("the capture process was closed")
        buffer = bytearray(length)
        view = memoryview(buffer)
        while view:
            ready, _, _ = select.select([self._output], [], [], self._silence)
            if not ready:
                raise self._lost(f"the capture process said nothing for {self._silence:g} s")
            got = os.readv(self._output, [view])
            if not got:
                raise self._lost(f"the capture process {self._ending()}")
            view = view[got:]
        return bytes(buffer)

    def _ending(self) -> str:
        status = self._child.wait()
        if status < 0:
            return f"was killed by signal {-status}"
        return f"ended early with status {status}"

    def _lost(self, reason: str) -> EntryLost:
        return EntryLost(Remark(self._name, Outcome.UNREADABLE, reason, bytes=self.size))

    def close(self) -> None:
        child = self._child
        if child.returncode is None:
            # Nothing of it is worth an orderly end: its copies have no names any more and the kernel
            # takes its locks. A trailer that was read means it is ending anyway.
            with contextlib.suppress(OSError):
                child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def __del__(self) -> None:
        if hasattr(self, "_child"):
            self.close()


def _remark(fields: Mapping[str, object]) -> Remark:
    return Remark(
        path=str(fields["path"]),
        outcome=Outcome(str(fields["outcome"])),
        reason=str(fields["reason"]),
        files=int(str(fields["files"])),
        bytes=int(str(fields["bytes"])),
    )
