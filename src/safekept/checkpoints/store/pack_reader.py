"""Reading one pack, also one that git made with deltas."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator

from isal import isal_zlib

from safekept.core.files.small import open_regular

from .objects import BadObject

_NAMES = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFFSET_DELTA, _NAME_DELTA = 6, 7
_CHUNK = 1 << 20
#: The stubs of isal call it an instance.
BROKEN: type[Exception] = isal_zlib.error  # type: ignore[assignment]


class BadGitPack(Exception):
    """A pack or an index that is not what its name says."""


class Pack:
    """A pack and its index, both mapped. `base` finds objects that deltas refer to by name."""

    def __init__(self, path: str, base: Callable[[bytes], tuple[bytes, bytes]]) -> None:
        self.path = path  # without suffix
        self._base = base
        self._index = _mapped(path + ".idx")
        self._data: mmap.mmap | None = None
        index = self._index
        if len(index) < 1072 or index[:8] != b"\377tOc\0\0\0\2":
            raise BadGitPack(f"{path}.idx is not an index")
        self._fan = struct.unpack_from(">256I", index, 8)
        self.count = self._fan[255]
        if len(index) < 1072 + self.count * 28:
            raise BadGitPack(f"{path}.idx is cut short")

    def close(self) -> None:
        self._index.close()
        if self._data is not None:
            self._data.close()

    def open(self) -> None:
        """Map the data, too. From then on it can be read even if the files are removed."""
        self._map()

    def oids(self) -> Iterator[bytes]:
        """Every name, in order."""
        table = self._index[1032 : 1032 + 20 * self.count]
        return (table[start : start + 20] for start in range(0, len(table), 20))

    def offset(self, oid: bytes) -> int:
        """Where an object begins; -1 where it is not in this pack."""
        low = self._fan[oid[0] - 1] if oid[0] else 0
        high, index = self._fan[oid[0]], self._index
        position = bisect_left(
            range(high), oid, lo=low, key=lambda at: index[1032 + 20 * at : 1052 + 20 * at]
        )
        if position >= high or index[1032 + 20 * position : 1052 + 20 * position] != oid:
            return -1
        start = 1032 + 24 * self.count
        (near,) = struct.unpack_from(">I", index, start + 4 * position)
        if near & 0x80000000:
            (near,) = struct.unpack_from(">Q", index, start + 4 * self.count + 8 * (near & 0x7FFFFFFF))
        return int(near)

    def read(self, offset: int, oid: bytes) -> tuple[bytes, bytes]:
        """The kind and the bytes of the object at an offset."""
        deltas: list[bytes] = []
        while True:
            kind, size, start = self._head(offset)
            data = self._inflate(start, size, oid) if kind in _NAMES else b""
            if kind in _NAMES:
                name = _NAMES[kind]
                break
            if kind == _OFFSET_DELTA:
                distance, start = self._distance(start)
                deltas.append(self._inflate(start, size, oid))
                offset -= distance
            elif kind == _NAME_DELTA:
                parent = self._map()[start : start + 20]
                deltas.append(self._inflate(start + 20, size, oid))
                name, data = self._base(parent)
                break
            else:
                raise BadObject(oid.hex(), "has an unknown kind")
        for delta in reversed(deltas):
            data = apply_delta(data, delta, oid)
        return name, data

    def size(self, offset: int, oid: bytes) -> int:
        """How long an object is, without inflating it where it is stored whole."""
        kind, size, _ = self._head(offset)
        return size if kind in _NAMES else len(self.read(offset, oid)[1])

    def stream(self, offset: int, oid: bytes) -> Iterator[bytes]:
        """The bytes of an object in pieces; one stored as a delta comes whole."""
        kind, size, start = self._head(offset)
        if kind not in _NAMES:
            yield self.read(offset, oid)[1]
            return
        data, done = self._map(), 0
        inflater = isal_zlib.decompressobj()
        try:
            while done < size and start < len(data):
                piece = inflater.decompress(data[start : start + _CHUNK], _CHUNK)
                start += _CHUNK
                while piece:
                    done += len(piece)
                    yield piece
                    piece = inflater.decompress(inflater.unconsumed_tail, _CHUNK)
        except BROKEN as error:
            raise BadObject(oid.hex(), f"cannot be inflated: {error}") from error
        if done != size:
            raise BadObject(oid.hex(), "is cut short")

    def _map(self) -> mmap.mmap:
        if self._data is None:
            self._data = _mapped(self.path + ".pack")
            if self._data[:8] != b"PACK\0\0\0\2":
                raise BadGitPack(f"{self.path}.pack is not a pack")
        return self._data

    def _head(self, offset: int) -> tuple[int, int, int]:
        data = self._map()
        try:
            byte = data[offset]
            kind, size, shift = byte >> 4 & 7, byte & 15, 4
            while byte & 0x80:
                offset += 1
                byte = data[offset]
                size |= (byte & 0x7F) << shift
                shift += 7
        except IndexError:
            raise BadGitPack(f"{self.path}.pack is cut short") from None
        return kind, size, offset + 1

    def _distance(self, start: int) -> tuple[int, int]:
        data = self._map()
        byte = data[start]
        distance = byte & 0x7F
        while byte & 0x80:
            start += 1
            byte = data[start]
            distance = (distance + 1) << 7 | byte & 0x7F
        return distance, start + 1

    def _inflate(self, start: int, size: int, oid: bytes) -> bytes:
        data = self._map()
        inflater = isal_zlib.decompressobj()
        try:
            # Deflate adds at most a few bytes for each 16 KiB, so this slice holds the whole stream.
            result = bytes(inflater.decompress(data[start : start + size + (size >> 10) + 128]))
        except BROKEN as error:
            raise BadObject(oid.hex(), f"cannot be inflated: {error}") from error
        if len(result) != size:
            raise BadObject(oid.hex(), "is cut short")
        return result


def apply_delta(base: bytes, delta: bytes, oid: bytes) -> bytes:
    """What a delta makes of its base."""
    position, sizes = 0, []
    try:
        for _ in range(2):
            size = shift = 0
            while True:
                byte = delta[position]
                position += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if not byte & 0x80:
                    break
            sizes.append(size)
        pieces = []
        while position < len(delta):
            order = delta[position]
            position += 1
            if order & 0x80:
                start = length = 0
                for bit in range(4):
                    if order & 1 << bit:
                        start |= delta[position] << 8 * bit
                        position += 1
                for bit in range(3):
                    if order & 16 << bit:
                        length |= delta[position] << 8 * bit
                        position += 1
                pieces.append(base[start : start + (length or 0x10000)])
            else:
                pieces.append(delta[position : position + order])
                position += order
    except IndexError:
        raise BadObject(oid.hex(), "has a broken delta") from None
    result = b"".join(pieces)
    if sizes != [len(base), len(result)]:
        raise BadObject(oid.hex(), "has a broken delta")
    return result


def _mapped(path: str) -> mmap.mmap:
    descriptor = open_regular(path)
    try:
        with contextlib.suppress(ValueError):
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        raise BadGitPack(f"{path} is empty")
    finally:
        os.close(descriptor)
