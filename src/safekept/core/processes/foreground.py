"""Runs a program in the foreground as if nothing stood between it and its terminal.

It shares our process group, so what the terminal sends (Ctrl-C, Ctrl-Z, a new window size, a hang-up)
reaches it by itself; we wait. What is sent to us alone is handed on. What we were told to ignore, as by
`nohup`, it ignores too. When it stops itself, we stop, so that the shell gets its terminal back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from ..errors import SafekeptError
from ..platform.rights import follows_stops, note_stop, stopped
from ..records import dataclass

# The terminal as it was: an agent that is killed in full screen leaves it unusable for the next
# question.


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Afterwards its settings are as before, and it is ours again if no other process has it."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield  # there is none
        return
    try:
        ours = _foreground(descriptor) == os.getpgrp()
        before = None
        with contextlib.suppress(termios.error):
            before = termios.tcgetattr(descriptor) if ours else None
        yield
        if ours:
            _take_back(descriptor)
        if before is not None and _foreground(descriptor) == os.getpgrp():
            with contextlib.suppress(termios.error):
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    finally:
        os.close(descriptor)


def _foreground(descriptor: int) -> int:
    try:
        return os.tcgetpgrp(descriptor)
    except OSError:
        return 0


def _take_back(descriptor: int) -> None:
    """An agent that made itself the foreground and was killed left the terminal without an owner."""
    group = _foreground(descriptor)
    if group == os.getpgrp() or group == 0:
        return
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(descriptor, os.getpgrp())
        finally:
            signal.signal(signal.SIGTTOU, before)
    except OSError:
        return


#: Handed on where they reach us; of these, what a terminal sends to everybody in the foreground.
_HANDED_ON = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
#: Seconds after which a program that stopped is taken to have stopped for good: one that was continued with
#: us may seem stopped for a moment.
_SETTLE = 0.05


class CommandNotFound(SafekeptError):
    code, exit_code = "command-not-found", 127


class CommandNotExecutable(SafekeptError):
    code, exit_code = "command-not-executable", 126


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    status: int  # as a shell gives it: 128 + n where signal n ended it
    signal: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """`ended with status 2`, `was ended by SIGKILL`."""
        if not self.signal:
            return f"ended with status {self.status}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = f"signal {self.signal}"
        return f"was ended by {name}"


def find_program(name: str, search: str) -> str:
    """Where a program is; raises where there is none, or it cannot be run. `search` is a PATH."""
    found = shutil.which(name, path=search or os.defpath)
    if found is not None:
        return found
    directories = [""] if os.path.dirname(name) else (search or os.defpath).split(os.pathsep)
    for directory in directories:
        if os.path.isfile(os.path.join(directory, name)):
            raise _not_executable(os.path.join(directory, name), "it may not be executed")
    raise _not_found(name)


def run_in_foreground(words: Sequence[str]) -> Ended:
    """Run a program to its end, with our own terminal, input and output. Only from the main thread.

    Raises CommandNotFound or CommandNotExecutable where it did not start.
    """
    began = time.monotonic()
    with _Signals() as signals:
        try:
            child = subprocess.Popen(list(words), close_fds=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _not_found(words[0]) from error
        except OSError as error:
            raise _not_executable(words[0], error.strerror or str(error)) from error
        signals.hand_on_to(child.pid)
        _wait(child.pid)
        code = child.wait()
    seconds = time.monotonic() - began
    return Ended(code, seconds=seconds) if code >= 0 else Ended(128 - code, -code, seconds)


class _Signals:
    """Hands signals on while it is entered."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, object] = {}
        self._pid = 0
        self._early: list[int] = []  # what came while the program was being started

    def __enter__(self) -> _Signals:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in _HANDED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                # A handler of ours is the default again in the program, which is what it would have had.
                self._before[number] = signal.signal(number, self._take)
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # its end would never be told
            self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]

    def hand_on_to(self, pid: int) -> None:
        self._pid = pid
        for number in self._early:
            self._take(number, None)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if number in _FROM_TERMINAL and _in_foreground():
            return  # the terminal sent it to the program, too
        if not self._pid:
            self._early.append(number)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, number)


def _wait(pid: int) -> None:
    """Until it ended; stops with it where there is a terminal to go back to."""
    if not follows_stops():
        return
    while stopped(pid, wait=True):
        time.sleep(_SETTLE)
        if not stopped(pid, wait=False):
            continue
        note_stop(pid)
        if _has_terminal():
            os.kill(os.getpid(), signal.SIGSTOP)
            # Here again: we were continued, and perhaps only we were.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    descriptor = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_terminal() -> bool:
    try:
        with _terminal():
            return True
    except OSError:
        return False


def _in_foreground() -> bool:
    try:
        with _terminal() as descriptor:
            return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False


def _not_found(name: str) -> CommandNotFound:
    return CommandNotFound(
        f"There is no command `{name}`",
        kept="The command was not run",
        next_steps=("Check its spelling, or give its full path",),
        command=name,
    )


def _not_executable(name: str, reason: str) -> CommandNotExecutable:
    return CommandNotExecutable(
        f"`{name}` cannot be run: {reason}",
        kept="The command was not run",
        next_steps=("Make it executable, or name the program that runs it",),
        command=name,
    )
