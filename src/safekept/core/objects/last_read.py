"""The last few objects that were read whole, for a server that cannot give a part of one.

Without ranges every blob of a pack would cost the whole pack again. A handful of packs in memory is enough:
a restore reads each of them to its end before it goes on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

_MOST = 48 << 20  # bytes


class LastRead:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, bytes] = OrderedDict()

    def part(self, name: str, offset: int, length: int | None, read: Callable[[], bytes]) -> bytes:
        """A part of an object; `read` gives the whole where it is not at hand."""
        with self._lock:
            data = self._objects.get(name)
            if data is not None:
                self._objects.move_to_end(name)
        if data is None:
            data = read()
            with self._lock:
                self._objects[name] = data
                while sum(map(len, self._objects.values())) > _MOST and len(self._objects) > 1:
                    self._objects.popitem(last=False)
        return data[offset:] if length is None else data[offset : offset + length]

    def forget(self, name: str) -> None:
        with self._lock:
            self._objects.pop(name, None)
