"""Folding: a database with a log or journal beside it becomes one whole file.

SQLite does it, by recovering the copy that is ours; the shared memory is discarded first because
it describes the process that made it, not the files.
"""

from __future__ import annotations

import contextlib
import os

from holdfast.core.errors import HoldfastError

from .format import SIDECARS, connect


class DatabaseDamaged(HoldfastError):
    code = "database-damaged"


def fold(path: str) -> None:
    """Let SQLite recover a database of ours into one file; its sidecars are gone afterwards.

    Raises DatabaseDamaged where SQLite cannot; the files are then still there, the `-shm` apart.
    """
    import sqlite3

    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    if not any(os.path.lexists(path + suffix) for suffix in SIDECARS):
        return
    try:
        with contextlib.closing(connect(path, "mode=rw", timeout=5.0)) as connection:
            # Nobody else has it, so nobody else needs the shared memory.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            # Reading anything rolls a hot journal back or finds the committed end of the log; this
            # statement does so without looking at the schema, which may be damaged.
            connection.execute("PRAGMA schema_version").fetchone()
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise _not_folded(path, str(error)) from error
    if busy:
        raise _not_folded(path, "the log could not be emptied")
    for suffix in SIDECARS:
        # A journal that was not hot, or a log of zero bytes: nothing of value, and nobody's.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _not_folded(path: str, why: str) -> DatabaseDamaged:
    return DatabaseDamaged(
        f"SQLite cannot recover `{path}` with the log beside it: {why}",
        kept="The copy and its log are as they were; the original was not touched",
        next_steps=("Restore an older copy of this database, or take the rest without it",),
        path=path,
        detail=why,
    )
