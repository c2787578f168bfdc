"""Watching a live database for commits of others, while we are about to replace its content."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .descriptors import Descriptors, in_use
from .format import connect

if TYPE_CHECKING:
    import sqlite3

_COUNTER = 24  # where the header counts the transactions of a database with a rollback journal


class Watch:
    """Whether anybody else committed since `begin`."""

    def __init__(self, connection: sqlite3.Connection, descriptors: Descriptors) -> None:
        self._connection, self._descriptors = connection, descriptors
        self.wal = False
        self._seen: object = None
        self.begin()

    def begin(self) -> None:
        import sqlite3

        try:
            self.wal = self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            self._seen = self._look()
        except sqlite3.Error:
            self._seen = None  # it cannot be told just now; everything counts as a change

    def changed(self) -> bool:
        import sqlite3

        try:
            return self._seen is None or self._look() != self._seen
        except sqlite3.Error:
            return True

    @contextlib.contextmanager
    def writers_out(self) -> Iterator[None]:
        """Nobody else can commit within the `with`, and everybody can read; sqlite3.Error past the wait."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def _look(self) -> object:
        if self.wal:
            return self._connection.execute("PRAGMA data_version").fetchone()[0]
        # Not through SQLite: our own exclusive lock would keep this second connection out.
        return os.pread(self._descriptors.main, 4, _COUNTER)


@contextlib.contextmanager
def watching(live: str, wait: float = 0.0) -> Iterator[Watch]:
    """Watch a database from now on; the `with` must enclose every other use of it in this process."""
    with in_use(live):
        descriptors = Descriptors(live)
        try:
            with contextlib.closing(connect(live, "mode=rw", wait)) as connection:
                yield Watch(connection, descriptors)
        finally:
            descriptors.close()
