"""Work that is not waited for: marks after a turn, records, a snapshot at the end of a session.

One thread does it in order, and only while no caller waits for an answer. Of two pieces with one key that
both wait, the later one is enough.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator

from safekept.core.worker import Worker

#: Seconds after which waiting work is done even though callers are being served.
_LONGEST_WAIT = 2.0
#: So many pieces may wait; beyond it the caller does the work itself.
_MOST = 1000


class LaterWork:
    """Runs until it is asked to end, and then until nothing waits any more."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._serving = 0
        self._ending = False
        self._running = False
        self._worker = Worker(self._run, "safekept-later")

    def add(self, key: Hashable, work: Callable[[], None]) -> None:
        with self._change:
            accepted = not self._ending and (key in self._waiting or len(self._waiting) < _MOST)
            if accepted:
                self._waiting.pop(key, None)  # it moves to the end: what it marks is what is there then
                self._waiting[key] = work
                self._change.notify_all()
        if not accepted:
            _quietly(work)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """While a caller waits for an answer."""
        with self._change:
            self._serving += 1
        try:
            yield
        finally:
            with self._change:
                self._serving -= 1
                self._change.notify_all()

    @property
    def pending(self) -> int:
        with self._change:
            return len(self._waiting) + self._running

    def end(self, timeout: float) -> bool:
        """Take nothing more, and wait for what is there."""
        with self._change:
            self._ending = True
            self._change.notify_all()
        return self._worker.wait(timeout)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                if not self._ending:
                    self._change.wait_for(lambda: not self._serving or self._ending, _LONGEST_WAIT)
                key = next(iter(self._waiting))
                work = self._waiting.pop(key)
                self._running = True
            _quietly(work)
            with self._change:
                self._running = False
                self._change.notify_all()


def _quietly(work: Callable[[], None]) -> None:
    """Whatever goes wrong is in the outcome that the work itself remembers."""
    with contextlib.suppress(Exception):
        work()
