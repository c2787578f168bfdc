"""Whether the damage that a check found lies in what is left out, and so is not stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .lean_tables import TREES

if TYPE_CHECKING:
    import sqlite3


def only_left_out(connection: sqlite3.Connection, tables: Sequence[str]) -> bool:
    """Whether every table that is kept passes the check by itself.

    The free list and pages that two tables claim were looked at when the lean image was laid.
    """
    import sqlite3

    out = {table + suffix for table in tables for suffix in TREES}
    try:
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        for name in [str(name) for (name,) in rows if name not in out]:
            quoted = name.replace("'", "''")
            if connection.execute(f"PRAGMA quick_check('{quoted}')").fetchall() != [("ok",)]:
                return False
    except sqlite3.Error:
        return False
    return True
