"""What a SQLite file looks like from outside: its header, its sidecars, its address for SQLite.

Nothing here opens a connection or takes a lock; `sqlite3` itself is imported only where a
connection is made, since most commands never need it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3


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
    from .bounded import bounded_connection

    looking = "mode=ro" in parameters if only_look is None else only_look
    return bounded_connection(address(path, parameters), path, timeout, only_look=looking)


def error_code(error: BaseException) -> int:
    """SQLite's primary result code of an exception; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


#: Primary result codes that decisions are made on.
ERROR, BUSY, LOCKED, READONLY, INTERRUPTED, CORRUPT, FULL, CANTOPEN, NOTADB = 1, 5, 6, 8, 9, 11, 13, 14, 26
