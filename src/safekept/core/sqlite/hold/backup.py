"""The backup API of SQLite: the way for whatever the page reader does not understand.

The source is inside a read transaction already, so copying in steps does not begin anew with
every commit of another process, and each step shows progress: one that makes none for the length
of the deadline is given up, on either side.
"""

from __future__ import annotations

import contextlib
import time

from ...entries import EntryLost, Outcome, Remark
from ...events import Event, Listener
from ..format import CORRUPT, NOTADB, connect, error_code
from .pinned import Pinned, Spooled
from .spool import NoSpoolRoom, Spool

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
            text = f"copying {pinned.name}"
            listener(Event("store", total - remaining, total, "pages", pinned.name, text))

    try:
        spool = Spool(scratch, pinned.size)
    except NoSpoolRoom as error:
        raise pinned.lost(Outcome.UNREADABLE, str(error)) from error
    try:
        with contextlib.closing(connect(spool.path, "mode=rw")) as target:
            # Nobody will ever recover this file: it is whole or thrown away.
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
