"""The terminal as it was: an agent that is killed in full screen leaves it unusable for the next question."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Iterator


@contextlib.contextmanager
def terminal_kept() -> Iterator[None]:
    """Afterwards its settings are as before, and it is ours again if nobody else is there to have it."""
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
    """An agent that made itself the foreground and was killed left the terminal to nobody."""
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
