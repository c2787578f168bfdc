"""The backup API of SQLite: the way for whatever the page reader does not understand.

The source is inside a read transaction already, so copying in steps does not begin again with
every commit of another process, and each step shows progress: one that makes none for the length
of the deadline is given up, on either side.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from ...entries import EntryLost, Outcome, Remark
from ...events import Event, Listener
from ..descriptors import Descriptors
from ..format import BUSY, CORRUPT, LOCKED, NOTADB, connect, error_code
from .locks import Patience
from .pinned import Pinned, Spooled
from .spool import NoSpool, Spool

if TYPE_CHECKING:
    import sqlite3


#: Pages per step: 16 MiB of the usual size, a few hundredths of a second.
_STEP = 4096


class _Stalled(Exception):
    pass


def through_backup(pinned: Pinned, scratch: str, deadline: float, listener: Listener) -> Pinned:
    """A copy of a pinned database made by the backup API; the pin is let go.

    Where SQLite cannot copy it because it is damaged, the pin itself is given back.
    """
    import sqlite3

    source = pinned.connection
    if source is None:
        return pinned
    last = [-1, time.monotonic(), time.monotonic()]

    def progress(status: int, remaining: int, total: int) -> None:
        now = time.monotonic()
        if remaining != last[0]:
            last[0], last[1] = remaining, now
        elif now - last[1] >= deadline:
            raise _Stalled
        if now - last[2] >= 1.0:
            last[2] = now
            listener(Event("copy", total - remaining, total, "pages", pinned.name))

    try:
        spool = Spool(scratch, pinned.size)
    except NoSpool as error:
        raise pinned.lost(Outcome.UNREADABLE, str(error)) from error
    try:
        with contextlib.closing(connect(spool.path, "mode=rw")) as target:
            # This file is never recovered: it is whole or thrown away.
            target.execute("PRAGMA journal_mode=OFF")
            target.execute("PRAGMA synchronous=OFF")
            source.backup(target, pages=_STEP, progress=progress, sleep=0.02)
        copy = Spooled(pinned.name, spool, pinned.page_size, pinned.mtime_ns, "backup")
    except BaseException as error:
        spool.close()
        if isinstance(error, _Stalled):
            reason = f"locked: the copy made no progress for {deadline:g} s"
            raise EntryLost(Remark(pinned.name, Outcome.LOCKED, reason)) from error
        if isinstance(error, sqlite3.Error):
            if error_code(error) in (CORRUPT, NOTADB) and pinned.method != "backup":
                return pinned
            raise pinned.lost(Outcome.UNREADABLE, f"SQLite: {error}") from error
        raise
    copy.remarks.extend(pinned.remarks)
    pinned.close()
    return copy


# A rollback-journal database where we cannot take SQLite's locks ourselves: SQLite holds it still. For
# platforms and filesystems without open file description locks. The bytes come through the backup API,
# so nothing is read raw.


class HeldThroughSqlite(Pinned):
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
