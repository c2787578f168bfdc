"""Judging a database: is it sound, and how many of each thing does it hold?

The check and the caller's counting queries run on a connection that sees exactly the captured
state, beside the reading of its bytes, and can be stopped at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..entries import DatabaseFacts
from ..platform.processes import read_by_thread
from ..worker import Worker
from .format import CORRUPT, INTERRUPTED, NOTADB, connect, error_code

if TYPE_CHECKING:
    import sqlite3

#: How many lines of a failed check are kept.
_LINES = 3
#: What a check says of a page that it could not have, with SQLite's code for why.
_NO_PAGE = re.compile(r"unable to get the page\. error code=(\d+)")
_IOERR, _SHORT_READ = 10, 522
#: tell(done, total): how far a check is, in bytes.
Tell = Callable[[int, int], None]
#: A check reads most pages twice: for the shape of the trees, and for the rows in them (measured: 1.6 times).
_PASSES = 2
#: Seconds between two words about it.
_BEAT = 0.5


class CheckReading:
    """How far a check is, by what its thread has read.

    SQLite's own progress handler is silent while it walks the trees, which is most of a check (before 3.42).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._thread = self._start = 0

    def begin(self) -> None:
        """To be called by the thread that checks."""
        self._thread = threading.get_native_id()
        self._start = read_by_thread(self._thread)

    def done(self) -> int:
        """Never all of it: that it is over is reported by its end."""
        if not self._thread:
            return 0
        return max(0, min(self.size * 99 // 100, (read_by_thread(self._thread) - self._start) // _PASSES))


def examine_aloud(
    connection: sqlite3.Connection, pragma: str, size: int, tell: Tell | None
) -> tuple[str, str]:
    """`examine` with a word twice a second about how far it is; what is quick says nothing."""
    if tell is None:
        return examine(connection, pragma)
    reading, found = CheckReading(size), list[tuple[str, str]]()

    def work() -> None:
        reading.begin()
        found.append(examine(connection, pragma))

    worker = Worker(work, "safekept-check")
    try:
        while not worker.wait(_BEAT):
            tell(reading.done(), size)
    finally:
        while worker.running:  # Ctrl-C: the connection is not closed under its feet
            with contextlib.suppress(Exception):
                connection.interrupt()
            worker.wait(0.02)
    if worker.error is not None:
        raise worker.error
    return found[0]


def examine(connection: sqlite3.Connection, pragma: str = "quick_check") -> tuple[str, str]:
    """The state of a database and the first lines of what is wrong with it."""
    import sqlite3

    try:
        rows = connection.execute(f"PRAGMA {pragma}({_LINES})").fetchall()
    except sqlite3.Error as error:
        if error_code(error) in (CORRUPT, NOTADB):
            return "damaged", str(error)
        if error_code(error) == INTERRUPTED:
            return "unverified", "the check takes longer than a database of this size explains"
        # A module or collation that only the owner of the database has: nothing can be said.
        return "unverified", str(error)
    lines = [str(row[0]) for row in rows]
    if lines == ["ok"]:
        return "sound", ""
    if any(_could_not_be_read(line) for line in lines):
        # That is about the disk at that moment; remembered as damage it would be a false alarm for days.
        return "unverified", "\n".join(lines[:_LINES])
    return "damaged", "\n".join(lines[:_LINES])


def _could_not_be_read(line: str) -> bool:
    """Whether a line of a check says that reading failed. A page that is not there at all is damage."""
    found = _NO_PAGE.search(line)
    return found is not None and int(found[1]) & 0xFF == _IOERR and int(found[1]) != _SHORT_READ


def count(
    connection: sqlite3.Connection, query: str, damaged: Callable[[], None] = lambda: None
) -> int | None:
    """The answer to one counting query; None where the database cannot give it.

    `damaged` is called where that is because a page of it is.
    """
    import sqlite3

    try:
        row = connection.execute(query).fetchone()
    except (sqlite3.Error, sqlite3.Warning) as error:
        if error_code(error) in (CORRUPT, NOTADB):
            damaged()
        return None
    return row[0] if row is not None and isinstance(row[0], int) else None


class Check:
    """`quick_check` and the queries in a thread of their own. The connection is its alone meanwhile."""

    def __init__(
        self, connection: sqlite3.Connection, check: bool, queries: Mapping[str, str], size: int = 0
    ) -> None:
        self._connection, self._check, self._queries = connection, check, dict(queries)
        self.reading = CheckReading(size)
        self._stopped = False
        self.state, self.detail = "unverified", ""
        self.counts: dict[str, int | None] = dict.fromkeys(self._queries)
        self._worker: Worker | None = None
        if check or self._queries:
            self._worker = Worker(self._run, "safekept-check")

    def _run(self) -> None:
        # Counting first: it is quick, and the answers are wanted even where the check is stopped.
        for name, query in self._queries.items():
            if self._stopped:
                return
            self.counts[name] = count(self._connection, query, self._doubt)
        if self._check and not self._stopped:
            self.reading.begin()
            self.state, self.detail = examine(self._connection)

    def _doubt(self) -> None:
        """Damage was met: whether a check was asked for or not, it is due."""
        self._check = True

    def wait(self, beat: Callable[[], None] = lambda: None) -> None:
        """Until it has finished; `beat` is called about twice a second meanwhile."""
        while self._worker is not None and not self._worker.wait(_BEAT):
            beat()

    def wait_at_most(self, seconds: float) -> None:
        """Until it has finished, or that time is over."""
        if self._worker is not None:
            self._worker.wait(seconds)

    def stop(self) -> None:
        """End it now. The connection may be closed afterwards."""
        self._stopped = True
        while self._worker is not None and self._worker.running:
            with contextlib.suppress(Exception):
                self._connection.interrupt()
            self._worker.wait(0.02)


def verify(path: str, thorough: bool = False, tell: Tell | None = None) -> DatabaseFacts:
    """Judge a database at rest that is ours. Leaves no sidecars and takes no locks.

    `thorough` is the full `integrity_check` (indexes against their tables) instead of `quick_check`.
    Raises OSError where SQLite cannot even open it.
    """
    import sqlite3

    page_size = 0
    try:
        opened = connect(path, "mode=ro&immutable=1")
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, f"SQLite: {error}", path) from error
    with contextlib.closing(opened) as connection:
        with contextlib.suppress(sqlite3.Error):
            page_size = int(connection.execute("PRAGMA page_size").fetchone()[0])
        pragma, size = "integrity_check" if thorough else "quick_check", os.stat(path).st_size
        state, detail = examine_aloud(connection, pragma, size, tell)
    return DatabaseFacts(state=state, method="at-rest", detail=detail, page_size=page_size)
