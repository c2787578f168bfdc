"""The journal mode of a database that is in use: pouring must not leave it in another one for good.

The mode is part of a database's header, so content that is poured in can bring another one along.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.format import connect, uses_wal

_HEAD = 20
_VERSIONS_AT = 18
#: Write and read version of a database with a rollback journal, and with a log.
_VERSIONS = {"delete": b"\x01\x01", "wal": b"\x02\x02"}


def mode_of_file(path: str) -> str:
    """`wal` or `delete`, by the header of a file of ours."""
    with open(path, "rb", buffering=0) as file:
        return "wal" if uses_wal(file.read(_HEAD)) else "delete"


def take_over_mode(staged: str, present: str) -> None:
    """Give a staged file of ours, whole and without sidecars, the mode of the one it is poured into.

    A program that has a database open with a rollback journal goes on with one. The other way
    round SQLite itself keeps the log.
    """
    if mode_of_file(staged) == "wal" and mode_of_file(present) == "delete":
        facts = os.stat(staged)
        set_mode(staged, "delete")
        os.utime(staged, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def set_mode(path: str, mode: str) -> None:
    """Name a mode in the header of a file of ours, whole and without sidecars."""
    if mode_of_file(path) == mode:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, _VERSIONS[mode], _VERSIONS_AT)
    finally:
        os.close(descriptor)


def switch_mode(live: str, wanted: str) -> str:
    """Bring a live database into a mode through SQLite; returns the mode that it really has then.

    SQLite refuses where another program has it open with a log; that is its right.
    """
    import sqlite3

    with in_use(live), contextlib.closing(connect(live, "mode=rw", 0.5)) as connection:
        try:
            now = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
            if (now == "wal") == (wanted == "wal"):
                return wanted
            return str(connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0])
        except sqlite3.Error:
            return "delete" if wanted == "wal" else "wal"
