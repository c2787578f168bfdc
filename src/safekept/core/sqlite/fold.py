"""Folding: a database with a log or journal beside it becomes one whole file.

SQLite does it, by recovering the copy that is ours; the shared memory is discarded first because
it describes the process that made it, not the files.
"""

from __future__ import annotations

import contextlib
import os

from ..errors import SafekeptError
from ..files import temporary_name
from .format import SIDECARS, connect
from .hold.spool import copy_range


class DatabaseDamaged(SafekeptError):
    code = "database-damaged"


def fold(path: str) -> None:
    """Let SQLite recover a database of ours into one file; its sidecars are gone afterwards.

    Raises DatabaseDamaged where SQLite cannot; the log or journal is then still there.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    present = [suffix for suffix in SIDECARS if os.path.lexists(path + suffix)]
    if not present:
        return
    # SQLite deletes the log of a database it could not even open, so a second name holds on to it.
    second = temporary_name(os.path.dirname(os.path.abspath(path)))
    for suffix in present:
        _second_name(path + suffix, second + suffix)
    try:
        _recover(path)
    except DatabaseDamaged:
        for suffix in present:
            os.replace(second + suffix, path + suffix)
            # Two names of one file: renaming one to the other does nothing, by POSIX.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(second + suffix)
        raise
    for suffix in present:
        os.unlink(second + suffix)
    for suffix in SIDECARS:
        # A journal that was not hot, or a log of zero bytes: nothing of value, and not in use.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _second_name(path: str, second: str) -> None:
    try:
        os.link(path, second, follow_symlinks=False)
    except OSError:  # a filesystem without hard links
        with open(path, "rb") as source, open(second, "xb") as target:
            copy_range(source.fileno(), target.fileno(), os.fstat(source.fileno()).st_size)


def _recover(path: str) -> None:
    import sqlite3

    try:
        with contextlib.closing(connect(path, "mode=rw", timeout=5.0)) as connection:
            # No other process has it, so no other needs the shared memory.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            # Reading anything rolls a hot journal back or finds the committed end of the log; this
            # statement does so without looking at the schema, which may be damaged.
            connection.execute("PRAGMA schema_version").fetchone()
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise _not_folded(path, str(error)) from error
    if busy:
        raise _not_folded(path, "the log could not be emptied")


def _not_folded(path: str, why: str) -> DatabaseDamaged:
    return DatabaseDamaged(
        f"SQLite cannot recover `{path}` with the log beside it: {why}",
        kept="Its log is still beside it, and the original was not touched",
        next_steps=("Restore an older copy of this database, or take the rest without it",),
        path=path,
        detail=why,
    )
