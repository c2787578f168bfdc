"""Putting a database back into one that is in use: through SQLite, into the same inode.

A file that is replaced or unlinked under a running agent leaves the agent writing into a file
that is never seen again (Hermes #101734), or into a mix of two (#95531). So the new content goes
in as one transaction of SQLite: a program that has the database open sees the old state, then the new
one. Killed half way, SQLite rolls it back.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import SafekeptError
from .check import examine, verify
from .descriptors import Descriptors, in_use
from .fold import DatabaseDamaged
from .format import BUSY, LOCKED, READONLY, connect, error_code
from .holders import Holder, describe, holders

if TYPE_CHECKING:
    import sqlite3


# Watching a live database for commits of others, while we are about to replace its content.

_COUNTER = 24  # where the header counts the transactions of a database with a rollback journal


class Watch:
    """Whether another program committed since `begin`."""

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
            self._seen = None  # it cannot be known just now; everything counts as a change

    def changed(self) -> bool:
        import sqlite3

        try:
            return self._seen is None or self._look() != self._seen
        except sqlite3.Error:
            return True

    @contextlib.contextmanager
    def writers_out(self) -> Iterator[None]:
        """No other can commit within the `with`, and all can read; sqlite3.Error past the wait."""
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


_UNCHANGED = "The live database is as it was"
_STEP = 1024
_FIRST_STEP = 128


class DatabaseHeld(SafekeptError):
    code, exit_code = "database-held", 11


class DatabaseLocked(SafekeptError):
    code, exit_code, retry = "database-locked", 11, True


class _GivenUp(Exception):
    pass


def restore_into(
    staged: str,
    live: str,
    deadline: float = 30.0,
    *,
    ready: Callable[[], None] | None = None,
    before: Callable[[], None] | None = None,
    as_it_was: bool = False,
) -> None:
    """Make `live` hold what `staged` holds, as one transaction, in the same inode.

    `ready` is called at the last moment before the transaction, `before` once inside it, when no other
    can commit any more. In WAL mode the old content can still be read then, so that what it captures is
    exactly what is replaced; with a rollback journal it can only look (`watch`). If one of them raises,
    the live database is as it was.

    `staged` is one whole sound file of ours. Raises DatabaseDamaged where it is not, before `ready` is
    called; DatabaseHeld where SQLite cannot do it beside those who have the database open; DatabaseLocked
    where they left no gap for `deadline` seconds. The live database is unchanged in all of these cases.

    With `as_it_was`, the pages go in whatever their state: what is taken back may have been damaged before.
    """
    if not as_it_was:
        _refuse_damaged(staged, live)
    with (
        in_use(live),
        contextlib.closing(connect(staged, "mode=ro&immutable=1")) as source,
        contextlib.closing(connect(live, "mode=rw")) as target,
    ):
        _refuse_other_page_size(target, live, _page_size(source, live), deadline)
        if ready is not None:
            ready()
        _copy(source, target, live, deadline, before)
        if not as_it_was:
            _check_restored(target, live)
        _shrink_log(target)


def _refuse_damaged(staged: str, live: str) -> None:
    facts = verify(staged)
    if facts.state == "damaged":
        raise DatabaseDamaged(
            f"The copy for `{live}` is damaged: {facts.detail.splitlines()[0]}",
            kept=_UNCHANGED,
            next_steps=("Restore this database from another backup",),
            path=live,
            detail=facts.detail,
        )


def _check_restored(target: sqlite3.Connection, live: str) -> None:
    state, detail = examine(target)
    if state == "damaged":
        raise DatabaseDamaged(
            f"`{live}` was restored, but its check failed: {detail.splitlines()[0]}",
            kept="The staged copy is sound and still there",
            next_steps=("Look at the disk this database is on; then restore it again",),
            path=live,
            detail=detail,
        )


def _page_size(source: sqlite3.Connection, live: str) -> int:
    import sqlite3

    try:
        return int(source.execute("PRAGMA page_size").fetchone()[0])
    except sqlite3.Error as error:
        raise held(live, f"SQLite cannot read what was in it ({error})") from error


def _refuse_other_page_size(target: sqlite3.Connection, live: str, page_size: int, deadline: float) -> None:
    """In WAL mode the page size of a database is fixed for as long as a program has it open."""
    import sqlite3

    limit = time.monotonic() + deadline
    while True:
        try:
            mode = target.execute("PRAGMA journal_mode").fetchone()[0]
            size = target.execute("PRAGMA page_size").fetchone()[0]
            break
        except sqlite3.Error as error:
            if error_code(error) not in (BUSY, LOCKED):
                raise held(live, f"SQLite cannot open it ({error})") from error
            if time.monotonic() >= limit:
                raise locked(live, deadline) from error
            time.sleep(0.02)
    if mode == "wal" and size != page_size:
        raise held(live, f"its pages have {size} bytes, those of the copy {page_size}")


def _copy(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    live: str,
    deadline: float,
    before: Callable[[], None] | None,
) -> None:
    import sqlite3

    last = [-1.0, time.monotonic()]
    step, called = _STEP, before is None
    if before is not None:
        pages = int(source.execute("PRAGMA page_count").fetchone()[0])
        # The last step commits, so there must be one before it; and the first must be small enough to
        # stay in memory, so that the file itself is still the old one.
        step = min(_FIRST_STEP, max(1, pages // 2))
        if pages < 2:
            before()
            called = True

    def progress(status: int, remaining: int, total: int) -> None:
        nonlocal called
        if not called and status not in (BUSY, LOCKED) and before is not None:
            called = True
            before()
        now = time.monotonic()
        if status not in (BUSY, LOCKED) and remaining != last[0]:
            last[0], last[1] = remaining, now
        elif now - last[1] >= deadline:
            raise _GivenUp

    try:
        source.backup(target, pages=step, progress=progress, sleep=0.02)
    except _GivenUp:
        raise locked(live, deadline) from None
    except sqlite3.Error as error:
        if error_code(error) in (BUSY, LOCKED):
            raise locked(live, deadline) from error
        if error_code(error) == READONLY:
            raise held(live, "it is not writable, or its page size cannot change") from error
        raise held(live, f"SQLite said: {error}") from error


def _shrink_log(target: sqlite3.Connection) -> None:
    """Give the room of a log that just took the whole database back, if no other is in the way."""
    import sqlite3

    with contextlib.suppress(sqlite3.Error):
        target.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def held(live: str, why: str) -> DatabaseHeld:
    """The refusal that names who has the database open."""
    found = holders(live)
    return DatabaseHeld(
        f"`{live}` cannot be restored while it is open: {why}{_by(found)}",
        kept=_UNCHANGED,
        next_steps=(_stop(found), "Then run the same command again"),
        path=live,
        holders=[holder.pid for holder in found],
    )


def locked(live: str, deadline: float) -> DatabaseLocked:
    """The refusal that names who held a lock all the time."""
    found = holders(live)
    return DatabaseLocked(
        f"`{live}` was locked for {deadline:g} s by {describe(found)}",
        kept=_UNCHANGED,
        next_steps=(_stop(found), "Then run the same command again"),
        path=live,
        holders=[holder.pid for holder in found],
    )


def _by(found: list[Holder]) -> str:
    return f"; open in {describe(found)}" if found else ""


def _stop(found: list[Holder]) -> str:
    return f"Stop {describe(found)}" if found else "Stop the program that uses this database"
