"""How many rows a live database has, by a look that copies nothing and does not wait.

For a status that must be fast. The same ways to hold a database still as for a capture, without the copies:
where one is needed first (a log that no program has open), or a lock would have to be waited for, or counting
takes longer than it may, nothing is known, and the doctor can be asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...entries import EntryLost
from ...events import silent

#: Nothing is copied there: the ways that need a copy give up.
_NO_COPIES = ""


def count_rows(path: str, queries: Mapping[str, str], seconds: float) -> dict[str, int] | None:
    """The answers of one committed state; None where they are not to be had so quickly.

    In this process, which must have no other handle on the database.
    """
    import sqlite3

    from ..check import Check
    from .pin import pin
    from .unopened import fresh_for

    try:
        if fresh_for(os.lstat(path)) > seconds:
            return None  # a write in the next moment would not be seen
        pinned = pin(path, path, _NO_COPIES, seconds, silent)
    except (OSError, EntryLost, sqlite3.Error):
        return None
    try:
        if pinned.connection is None:
            return None
        check = Check(pinned.connection, False, queries)
        try:
            check.wait_at_most(seconds)
        finally:
            check.stop()
        pinned.settle()
    except (EntryLost, sqlite3.Error):
        return None
    finally:
        pinned.close()
    found = {name: count for name, count in check.counts.items() if count is not None}
    return found if len(found) == len(queries) else None
