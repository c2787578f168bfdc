"""The page reader: a live database in WAL mode, read as one committed state beside its writers.

A read transaction of SQLite pins the log: a checkpoint may then copy only frames up to our mark
into the main file, and the log cannot begin again. So main file + committed frames laid over it is
one state, whatever writers do meanwhile, and none of them waits for us. Where the log was already
copied whole, the main file alone is the state and is frozen, and the log must *not* be laid over
it. The shared memory is opened read-only: not a byte of any sidecar is written. (SQLite shares that
one opening within a process, so a writer of the same database in *this* process would fail while
we read; that is one more reason for `isolated`.)
"""

from __future__ import annotations

import bisect
import os
import struct
from array import array
from typing import TYPE_CHECKING

from ...entries import Outcome
from ...records import dataclass
from ..descriptors import Descriptors
from ..format import BUSY, CANTOPEN, LOCKED, READONLY, connect, error_code
from .locks import Patience
from .pinned import Pinned

if TYPE_CHECKING:
    import sqlite3


# The wal-index: which page of the committed state lies in which frame of the write-ahead log. Read from
# `-shm` while a read transaction of SQLite pins it. The header there is written twice; both copies must
# agree. Page numbers of all frames follow in blocks, so the map of a log of any length costs a few
# reads. Each frame's own header is checked again when the frame is read.

#: The only version of the wal-index and of the log there has been since 2010.
VERSION = 3007000

#: One block is 32 KiB: 4096 page numbers, then a hash table. In the first block the header takes
#: the place of the first 34 page numbers.
_BLOCK, _NUMBERS, _HEADER_BYTES = 32768, 4096, 136

FRAME_HEADER = 24
LOG_HEADER = 32


class UnknownLogFormat(Exception):
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
        raise UnknownLogFormat(f"wal-index of version {version}")
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
            raise UnknownLogFormat("the wal-index is shorter than its log")
        latest.update(zip(array("I", data), range(frame, frame + count), strict=True))
        frame, block = frame + count, block + 1
    return latest


def check_log(wal: int, index: WalIndex) -> None:
    """Refuse a log whose header or last frame does not belong to the pinned state."""
    head = os.pread(wal, LOG_HEADER, 0)
    if len(head) < LOG_HEADER:
        raise UnknownLogFormat("the log has no header")
    magic, version, page_size = struct.unpack_from(">III", head)
    if magic & ~1 != 0x377F0682 or version != VERSION or page_size != index.page_size:
        raise UnknownLogFormat(f"log of version {version}")
    if head[16:24] != index.salt:
        raise UnknownLogFormat("the log is of another generation than its index")
    offset = LOG_HEADER + (index.frames - 1) * (FRAME_HEADER + index.page_size)
    last = os.pread(wal, FRAME_HEADER, offset)
    if len(last) < FRAME_HEADER or last[8:16] != index.salt:
        raise UnknownLogFormat("the log is shorter than its index")
    if struct.unpack_from(">I", last, 4)[0] != index.pages:
        raise UnknownLogFormat("the last frame of the log is not a commit")


#: How often the pin is retried until no commit fell between the two looks at the index. Each try
#: takes a tenth of a millisecond; a writer would have to commit ten thousand times a second.
_TRIES = 200


class NotLive(Exception):
    """What looked like a live log is not one any more; decide again."""


