"""A limit for bytes a second, shared by every thread that writes to one place.

A reservation: each taker moves the moment at which the next may start, and sleeps until its own. So the
average holds however many threads there are and however large the pieces; an idle time earns one second
of burst and no more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_BURST = 1.0  # seconds


class Rate:
    """Bytes a second; 0 is no limit."""

    def __init__(
        self,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limit = limit
        self._clock, self._sleep = clock, sleep
        self._free_at = clock() - _BURST
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Wait until so many bytes may be sent."""
        if self.limit <= 0 or count <= 0:
            return
        with self._lock:
            now = self._clock()
            start = max(self._free_at, now - _BURST)
            self._free_at = start + count / self.limit
            wait = self._free_at - now
        if wait > 0:
            self._sleep(wait)
