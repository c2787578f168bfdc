"""The last copies of a home in a few words each: a snapshot, an archive, and an attempt that failed since."""

from __future__ import annotations

import os
from collections.abc import Iterable

from safekept.core.ages import iso_time
from safekept.core.entries import Outcome, lacking_text
from safekept.core.journal import Record
from safekept.core.next_step import Step
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.facts import Failure
from ..base.operations.homes import SnapshotFacts
from ..base.operations.stores import BackupFacts
from ..snapshots.listing import UNDO_POINTS, Listed
from .recent import SKEW

SOUND, UNVERIFIED, DAMAGED = "sound", "unverified", "damaged"


@dataclass(frozen=True, slots=True)
class LastSnapshot:
    """A snapshot in a few words; by the vault, or by the journal where the vault does not open."""

    id: str
    time: float
    kind: str
    databases: str  # SOUND, UNVERIFIED, DAMAGED, or empty where nothing says
    complete: bool
    files: int | None = None
    bytes: int | None = None
    quick: bool = False
    future: bool = False  # its time has not come yet: a clock was wrong
    from_journal: bool = False
    partial: bool = False  # it holds less than the settings select
    why_incomplete: str = ""

    @property
    def short(self) -> str:
        return self.id[:8]

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "time": iso_time(self.time),
            "kind": self.kind,
            "databases": self.databases,
            "complete": self.complete,
            "partial": self.partial,
            "files": self.files,
            "bytes": self.bytes,
            "future": self.future,
            "from_journal": self.from_journal,
        }


@dataclass(frozen=True, slots=True)
class LastArchive:
    """The archive that was written last, and whether it is still where it was written."""

    path: str
    time: float
    bytes: int | None
    complete: bool
    there: bool
    sealed: bool
    key_here: bool = False  # what opens it is on this host, too
    why_incomplete: str = ""

    @property
    def readable_here(self) -> bool:
        """Whether one who reads this host's files can read it."""
        return self.there and (not self.sealed or self.key_here)

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "time": iso_time(self.time),
            "bytes": self.bytes,
            "complete": self.complete,
            "there": self.there,
            "sealed": self.sealed,
            "readable_here": self.readable_here,
        }


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed after the last one that did not."""

    operation: str
    time: float
    state: str  # failed or interrupted
    what: str
    next_steps: tuple[Step, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "time": iso_time(self.time),
            "state": self.state,
            "what": self.what,
        }


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """That one was taken, for a row of days."""

    id: str
    time: float
    bytes: int | None  # what it added
    changed: bool | None  # whether it holds a file that the one before did not; None: nothing says


#: Days for which each snapshot is told by itself.
LATELY = 31


def taken_lately(listed: Iterable[Listed], now: float) -> tuple[TakenSnapshot, ...]:
    """Those of the last days, and the last one before them; oldest first. Undo points are not counted."""
    found: list[TakenSnapshot] = []
    for one in listed:  # the newest first
        if one.kind in UNDO_POINTS or one.future:
            continue
        summary = one.snapshot.summary
        counts = [summary.get(name) for name in ("files_new", "files_changed")]
        numbers = [count for count in counts if isinstance(count, int)]
        when = one.snapshot.time_ns / 1e9
        found.append(TakenSnapshot(one.id, when, one.added, sum(numbers) > 0 if len(numbers) == 2 else None))
        if when < now - LATELY * 86_400:
            break
    return tuple(reversed(found))


def last_snapshot(listed: Listed) -> LastSnapshot:
    return LastSnapshot(
        listed.id,
        listed.snapshot.time_ns / 1e9,
        listed.kind,
        listed.state,
        listed.complete,
        listed.files,
        listed.bytes,
        listed.kind == "quick",
        listed.future,
        partial=listed.partial,
        why_incomplete=listed.why_incomplete,
    )


def snapshot_from_journal(entry: Record | None, now: float) -> LastSnapshot | None:
    """The last snapshot as the journal tells it."""
    if entry is None:
        return None
    taken = SnapshotFacts.read(entry)
    states = list((taken.databases or {}).values())
    return LastSnapshot(
        taken.snapshot or "",
        entry.time,
        taken.kind or "",
        next((state for state in (DAMAGED, UNVERIFIED, SOUND) if state in states), ""),
        entry.state == "done",
        taken.files,
        taken.bytes,
        taken.kind == "quick",
        entry.time > now + SKEW,
        from_journal=True,
        partial=taken.is_part,
    )


def last_archive(context: UserContext, entry: Record | None) -> LastArchive | None:
    made = BackupFacts.read(entry) if entry is not None else BackupFacts()
    if entry is None or not made.archive:
        return None
    damaged = made.damaged or ()
    return LastArchive(
        made.archive,
        entry.time,
        made.stored_bytes,
        entry.state == "done",
        os.path.isfile(made.archive),
        bool(made.sealed),
        bool(context.choices.identities) or context.caller.passphrase_is_given,
        lacking_text(damaged[0], Outcome.DAMAGED, len(damaged)) if damaged else "",
    )


def failure_of(entry: Record | None) -> FailedAttempt | None:
    """A failed line of the journal in words."""
    if entry is None:
        return None
    error = Failure.read(entry) or Failure()
    return FailedAttempt(
        entry.operation,
        entry.time,
        entry.state,
        error.what or "no reason was recorded",
        error.next_steps,
    )