class Live(Pinned):
    """A read transaction, and the overlay that belongs to it."""

    method = "pages"

    def __init__(
        self, name: str, descriptors: Descriptors, shm: int, patience: Patience, joined: bool = True
    ) -> None:
        """Pin. Raises NotLive where the users of the database left meanwhile.

        `joined`: we count as a user of the shared memory, so what is in there is valid. Where that
        cannot be known, SQLite opens it in its own way and the backup API does the reading.
        """
        super().__init__(name)
        self.descriptors = descriptors
        # Why the page reader does not apply, if so; the connection is pinned anyway.
        self.odd = "" if joined else "no locks to look at"
        self._wal = -1
        self._frames: dict[int, int] = {}
        self._overlaid: list[int] = []
        self._salt = b""
        if joined:
            self.connection = self._connected("mode=ro&readonly_shm=1", shm, patience)
        if self.connection is None:
            # A writer died between two writes to the shared memory and only a reader is left. Any
            # reader's first act is then to mend it, so ours may.
            self.connection = self._connected("mode=ro", shm, patience)
        if self.connection is None:
            raise NotLive

    def _connected(self, parameters: str, shm: int, patience: Patience) -> sqlite3.Connection | None:
        """A pinned connection; None where SQLite would have to write what it may only read."""
        import sqlite3

        connection = connect(self.descriptors.path, parameters, timeout=0.1)
        try:
            self._pin(connection, shm, patience)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error) and error_code(error) in (READONLY, CANTOPEN):
                return None
            raise
        return connection

    def _pin(self, connection: sqlite3.Connection, shm: int, patience: Patience) -> None:
        import sqlite3

        index: WalIndex | None = None
        for _ in range(_TRIES):
            before = None
            if not self.odd:
                try:
                    before = read_index(shm)
                except UnknownLogFormat as error:
                    self.odd = str(error)
            try:
                connection.execute("BEGIN")
                connection.execute("PRAGMA schema_version").fetchone()
                after = None if self.odd else read_index(shm)
            except sqlite3.Error as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if error_code(error) in (BUSY, LOCKED):
                    patience.pause()
                    continue
                raise
            if self.odd:
                break
            # Equal before and after: the transaction stands on exactly this state.
            if before is not None and after is not None and before.identity == after.identity:
                index = after
                break
            connection.execute("ROLLBACK")
        else:
            self.odd = "commits follow each other too quickly to see one state"
            connection.execute("BEGIN")
            connection.execute("PRAGMA schema_version").fetchone()
        if not self.descriptors.same_file():
            raise NotLive
        status = os.fstat(self.descriptors.main)
        self.mtime_ns = status.st_mtime_ns
        self.page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        self.size = int(connection.execute("PRAGMA page_count").fetchone()[0]) * self.page_size
        if index is not None:
            try:
                self._lay_over(shm, index, status.st_size)
            except UnknownLogFormat as error:
                self.odd = str(error)

    def _lay_over(self, shm: int, index: WalIndex, main_size: int) -> None:
        """Find where each page of the state is."""
        if index.frames == 0:
            self.size = main_size
            return
        if index.page_size != self.page_size or index.pages * index.page_size != self.size:
            raise UnknownLogFormat("the index and SQLite disagree about the size")
        if index.in_main_file:
            return
        wal = self.descriptors.sidecar("-wal")
        if wal is None:
            raise UnknownLogFormat("the log is gone")
        check_log(wal, index)
        self._wal, self._salt = wal, index.salt
        self._frames = page_map(shm, index)
        self._overlaid = sorted(page for page in self._frames if page <= index.pages)

    def read(self, start: int, length: int) -> bytes:
        data = os.pread(self.descriptors.main, length, start)
        first = start // self.page_size + 1
        low = bisect.bisect_left(self._overlaid, first)
        high = bisect.bisect_left(self._overlaid, first + -(-length // self.page_size), low)
        if low == high:
            return data
        # Pieces of what was read and pages of the log, put together in one copy.
        whole = memoryview(data if len(data) == length else data + bytes(length - len(data)))
        pieces: list[memoryview | bytes] = []
        done = 0
        for page in self._overlaid[low:high]:
            offset = (page - first) * self.page_size
            pieces += whole[done:offset], self._frame(page)
            done = offset + self.page_size
        pieces.append(whole[done:])
        return b"".join(pieces)

    def _frame(self, page: int) -> bytes:
        offset = LOG_HEADER + (self._frames[page] - 1) * (FRAME_HEADER + self.page_size)
        frame = os.pread(self._wal, FRAME_HEADER + self.page_size, offset)
        if (
            len(frame) < FRAME_HEADER + self.page_size
            or struct.unpack_from(">I", frame)[0] != page
            or frame[8:16] != self._salt
        ):
            # Cannot happen while the read lock is held; checked because nothing else would tell.
            raise self.lost(Outcome.CHANGED, "its log was replaced while it was read")
        return frame[FRAME_HEADER:]

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()  # first: closing a raw descriptor drops its locks
            self.connection = None
        self.descriptors.close()
