"""A rollback-journal database where we cannot take SQLite's locks ourselves: SQLite holds it still.

For platforms and filesystems without open file description locks. The bytes come through the
backup API, so nothing is read raw.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..descriptors import Descriptors
from ..format import BUSY, LOCKED, connect, error_code
from .patience import Patience
from .pinned import Pinned

if TYPE_CHECKING:
    import sqlite3


class Borrowed(Pinned):
    """A read transaction of SQLite and nothing else."""

    method = "backup"

    def __init__(self, name: str, descriptors: Descriptors, patience: Patience) -> None:
        super().__init__(name)
        self.descriptors = descriptors
        self.mtime_ns = os.fstat(descriptors.main).st_mtime_ns
        self.connection = connect(descriptors.path, "mode=ro")
        try:
            self._pin(self.connection, patience)
            self.page_size = int(self.connection.execute("PRAGMA page_size").fetchone()[0])
            self.size = int(self.connection.execute("PRAGMA page_count").fetchone()[0]) * self.page_size
        except BaseException:
            self.connection.close()
            raise

    @staticmethod
    def _pin(connection: sqlite3.Connection, patience: Patience) -> None:
        import sqlite3

        while True:
            try:
                connection.execute("BEGIN")
                connection.execute("PRAGMA schema_version").fetchone()
                return
            except sqlite3.Error as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if error_code(error) not in (BUSY, LOCKED):
                    raise
                patience.pause()

    def read(self, start: int, length: int) -> bytes:
        raise NotImplementedError("read through the backup API")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.descriptors.close()
