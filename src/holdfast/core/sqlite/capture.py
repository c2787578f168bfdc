"""Capture: the bytes of a database as one committed state, and what is known about it.

Promise: no writer's database is opened for writing, locked against a WAL writer, replaced or given
a sidecar it did not have; what is read is one committed state with every row committed before;
a lock is waited for with a deadline; a damaged source is stored and marked, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.entries import Content, DatabaseFacts, Outcome, Remark
from holdfast.core.events import Event, Listener, silent

if TYPE_CHECKING:
    from .check import Check
    from .pinned import Pinned


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How databases are captured."""

    scratch: str  # a directory with room, on the destination's filesystem, for private copies
    deadline: float = 30.0  # seconds without progress before a lock is given up
    check: bool = True  # quick_check
    method: str = "auto"  # "auto", "pages" or "backup"
    isolated: bool = True  # in a helper process; False only where we surely hold no handle on it


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
    from .backup import through_backup
    from .live import Live
    from .pin import pin

    pinned = pin(path, name, options.scratch, options.deadline, listener)
    try:
        odd = isinstance(pinned, Live) and pinned.odd
        if options.method == "backup" or odd or pinned.method == "backup":
            pinned = through_backup(pinned, options.scratch, options.deadline, listener)
    except BaseException:
        pinned.close()
        raise
    return DatabaseContent(pinned, options, queries, listener)


class DatabaseContent(Content):
    """The bytes of one pinned database. The pin is let go after the last chunk."""

    def __init__(
        self, pinned: Pinned, options: CaptureOptions, queries: Mapping[str, str], listener: Listener
    ) -> None:
        super().__init__()
        self.size, self.mtime_ns = pinned.size, pinned.mtime_ns
        self._pinned, self._options, self._queries, self._listener = pinned, options, queries, listener
        self._check: Check | None = None

    def chunks(self) -> Iterator[bytes]:
        from .check import Check

        pinned = self._pinned
        try:
            if pinned.connection is not None:
                self._check = Check(pinned.connection, self._options.check, self._queries)
            yield from pinned.chunks()
            if self._check is not None:
                self._check.wait(self._beat)
            self._conclude()
        finally:
            self.close()

    def _beat(self) -> None:
        name = self._pinned.name
        self._listener(Event("verify", self.size, self.size, path=name, text=f"checking {name}"))

    def _conclude(self) -> None:
        pinned, check = self._pinned, self._check
        state, detail, counts = "unverified", "", dict.fromkeys(self._queries)
        if check is not None:
            state, detail, counts = check.state, check.detail, check.counts
        if pinned.trouble:
            state, detail = "damaged", pinned.trouble
        self.database = DatabaseFacts(state, pinned.method, detail, pinned.page_size, counts)
        self.remarks.extend(pinned.remarks)
        if state == "damaged":
            lines = "; ".join(detail.splitlines())
            reason = f"stored exactly as it is, but the database is damaged: {lines}"
            self.remarks.append(Remark(pinned.name, Outcome.DAMAGED, reason, bytes=self.size))

    def close(self) -> None:
        if self._check is not None:
            self._check.stop()
        self._pinned.close()
