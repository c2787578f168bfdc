"""Connections to databases that we did not make: every statement has an end.

A schema is a program. A view may be endless, a check or a computed column may take a second for every row, a
function may ask for a gigabyte. So each statement gets a time that follows the size of the file, and where we
only look, values have a largest size and views are not read at all. `format.connect` is the only way to a
database here, so this holds for every statement.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

#: Seconds for any statement, and more for each byte that the file really takes on the disk: a slow disk
#: gives ten times as much, and building a search index takes about that long.
LEAST, BYTES_A_SECOND = 10.0, 1_000_000
#: Of values where we only look. A message of this size is none, and is not needed to count or to check.
LARGEST_VALUE = 64 << 20
#: How many steps of SQLite's machine between two looks at the clock: a step may be a function that takes
#: milliseconds, and so many looks are still too cheap to be seen.
_STEPS = 1_000


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
