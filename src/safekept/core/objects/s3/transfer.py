"""A large file on its way in parts, hashed as the ETag of a multipart upload is made.

That ETag is the MD5 of the parts' MD5s and their number. Knowing it beforehand, nothing has to be read back.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from ..base import CHUNK, LARGEST_READ

if TYPE_CHECKING:
    from obstore.store import S3Store


class Parts:
    """A file in pieces of one length, hashed on the way as a multipart ETag is made."""

    def __init__(self, begin: bytearray, rest: BinaryIO, length: int) -> None:
        self._begin, self._rest, self._length = begin, rest, length
        self._digests = b""
        self._part = hashlib.md5(usedforsecurity=False)
        self._in_part = 0
        self._whole = hashlib.sha256()
        self.size = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self._begin), CHUNK):
            yield self._count(bytes(self._begin[at : at + CHUNK]))
        while data := self._next():
            yield self._count(data)

    def _next(self) -> bytes:
        try:
            return self._rest.read(CHUNK)
        except Exception as error:
            self.error = error  # the caller's own file failed, not the place
            raise

    def _count(self, data: bytes) -> bytes:
        self._whole.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            piece = view[: self._length - self._in_part]
            self._part.update(piece)
            self._in_part += len(piece)
            if self._in_part == self._length:
                self._end_part()
            view = view[len(piece) :]
        return data

    def _end_part(self) -> None:
        self._digests += self._part.digest()
        self._part, self._in_part = hashlib.md5(usedforsecurity=False), 0

    def etag(self) -> str:
        if self._in_part:
            self._end_part()
        whole = hashlib.md5(self._digests, usedforsecurity=False).hexdigest()
        return f"{whole}-{len(self._digests) // 16}"

    def digest(self) -> bytes:
        return self._whole.digest()


def fill_buffer(file: BinaryIO, buffer: bytearray) -> int:
    """As much of a file as fits."""
    view, filled = memoryview(buffer), 0
    plain = type(file) in (io.FileIO, io.BufferedReader, io.BytesIO)  # others may count on `read`
    while filled < len(buffer):
        if plain:
            count = file.readinto(view[filled : filled + CHUNK]) or 0  # type: ignore[attr-defined]
        else:
            data = file.read(min(CHUNK, len(buffer) - filled))
            count = len(data)
            view[filled : filled + count] = data
        if not count:
            break
        filled += count
    return filled


def remaining(file: BinaryIO) -> int | None:
    """How much of a file is still to be read; None where it cannot say."""
    try:
        here = file.tell()
        end = file.seek(0, 2)
        file.seek(here)
        return end - here
    except (OSError, AttributeError):
        return None


# The bytes of one object out of S3, whole, in part, or as a stream.

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


class Oversize(Exception):
    """More is announced than any object of ours has that is read at once."""


def fetch(store: S3Store, name: str, offset: int, length: int | None) -> bytes | None:
    """The bytes of a part, or of the whole (0, None); None where fewer came than were announced.

    Raises Oversize where that is more than is ever read at once; nothing of it is taken.
    """
    import obstore

    span: Any = None
    if length is not None:
        span = {"range": (offset, offset + length)}
    elif offset:
        span = {"range": {"offset": offset}}
    answer = obstore.get(store, name, options=span)
    start, end = answer.range
    if end - start > LARGEST_READ:
        raise Oversize
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
