"""The page reader: a live database in WAL mode, read as one committed state beside its writers.

A read transaction of SQLite pins the log: a checkpoint may then copy only frames up to our mark
into the main file, and the log cannot begin anew. So main file + committed frames laid over it is
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
from typing import TYPE_CHECKING

from safekept.core.entries import Outcome

from .descriptors import Descriptors
from .format import BUSY, CANTOPEN, LOCKED, READONLY, connect, error_code
from .patience import Patience
from .pinned import Pinned
from .wal_index import FRAME_HEADER, LOG_HEADER, OddLog, WalIndex, check_log, page_map, read_index

if TYPE_CHECKING:
    import sqlite3

#: How often the pin is retried until no commit fell between the two looks at the index. Each try
#: takes a tenth of a millisecond; a writer would have to commit ten thousand times a second.
_TRIES = 200


class NotLive(Exception):
    """What looked like a live log is not one any more; decide anew."""


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
                except OddLog as error:
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
            except OddLog as error:
                self.odd = str(error)

    def _lay_over(self, shm: int, index: WalIndex, main_size: int) -> None:
        """Find where each page of the state is."""
        if index.frames == 0:
            self.size = main_size
            return
        if index.page_size != self.page_size or index.pages * index.page_size != self.size:
            raise OddLog("the index and SQLite disagree about the size")
        if index.in_main_file:
            return
        wal = self.descriptors.sidecar("-wal")
        if wal is None:
            raise OddLog("the log is gone")
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
