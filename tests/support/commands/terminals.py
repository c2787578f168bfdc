"""A terminal with a program on it, for what only a terminal does: Ctrl-C, Ctrl-Z, a question."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Mapping
from typing import Self

from support.commands.waiting import PATIENT, wait_until


def wait_for_hidden_input(controller: int) -> None:
    """Until what is typed is not shown. A question for a passphrase is written before that, and what is
    typed in between is thrown away."""
    wait_until(lambda: not termios.tcgetattr(controller)[3] & termios.ECHO, "a question for something hidden")


class Terminal:
    """Runs a program in a session of its own with this as its terminal; reads until it sees something."""

    def __init__(self, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self._master, inner = pty.openpty()
        self.process = subprocess.Popen(
            words,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=None if environment is None else dict(environment),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever is left in its session goes with it."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the window."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def until(self, text: str) -> None:
        """Read until this was seen; a long silence, or the end, is a failure."""
        while text not in self.seen:
            assert self._read(), f"ended without {text!r}: {self.seen!r}"

    def until_hidden(self) -> None:
        """Until what is typed is not shown."""
        wait_for_hidden_input(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> int:
        """Ctrl-C at a question, and the exit code.

        Python loses one that comes in the very moment before it waits for a key, and takes note of it at
        the next. Where nothing comes of it for half a minute it is pressed once more, as a person would.
        """
        for _ in range(5):
            self.type("\x03")
            while select.select([self._master], [], [], 30)[0]:
                if not self._read():
                    return self.process.wait(PATIENT)
        raise AssertionError(f"Ctrl-C does nothing after {self.seen!r}")

    def end(self) -> int:
        """Read to the end; the exit code, negative for a signal."""
        while self._read():
            pass
        return self.process.wait(PATIENT)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENT)
        assert ready, f"silent for {PATIENT:.0f} s after {self.seen!r}"
        try:
            data = os.read(self._master, 4096)
        except OSError:  # the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
