"""Work that ends when its time is over, in good order: as if somebody had asked the process to end.

An alarm signal raises OutOfTime on the main thread, so every `finally` on the way out runs, exactly as it
does when the process is told to end. It is no `Exception`: nothing that forgives errors may swallow it.
It may come between any two instructions, so what it interrupted is not gone on with in the same process.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType


class OutOfTime(BaseException):
    """The time that was given to a piece of work is over."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the block once so much time is over; 0 or less: never.

    Only the main thread can be reached that way; elsewhere the block has no limit. A timer that ran before
    goes on afterwards with what was left of it.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = True

    def ring(number: int, frame: FrameType | None) -> None:
        if waiting:
            raise OutOfTime

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            yield
        finally:
            waiting = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.01), interval)
