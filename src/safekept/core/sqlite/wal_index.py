"""The wal-index: which page of the committed state lies in which frame of the write-ahead log.

Read from `-shm` while a read transaction of SQLite pins it. The header there is written twice;
both copies must agree. Page numbers of all frames follow in blocks, so the map of a log of any
length costs a few reads. Each frame's own header is checked again when the frame is read.
"""

from __future__ import annotations

import os
import struct
from array import array
from dataclasses import dataclass

#: The only version of the wal-index and of the log there has been since 2010.
VERSION = 3007000

#: One block is 32 KiB: 4096 page numbers, then a hash table. In the first block the header takes
#: the place of the first 34 page numbers.
_BLOCK, _NUMBERS, _HEADER_BYTES = 32768, 4096, 136

FRAME_HEADER = 24
LOG_HEADER = 32


class OddLog(Exception):
    """A log that the page reader does not understand; the backup API is used instead."""


@dataclass(frozen=True, slots=True)
class WalIndex:
    """One committed state, as the shared memory describes it."""

    identity: bytes  # the whole header; two equal ones are the same state
    page_size: int
    frames: int  # frames that belong to the state
    pages: int  # pages of the database in that state
    salt: bytes
    backfilled: int  # frames that are already in the main file

    @property
    def in_main_file(self) -> bool:
        """Whether the main file alone is the state; the log must then not be laid over it."""
        return self.backfilled >= self.frames


def read_index(shm: int) -> WalIndex | None:
    """The current header; None while a writer is changing it or before it was made."""
    first = os.pread(shm, _HEADER_BYTES, 0)
    again = os.pread(shm, _HEADER_BYTES, 0)
    if len(first) < _HEADER_BYTES or not first[:48] == first[48:96] == again[:48] == again[48:96]:
        return None
    version, _, _, ready, _, size, frames, pages = struct.unpack_from("=IIIBBHII", first)
    if not ready:
        return None
    if version != VERSION:
        raise OddLog(f"wal-index of version {version}")
    return WalIndex(
        identity=first[:48],
        # 65536 does not fit sixteen bits and is stored as 1.
        page_size=(size & 0xFE00) | ((size & 1) << 16),
        frames=frames,
        pages=pages,
        salt=first[32:40],
        backfilled=struct.unpack_from("=I", first, 96)[0],
    )


def page_map(shm: int, index: WalIndex) -> dict[int, int]:
    """Page number → number of the last frame (from 1) that holds it."""
    latest: dict[int, int] = {}
    frame, block = 1, 0
    while frame <= index.frames:
        start = _HEADER_BYTES if block == 0 else 0
        room = _NUMBERS - start // 4
        count = min(room, index.frames - frame + 1)
        data = os.pread(shm, count * 4, block * _BLOCK + start)
        if len(data) < count * 4:
            raise OddLog("the wal-index is shorter than its log")
        latest.update(zip(array("I", data), range(frame, frame + count), strict=True))
        frame, block = frame + count, block + 1
    return latest


def check_log(wal: int, index: WalIndex) -> None:
    """Refuse a log whose header or last frame does not belong to the pinned state."""
    head = os.pread(wal, LOG_HEADER, 0)
    if len(head) < LOG_HEADER:
        raise OddLog("the log has no header")
    magic, version, page_size = struct.unpack_from(">III", head)
    if magic & ~1 != 0x377F0682 or version != VERSION or page_size != index.page_size:
        raise OddLog(f"log of version {version}")
    if head[16:24] != index.salt:
        raise OddLog("the log is of another generation than its index")
    offset = LOG_HEADER + (index.frames - 1) * (FRAME_HEADER + index.page_size)
    last = os.pread(wal, FRAME_HEADER, offset)
    if len(last) < FRAME_HEADER or last[8:16] != index.salt:
        raise OddLog("the log is shorter than its index")
    if struct.unpack_from(">I", last, 4)[0] != index.pages:
        raise OddLog("the last frame of the log is not a commit")
