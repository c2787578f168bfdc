"""The bytes of one object out of S3, whole, in part, or as a stream."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..base import CHUNK

if TYPE_CHECKING:
    from obstore.store import S3Store


# The last few objects that were read whole, for a server that cannot give a part of one. Without ranges
# every blob of a pack would cost the whole pack again. A handful of packs in memory is enough: a restore
# reads each of them to its end before it goes on.

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


def fetch(store: S3Store, name: str, offset: int, length: int | None) -> bytes | None:
    """The bytes of a part, or of the whole (0, None); None where fewer came than were announced."""
    import obstore

    span: Any = None
    if length is not None:
        span = {"range": (offset, offset + length)}
    elif offset:
        span = {"range": {"offset": offset}}
    answer = obstore.get(store, name, options=span)
    start, end = answer.range
    data = bytes(answer.bytes())
    return data if len(data) == end - start else None


def begin(store: S3Store, name: str, offset: int) -> Iterator[Any]:
    """A stream from somewhere to the end; its pieces are buffers."""
    import obstore

    span: Any = {"range": {"offset": offset}} if offset else None
    return iter(obstore.get(store, name, options=span).stream(min_chunk_size=CHUNK))


def skipping(pieces: Iterator[Any], count: int) -> Iterator[Any]:
    """The rest of a stream after so many bytes."""
    for piece in pieces:
        if count >= len(piece):
            count -= len(piece)
        else:
            yield memoryview(piece)[count:] if count else piece
            count = 0
