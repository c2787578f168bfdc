"""What two threads have to stage: the largest files go to one, the small ones to the other, and whoever
is done first helps. Nothing is staged twice, and small files stay in the order of their source."""

from __future__ import annotations

import threading
from collections import deque

from safekept.core.entries import Entry

from ..items import Item

#: Below this a second thread gains nothing: the work is Python's own and not inflating or hashing.
WORTH_A_THREAD = 256 << 10
#: Small files that one thread takes over from the other when it has nothing else to do.
_WORTH_HALVING = 32


class StagingQueue:
    """What two threads have to stage: large files from one end, small ones in order from the other."""

    def __init__(self, work: list[tuple[Item, Entry]]) -> None:
        # The small ones stay in the order of the source: in an archive they lie one after the other.
        self._small = deque(pair for pair in work if pair[0].size < WORTH_A_THREAD)
        self._large = sorted(
            (pair for pair in work if pair[0].size >= WORTH_A_THREAD), key=lambda pair: pair[0].size
        )
        self._mutex = threading.Lock()

    def next(self) -> tuple[Item, Entry] | None:
        """The next small file; when they are all taken, the smallest of the large ones."""
        with self._mutex:
            if self._small:
                return self._small.popleft()
            return self._large.pop(0) if self._large else None

    def large(self) -> tuple[Item, Entry] | None:
        """The largest that is left."""
        with self._mutex:
            return self._large.pop() if self._large else None

    def rest(self) -> list[tuple[Item, Entry]]:
        """The later half of the small files that are left, in order; nothing where it is not worth it."""
        with self._mutex:
            count = len(self._small) // 2
            if count < _WORTH_HALVING:
                return []
            half = [self._small.pop() for _ in range(count)]
        half.reverse()
        return half
