"""One committed state of a database, held still for as long as its bytes are read.

The base of all ways to hold one, and the two simple ones: a private copy (`Spooled`) and bare
bytes that SQLite cannot make sense of (`Raw`).
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...entries import CHUNK, EntryLost, Outcome, Remark
from ..descriptors import Descriptors
from ..format import connect
from .spool import Spool

if TYPE_CHECKING:
    import sqlite3


class Pinned(ABC):
    """A database held still. `connection` sees exactly the bytes that `chunks` yields."""

    size: int
    mtime_ns: int
    page_size: int
    method: str

    def __init__(self, name: str) -> None:
        self.name = name
        self.connection: sqlite3.Connection | None = None
        self.trouble = ""  # what is wrong with it, where that is known without a check
        self.remarks: list[Remark] = []

    @abstractmethod
    def read(self, start: int, length: int) -> bytes:
        """Bytes of the state; fewer only at its end."""

    def chunks(self) -> Iterator[bytes]:
        """Every byte in order. Raises EntryLost where the state could not be held."""
        for start in range(0, self.size, CHUNK):
            wanted = min(CHUNK, self.size - start)
            try:
                data = self.read(start, wanted)
            except OSError as error:
                raise self.lost(Outcome.UNREADABLE, error.strerror or str(error)) from error
            if len(data) < wanted:
                data += bytes(wanted - len(data))
            yield data
        self.settle()

    def settle(self) -> None:  # noqa: B027  (most ways need no last look)
        """A last look after the last byte; raises EntryLost where the state moved after all."""

    @abstractmethod
    def close(self) -> None:
        """Let go; may be called twice."""

    def lost(self, outcome: Outcome, reason: str) -> EntryLost:
        return EntryLost(Remark(self.name, outcome, reason, bytes=self.size))


class Spooled(Pinned):
    """A private copy in the scratch directory; the source is free again."""

    def __init__(self, name: str, spool: Spool, page_size: int, mtime_ns: int, method: str) -> None:
        super().__init__(name)
        self.spool, self.page_size, self.mtime_ns, self.method = spool, page_size, mtime_ns, method
        self.size = spool.size
        self.connection = open_frozen(spool.path)
        spool.forget_name()

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self.spool.descriptor, length, start)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.spool.close()


class Raw(Pinned):
    """Bytes of a file that SQLite cannot open: stored exactly as they are, and said to be damaged."""

    method = "raw"

    def __init__(self, name: str, descriptors: Descriptors, page_size: int, trouble: str) -> None:
        super().__init__(name)
        self.descriptors, self.page_size, self.trouble = descriptors, page_size, trouble
        status = os.fstat(descriptors.main)
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self.descriptors.main, length, start)

    def settle(self) -> None:
        status = os.fstat(self.descriptors.main)
        if (status.st_size, status.st_mtime_ns) != (self.size, self.mtime_ns):
            self.remarks.append(Remark(self.name, Outcome.CHANGED, "changed while it was read"))

    def close(self) -> None:
        self.descriptors.close()


def open_frozen(path: str) -> sqlite3.Connection:
    """A connection to a file that does not change: no locks, no sidecars, opened at once."""
    import sqlite3

    connection = connect(path, "mode=ro&immutable=1")
    # SQLite opens lazily; this makes it open the file now, whatever its schema is worth. Where it
    # cannot, the check will say so in its own words.
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA schema_version").fetchone()
    return connection
