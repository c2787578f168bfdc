"""The last days of each home, one by one: what was kept, copied and proven, and what was not.

A day without a snapshot says two very different things. Where the home did not change since the one before,
nothing is missing; where it did, or may have, and the last one was too old at the end of that day, the
day was overdue. The times of snapshots come from the vault, everything else from the journal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from safekept.core.journal import Record
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.care import DrillFacts
from ..base.operations.facts import Facts
from ..base.operations.homes import SnapshotFacts
from ..base.operations.stores import PushFacts
from ..snapshots.listing import as_stored
from ..status.growth import DAY, calendar, day_of
from ..status.home_status import HomeStatus
from ..status.home_summary import TakenSnapshot
from ..status.recent import ENDED_BADLY, OF_THE_PAST, STORED
from ..status.status import Status

#: What is shown of a home.
DAYS = 30
#: States of a day, by what it was about snapshots.
KEPT, UNCHANGED, WAITING, OVERDUE, BEFORE = "kept", "unchanged", "waiting", "overdue", "before"
#: After so many lines in a row that are too old, nothing younger is expected further up.
_TOO_OLD = 500
_VERBS = ("snapshot", "push", "drill", "alarm")


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the calendar where this machine is."""

    date: str  # 2026-11-18
    state: str  # KEPT, UNCHANGED, WAITING, OVERDUE or BEFORE
    snapshots: int = 0
    bytes: int = 0  # what they added
    pushed: int = 0
    proven: int = 0
    unproven: int = 0  # drills that failed
    alarms: int = 0
    failed: int = 0  # snapshots that were tried and not stored
    seconds: float | None = None  # that the longest of them took; None: nothing says

    def as_dict(self) -> dict[str, object]:
        return {
            "date": self.date,
            "state": self.state,
            "snapshots": self.snapshots,
            "bytes": self.bytes,
            "pushed": self.pushed,
            "proven": self.proven,
            "unproven": self.unproven,
            "alarms": self.alarms,
            "failed": self.failed,
            "seconds": self.seconds,
        }


@dataclass(slots=True)
class _Counts:
    """What the journal says of one home, by day."""

    pushed: dict[str, int] = field(default_factory=dict)
    proven: dict[str, int] = field(default_factory=dict)
    unproven: dict[str, int] = field(default_factory=dict)
    alarms: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    taken: list[TakenSnapshot] = field(default_factory=list)  # as far as the journal knows
    seconds: dict[str, float] = field(default_factory=dict)


def last_days(context: UserContext, status: Status, days: int = DAYS) -> Mapping[str, tuple[Day, ...]]:
    """Of each home of a status, oldest day first."""
    names = calendar(days, status.time)
    counted = _counted(context, [one.home for one in status.homes], _begin(names[0]))
    return {one.home: _row(one, counted[one.home], names, status) for one in status.homes}


def _row(home: HomeStatus, counts: _Counts, names: Sequence[str], status: Status) -> tuple[Day, ...]:
    # One that retention let go again was taken all the same: the journal remembers it.
    every = {one.id: one for one in counts.taken} | {one.id: one for one in home.taken}
    taken = sorted(every.values(), key=lambda one: one.time)
    by_day: dict[str, list[TakenSnapshot]] = {}
    for one in taken:
        by_day.setdefault(day_of(one.time), []).append(one)
    rows = []
    for name in names:
        found = by_day.get(name, [])
        rows.append(
            Day(
                name,
                _state(name, found, taken, home, status),
                len(found),
                sum(one.bytes or 0 for one in found),
                counts.pushed.get(name, 0),
                counts.proven.get(name, 0),
                counts.unproven.get(name, 0),
                counts.alarms.get(name, 0),
                counts.failed.get(name, 0),
                counts.seconds.get(name),
            )
        )
    return tuple(rows)


def _state(
    name: str,
    found: Sequence[TakenSnapshot],
    taken: Sequence[TakenSnapshot],
    home: HomeStatus,
    status: Status,
) -> str:
    if found:
        return UNCHANGED if all(one.changed is False for one in found) else KEPT
    end = min(_begin(name) + DAY, status.time)
    before = [one for one in taken if one.time < end]
    if not before:
        return BEFORE
    after = next((one for one in taken if one.time >= end), None)
    same = after.changed is False if after is not None else _same_as_stored(home)
    if same:
        return UNCHANGED
    return OVERDUE if end - before[-1].time > status.stale_hours * 3600 else WAITING


def _same_as_stored(home: HomeStatus) -> bool:
    """Whether a look at the home found nothing that is newer than its last snapshot."""
    return home.changed.looked > 0 and not home.changed.files and not home.changed.grown


def _counted(context: UserContext, homes: Iterable[str], since: float) -> dict[str, _Counts]:
    counts = {home: _Counts() for home in homes}
    old = 0
    try:
        for line in context.journal.backwards(*_VERBS):
            # Clocks jump: one old line says nothing, hundreds of them do.
            old = old + 1 if line.time < since else 0
            if old > _TOO_OLD:
                break
            if not old:
                _count(counts, line)
    except OSError:
        pass  # the status says that it cannot be read
    return counts


def _count(counts: dict[str, _Counts], line: Record) -> None:
    day, home = day_of(line.time), Facts.read(line).home or ""
    if line.verb == "push":
        if line.state in STORED:
            wholes = PushFacts.read(line).wholes
            for path, one in counts.items():  # of an earlier safekept: all that was there
                if wholes is None or as_stored(path) in wholes:
                    _add(one.pushed, day)
        return
    if line.verb == "alarm" and not home:
        for one in counts.values():
            _add(one.alarms, day)
        return
    mine = counts.get(home)
    if mine is None:
        return
    if line.verb == "alarm":
        _add(mine.alarms, day)
    elif line.verb == "drill":
        if line.state != "begun":
            ok = DrillFacts.read(line).ok
            _add(mine.proven if ok or (ok is None and line.state == "done") else mine.unproven, day)
    elif (taken := SnapshotFacts.read(line)).kind in OF_THE_PAST:
        return
    elif line.state in STORED:
        name = taken.snapshot or line.operation
        mine.taken.append(TakenSnapshot(name, line.time, taken.stored_bytes, None))
        if taken.seconds is not None:
            mine.seconds[day] = max(mine.seconds.get(day, 0.0), taken.seconds)
    elif line.state in ENDED_BADLY:
        _add(mine.failed, day)


def _add(days: dict[str, int], day: str) -> None:
    days[day] = days.get(day, 0) + 1


def _begin(name: str) -> float:
    return time.mktime(time.strptime(name, "%Y-%m-%d"))
