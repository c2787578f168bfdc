"""Capture: the bytes of a database as one committed state, and what is known about it.

Promise: no writer's database is opened for writing, locked against a WAL writer, replaced or given
a sidecar it did not have; what is read is one committed state with every row committed before;
a lock is waited for with a deadline; a damaged source is stored and marked, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..entries import Content, DatabaseFacts, EntryLost, Outcome, Remark
from ..events import Event, Listener, silent
from ..records import dataclass
from .lean.tables import TREES

if TYPE_CHECKING:
    import sqlite3

    from .check import Check
    from .hold.pinned import Pinned
    from .lean.lean import LeanFacts
    from .lean.request import LeanRequest


# Whether the damage that a check found lies in what is left out, and so is not stored.


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


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How databases are captured."""

    scratch: str  # a directory with room, on the destination's filesystem, for private copies
    deadline: float = 30.0  # seconds without progress before a lock is given up
    check: bool = True  # quick_check
    method: str = "auto"  # "auto", "pages" or "backup"
    isolated: bool = True  # in a helper process; False only where we surely hold no handle on it
    heads_isolated: bool = True  # where isolated, files that may be databases are looked at there, too
    lean: LeanRequest | None = None  # without what can be rebuilt; None: every byte


def capture(
    path: str,
    name: str,
    options: CaptureOptions,
    queries: Mapping[str, str] | None = None,
    listener: Listener = silent,
) -> Content:
    """Open one database for reading as one committed state. `name` is its path in remarks.

    Raises EntryLost: GONE, UNREADABLE, or LOCKED past the deadline.
    """
    if options.isolated:
        from .isolated import capture_isolated

        return capture_isolated(path, name, options, queries or {}, listener)
    return capture_here(path, name, options, queries or {}, listener)


def capture_here(
    path: str, name: str, options: CaptureOptions, queries: Mapping[str, str], listener: Listener
) -> DatabaseContent:
    """The same in this process, which must have no other handle on the database."""
    import sqlite3

    from .hold.live import Live
    from .hold.pin import pin
    from .hold.through_sqlite import through_backup

    try:
        pinned = pin(path, name, options.scratch, options.deadline, listener)
    except sqlite3.Error as error:
        raise EntryLost(Remark(name, Outcome.UNREADABLE, f"SQLite: {error}")) from error
    try:
        odd = isinstance(pinned, Live) and pinned.odd
        if options.method == "backup" or odd or pinned.method == "backup":
            pinned = through_backup(pinned, options.scratch, options.deadline, listener)
        left: LeanFacts | None = None
        if options.lean is not None:
            from .lean.lean import lean

            pinned, left = lean(pinned, options.lean)
    except (OSError, sqlite3.Error) as error:
        pinned.close()
        raise pinned.lost(Outcome.UNREADABLE, _in_words(error)) from error
    except BaseException:
        pinned.close()
        raise
    return DatabaseContent(pinned, options, queries, listener, left)


def look(
    path: str,
    name: str,
    options: CaptureOptions,
    queries: Mapping[str, str] | None = None,
    listener: Listener = silent,
) -> DatabaseFacts:
    """Judge a live database as `capture` would, without reading its bytes out. Raises EntryLost.

    Where it is not isolated, in this process, which must have no other handle on the database.
    """
    if options.isolated:
        from .isolated import capture_isolated

        with capture_isolated(path, name, options, queries or {}, listener) as isolated:
            for _ in isolated.chunks():
                pass  # the verdict comes after the last of them
        assert isolated.database is not None
        return isolated.database
    with capture_here(path, name, options, queries or {}, listener) as content:
        return content.judge()


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"SQLite: {error}"


class DatabaseContent(Content):
    """The bytes of one pinned database. The pin is let go after the last chunk."""

    def __init__(
        self,
        pinned: Pinned,
        options: CaptureOptions,
        queries: Mapping[str, str],
        listener: Listener,
        left: LeanFacts | None = None,
    ) -> None:
        super().__init__()
        self._left = left
        self.size, self.mtime_ns = pinned.size, pinned.mtime_ns
        self._pinned, self._options, self._queries, self._listener = pinned, options, queries, listener
        self._check: Check | None = None

    def chunks(self) -> Iterator[bytes]:
        import sqlite3

        try:
            self._begin()
            yield from self._pinned.chunks()
            self._conclude()
        except (OSError, sqlite3.Error) as error:
            raise self._pinned.lost(Outcome.UNREADABLE, _in_words(error)) from error
        finally:
            self.close()

    def judge(self) -> DatabaseFacts:
        """The check and the answers without the bytes."""
        try:
            self._begin()
            self._conclude()
            self._pinned.settle()
        finally:
            self.close()
        assert self.database is not None
        return self.database

    def _begin(self) -> None:
        from .check import Check

        if self._pinned.connection is not None:
            met = self._left is not None and self._left.damaged  # whatever was said of a check: it is due now
            self._check = Check(self._pinned.connection, self._options.check or met, self._queries, self.size)

    def _beat(self) -> None:
        done = self._check.reading.done() if self._check is not None else 0
        self._listener(Event("check", done, self.size, path=self._pinned.name))

    def _conclude(self) -> None:
        pinned, check = self._pinned, self._check
        if check is not None:
            check.wait(self._beat)
        state, detail, counts = "unverified", "", dict.fromkeys(self._queries)
        if check is not None:
            state, detail, counts = check.state, check.detail, check.counts
        if pinned.trouble:
            state, detail = "damaged", pinned.trouble
        lean = self._left.as_dict() if self._left is not None else None
        if state == "damaged" and self._only_left_out():
            state, detail = "sound", ""  # what is stored is
        elif self._left is not None and self._left.stale:
            names = " and ".join(f"`{name}`" for name in self._left.stale)
            self._note(f"the search index {names} is damaged or out of step in the home")
        self.database = DatabaseFacts(state, pinned.method, detail, pinned.page_size, counts, lean)
        self.remarks.extend(pinned.remarks)
        if state == "damaged":
            lines = "; ".join(detail.splitlines())
            reason = f"stored exactly as it is, but the database is damaged: {lines}"
            self.remarks.append(Remark(pinned.name, Outcome.DAMAGED, reason, bytes=self.size))

    def _only_left_out(self) -> bool:
        """Whether the damage that was found lies in what is not stored."""
        connection, left, check = self._pinned.connection, self._left, self._check
        if connection is None or check is None or left is None or not left.tables or self._pinned.trouble:
            return False

        if not only_left_out(connection, [one.table for one in left.tables]):
            return False
        self._note(f"a search index is damaged in the home: {'; '.join(check.detail.splitlines())}")
        return True

    def _note(self, what: str) -> None:
        reason = f"{what}; it is left out here, and a restore rebuilds it"
        self.remarks.append(Remark(self._pinned.name, Outcome.NOTED, reason))

    def close(self) -> None:
        if self._check is not None:
            self._check.stop()
        self._pinned.close()
