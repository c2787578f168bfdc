"""A large file on its way in parts, hashed as the ETag of a multipart upload is made.

That ETag is the MD5 of the parts' MD5s and their number. Knowing it beforehand, nothing has to be read back.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import BinaryIO

from ..base import CHUNK


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
