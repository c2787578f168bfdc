"""One pack per checkpoint: every new object in one file, however many there are.

A pack has no name until it is whole. The order is: data, its index, then the names, the index's last,
because a pack without an index is not seen. Thirteen loose objects would be thirteen
files of one block each and as many syncs; a pack is two of each.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from isal import isal_zlib

from safekept.core.files import fsync_directory, temporary_name, write_all
from safekept.core.platform.syncing import sync_file

from .objects import object_id

KINDS = {b"commit": 1, b"tree": 2, b"blob": 3}
LEVEL = 1
_FLUSH = 1 << 20
_FAR = 0x7FFFFFFF  # offsets beyond this go to the index's table of long ones


def entry_header(kind: int, size: int) -> bytes:
    byte = kind << 4 | size & 15
    size >>= 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    head.append(byte)
    return bytes(head)


class WriteFailed(Exception):
    """The store's disk would not take it. Not an OSError: those are the project's."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class PackWriter:
    """Collects objects in a temporary file in `scratch`; `finish` makes them part of the store.

    Leaving the block without `finish` removes everything.
    """

    def __init__(self, packs: str, scratch: str, durable: bool = True) -> None:
        self._packs, self._scratch, self._durable = packs, scratch, durable
        self._descriptor = -1
        self._temporary = ""
        self._buffer = bytearray(b"PACK\0\0\0\2\0\0\0\0")
        self._flushed = 0  # bytes that are in the file already
        self.entries: dict[bytes, tuple[int, int]] = {}  # oid -> offset, crc
        self.known: set[bytes] = set()  # objects that are surely in the store
        self.reuse: Callable[[bytes], bool] | None = None  # whether the store has an object already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._temporary:
            for path in (self._temporary, self._temporary + ".idx"):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def __contains__(self, oid: bytes) -> bool:
        return oid in self.entries

    @property
    def size(self) -> int:
        return self._flushed + len(self._buffer)

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Put an object in, once; returns its name."""
        oid = object_id(kind, data)
        known = oid in self.entries or oid in self.known
        if not known and (self.reuse is None or not self.reuse(oid)):
            self._put(oid, entry_header(KINDS[kind], len(data)) + isal_zlib.compress(data, LEVEL))
        return oid

    def _put(self, oid: bytes, entry: bytes) -> None:
        self.entries[oid] = (self.size, isal_zlib.crc32(entry))
        self._buffer += entry
        if len(self._buffer) >= _FLUSH:
            self._flush()

    def add_stream(self, size: int, chunks: Iterable[bytes]) -> bytes:
        """A blob too large to be held in memory. Raises ValueError when not exactly `size` bytes come.

        After any exception the pack is as it was before.
        """
        self._flush()
        start, taken, crc = self._flushed, 0, 0
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        compressor = isal_zlib.compressobj(LEVEL)
        try:
            piece = entry_header(KINDS[b"blob"], size)
            crc = self._append(piece, crc)
            for chunk in chunks:
                taken += len(chunk)
                digest.update(chunk)
                crc = self._append(compressor.compress(chunk), crc)
            crc = self._append(compressor.flush(), crc)
            if taken != size:
                raise ValueError(f"{taken} bytes came instead of {size}")
        except BaseException:
            self._forget(start)
            raise
        oid = digest.digest()
        if oid in self.entries:
            self._forget(start)
        else:
            self.entries[oid] = (start, crc)
        return oid

    def finish(self) -> str:
        """Give the pack its name; returns it. From here on all objects are in the store."""
        try:
            return self._finish()
        except OSError as error:
            raise WriteFailed(error) from error

    def _finish(self) -> str:
        self._flush()
        descriptor = self._descriptor
        os.pwrite(descriptor, struct.pack(">I", len(self.entries)), 8)
        checksum = self._checksum()
        write_all(descriptor, checksum)
        index = index_bytes(self.entries, checksum)
        name = os.path.join(self._packs, f"pack-{index[-40:-20].hex()}")
        index_descriptor = os.open(
            self._temporary + ".idx", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400
        )
        try:
            write_all(index_descriptor, index)
            if self._durable:
                sync_file(descriptor)
                sync_file(index_descriptor)
        finally:
            os.close(index_descriptor)
        self._close()
        os.rename(self._temporary, name + ".pack")
        os.rename(self._temporary + ".idx", name + ".idx")
        if self._durable:
            fsync_directory(self._packs)
        self._temporary = ""
        return name

    def _append(self, data: bytes, crc: int) -> int:
        if data:
            try:
                write_all(self._descriptor, data)
            except OSError as error:
                raise WriteFailed(error) from error
            self._flushed += len(data)
        return isal_zlib.crc32(data, crc)

    def _flush(self) -> None:
        try:
            if self._descriptor < 0:
                self._temporary = temporary_name(self._scratch)
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self._temporary, flags, 0o400)
            if self._buffer:
                write_all(self._descriptor, memoryview(self._buffer))
        except OSError as error:
            raise WriteFailed(error) from error
        self._flushed += len(self._buffer)
        self._buffer = bytearray()

    def _forget(self, start: int) -> None:
        os.ftruncate(self._descriptor, start)
        os.lseek(self._descriptor, start, os.SEEK_SET)
        self._flushed = start

    def _checksum(self) -> bytes:
        digest, position = hashlib.sha1(usedforsecurity=False), 0
        while chunk := os.pread(self._descriptor, _FLUSH, position):
            digest.update(chunk)
            position += len(chunk)
        return digest.digest()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def index_bytes(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    """The index (version 2) of a pack with that checksum."""
    oids = sorted(entries)
    counts, position = [], 0
    for first in range(256):
        while position < len(oids) and oids[position][0] <= first:
            position += 1
        counts.append(position)
    near: list[int] = []
    far: list[int] = []
    for oid in oids:
        offset = entries[oid][0]
        if offset > _FAR:
            near.append(0x80000000 | len(far))
            far.append(offset)
        else:
            near.append(offset)
    body = b"".join(
        (
            b"\377tOc\0\0\0\2",
            struct.pack(">256I", *counts),
            *oids,
            struct.pack(f">{len(oids)}I", *[entries[oid][1] for oid in oids]),
            struct.pack(f">{len(near)}I", *near),
            struct.pack(f">{len(far)}Q", *far),
            checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
