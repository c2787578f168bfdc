"""What a live database holds, and whether it is sound, by a look that copies nothing and does not wait.

For a status that must be fast. The same ways to hold a database still as for a capture, without the copies:
where one is needed first (a log that no program has open), or a lock would have to be waited for, or counting
takes longer than it may, nothing is known, and the doctor can be asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...entries import DatabaseFacts, EntryLost
from ...events import silent

if TYPE_CHECKING:
    from .pinned import Pinned

#: Nothing is copied there: the ways that need a copy give up.
_NO_COPIES = ""
#: Seconds in which a lock may become free, however long a check may take.
_PATIENCE = 0.1


def look_quickly(
    path: str, queries: Mapping[str, str], seconds: float, check: bool = False
) -> DatabaseFacts | None:
    """The answers of one committed state, and its state; None where nothing is to be had so quickly.

    It is checked where `check` asks for it, or a count meets a damaged page. What could not be counted in
    time is None, what could not be checked is "unverified". In this process, which must have no other handle
    on the database.
    """
    import sqlite3

    from ..check import Check
    from .pin import pin
    from .unopened import fresh_for

    try:
        if fresh_for(os.lstat(path)) > seconds:
            return None  # a write in the next moment would not be seen
        pinned = pin(path, path, _NO_COPIES, min(seconds, _PATIENCE), silent)
    except (OSError, EntryLost, sqlite3.Error):
        return None
    try:
        if pinned.connection is None:
            # SQLite itself refused it.
            return DatabaseFacts("damaged", pinned.method, pinned.trouble) if pinned.trouble else None
        found = Check(pinned.connection, check and _holds_up_nobody(pinned), queries)
        try:
            found.wait_at_most(seconds)
        finally:
            found.stop()
        pinned.settle()  # what another program wrote meanwhile is no damage
    except (EntryLost, sqlite3.Error):
        return None
    finally:
        pinned.close()
    return DatabaseFacts(found.state, pinned.method, found.detail, pinned.page_size, found.counts)


def _holds_up_nobody(pinned: Pinned) -> bool:
    """Whether its program may go on writing during a check, or waits no longer than for a small copy."""
    from .live import Live
    from .pin import COPY_UNDER_LOCK
    from .unopened import UnopenedDatabase

    return isinstance(pinned, Live | UnopenedDatabase) or pinned.size <= COPY_UNDER_LOCK
