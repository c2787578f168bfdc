"""The command line without the price of a new interpreter, and still in a process of its own each time.

A parent imports every command once; each call is a fork of it. What one call leaves in memory, the
next one never sees, and a call that hangs is ended alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from support.commands.error_texts import error_code

_PARENT = """
import importlib, json, os, sys
from safekept.cli import main as door
for module, _ in door.COMMANDS.values():
    importlib.import_module(module.partition(":")[0])
print("ready", flush=True)
for line in sys.stdin:
    call = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        os.environ.clear()
        os.environ.update(call["environment"])
        os.chdir(call["directory"])
        for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, call["out"], os.O_WRONLY),
                                    (2, call["err"], os.O_WRONLY)):
            opened = os.open(path, flags | os.O_TRUNC)
            os.dup2(opened, number)
            os.close(opened)
        sys.argv = ["safekept", *call["words"]]
        try:
            door.main()
        finally:
            os._exit(99)
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Hung(AssertionError):
    """A command did not end in its time; it was ended."""


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> str:
        """The code of the error it ended with, or nothing."""
        try:
            return str(self.document["error"]["code"])
        except (ValueError, KeyError, TypeError):
            return error_code(self.err)


class WarmCommands:
    """`with WarmCommands() as run: run(["snapshot"], environment, directory)`."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="safekept-warm-")
        self._out, self._err = (os.path.join(self._directory.name, name) for name in ("out", "err"))
        for path in (self._out, self._err):
            with open(path, "w"):
                pass
        self._parent = subprocess.Popen(
            [sys.executable, "-I", "-c", _PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # nothing may wait in a buffer, where `select` does not see it
            env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        )
        assert self._line(300.0) == "ready"
        return self

    def __call__(
        self, words: list[str], environment: dict[str, str], directory: str, seconds: float = 300.0
    ) -> Said:
        call = {"words": words, "environment": environment, "directory": directory}
        assert self._parent.stdin is not None
        line = json.dumps({**call, "out": self._out, "err": self._err}).encode() + b"\n"
        assert self._parent.stdin.write(line) == len(line)
        child = int(self._line(seconds))
        try:
            code = int(self._line(seconds))
        except Hung:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            self._line(10.0)
            raise Hung(f"`safekept {' '.join(words)}` did not end in {seconds:.0f} s") from None
        with open(self._out, errors="replace") as out, open(self._err, errors="replace") as err:
            return Said(code, out.read(), err.read())

    def _line(self, seconds: float) -> str:
        assert self._parent.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._parent.stdout], [], [], seconds)[0]:
                raise Hung
            piece = os.read(self._parent.stdout.fileno(), 1)
            if not piece:
                raise AssertionError("the parent of the commands died")
            line += piece
        return line.decode().strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parent.communicate()  # closes its standard input, which ends it
        self._directory.cleanup()
