"""What a SQLite file looks like from outside: its header, its sidecars, its address for SQLite.

Nothing here opens a connection or takes a lock; `sqlite3` itself is imported only where a
connection is made, since most commands never need it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3


# Connections to databases that we did not make: every statement has an end. A schema is a program. A
# view may be endless, a check or a computed column may take a second for every row, a function may ask
# for a gigabyte. So each statement gets a time that follows the size of the file, and where we only
# look, values have a largest size and views are not read at all. `format.connect` is the only way to a
# database here, so this holds for every statement.

#: Seconds for any statement, and more for each byte that the file really takes on the disk: a slow disk
#: gives ten times as much, and building a search index takes about that long.
LEAST, BYTES_A_SECOND = 10.0, 1_000_000
#: Of values where we only look. A message of this size is none; nobody needs it to count or to check.
LARGEST_VALUE = 64 << 20
#: How many steps of SQLite's machine between two looks at the clock: some milliseconds.
_STEPS = 100_000


class BoundedConnection(sqlite3.Connection):
    """A connection that interrupts a statement which takes longer than the file's size explains."""

    #: Seconds for one statement.
    allowance: float = LEAST
    _until: float = float("inf")

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self._until = time.monotonic() + self.allowance
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        self._until = time.monotonic() + self.allowance
        return super().executemany(sql, parameters)

    def bound(self, path: str, only_look: bool) -> None:
        """Begin to watch the time; `path` is the file whose size says how much is fair."""
        try:
            status = os.stat(path)
            self.allowance = LEAST + min(status.st_size, status.st_blocks * 512) / BYTES_A_SECOND
        except OSError:
            self.allowance = LEAST
        self.set_progress_handler(self._too_long, _STEPS)
        if only_look:
            self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            # What is counted and shown are rows that are stored, never what a view makes up.
            self.set_authorizer(_no_views)

    def _too_long(self) -> bool:
        return time.monotonic() > self._until


def bounded_connection(where: str, path: str, timeout: float, *, only_look: bool) -> BoundedConnection:
    """Open the address of a database; `path` is the file that it names."""
    connection = sqlite3.connect(
        where,
        uri=True,
        isolation_level=None,
        timeout=timeout,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    connection.bound(path, only_look)
    return connection


def _no_views(
    action: int, first: str | None, second: str | None, base: str | None, source: str | None
) -> int:
    # `source` names the view or trigger that asks; a statement of ours has none.
    return sqlite3.SQLITE_OK if source is None else sqlite3.SQLITE_DENY


HEADER = b"SQLite format 3\x00"
SIDECARS = ("-wal", "-shm", "-journal")

#: Bytes 18 and 19 of the header (write and read version) when the database uses a write-ahead log.
WAL_VERSION = 2

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/")


def is_database(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a SQLite database."""
    return head[:16] == HEADER


def uses_wal(head: bytes) -> bool:
    """Whether the header asks for a write-ahead log."""
    return len(head) >= 20 and WAL_VERSION in (head[18], head[19])


def page_size_of(head: bytes) -> int:
    """The page size named by the header; 0 where it is not a possible one."""
    if len(head) < 18:
        return 0
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else 0


def address(path: str, parameters: str) -> str:
    """The `file:` address of a path of any bytes: `?`, `#`, `%`, newlines and broken UTF-8 included."""
    absolute = os.fsencode(os.path.abspath(path)).lstrip(b"/")
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in absolute)
    return f"file:///{quoted}?{parameters}"


def connect(
    path: str, parameters: str, timeout: float = 0.0, *, only_look: bool | None = None
) -> sqlite3.Connection:
    """A connection in autocommit mode that any one thread at a time may use.

    Every statement on it has an end; see `bounded`. `only_look` where nothing of it is to be kept: so is
    every connection that cannot write.
    """

    looking = "mode=ro" in parameters if only_look is None else only_look
    return bounded_connection(address(path, parameters), path, timeout, only_look=looking)


def error_code(error: BaseException) -> int:
    """SQLite's primary result code of an exception; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


#: Primary result codes that decisions are made on.
ERROR, BUSY, LOCKED, READONLY, INTERRUPTED, CORRUPT, FULL, CANTOPEN, NOTADB = 1, 5, 6, 8, 9, 11, 13, 14, 26
