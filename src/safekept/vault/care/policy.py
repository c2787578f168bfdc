"""Keep so many a day, a week, a month: restic's policies, with restic's exact meaning.

Snapshots are looked at from the newest to the oldest. For each rule with a count left, a snapshot is
kept when its hour, day, week, month or year is not that of the one kept before it; and the oldest of
all is kept while counts are left, so that a short history is not cut shorter. The hour and day are
those of the offset written in the snapshot's own time. `within` counts back from the newest snapshot.
What any rule keeps is kept. A policy without rules keeps everything.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import field, fields

from safekept.core.records import dataclass

from ..format.snapshot import Snapshot

_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)m)?(?:(\d+)d)?(?:(\d+)h)?")
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time as restic writes it: `2y5m7d3h`."""

    years: int = 0
    months: int = 0
    days: int = 0
    hours: int = 0

    @classmethod
    def parse(cls, text: str) -> Span:
        match = _DURATION.fullmatch(text.strip())
        if match is None or not any(match.groups()):
            raise ValueError(f"not a length of time: {text!r}; write it as in `1y6m14d12h`")
        return cls(*(int(part or 0) for part in match.groups()))

    def __bool__(self) -> bool:
        return any((self.years, self.months, self.days, self.hours))

    def __str__(self) -> str:
        parts = ((self.years, "y"), (self.months, "m"), (self.days, "d"), (self.hours, "h"))
        return "".join(f"{number}{unit}" for number, unit in parts if number)

    def before(self, moment: datetime.datetime) -> datetime.datetime:
        """So long before a moment; a day that a month does not have runs over into the next."""
        months = (moment.year - self.years) * 12 + moment.month - 1 - self.months
        if months < 12:
            return datetime.datetime.min
        first = moment.replace(year=months // 12, month=months % 12 + 1, day=1)
        try:
            return first + _DAY * (moment.day - 1 - self.days) - datetime.timedelta(hours=self.hours)
        except OverflowError:
            return datetime.datetime.min


@dataclass(frozen=True, slots=True)
class Policy:
    """How many to keep by each rule; -1: all of them. `tags`: any of these groups, all tags of a group."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within: Span = field(default=Span())
    within_hourly: Span = field(default=Span())
    within_daily: Span = field(default=Span())
    within_weekly: Span = field(default=Span())
    within_monthly: Span = field(default=Span())
    within_yearly: Span = field(default=Span())
    tags: tuple[tuple[str, ...], ...] = ()

    @property
    def empty(self) -> bool:
        return not any(getattr(self, item.name) for item in fields(self))


def apply_policy(snapshots: Sequence[Snapshot], policy: Policy) -> list[tuple[Snapshot, tuple[str, ...]]]:
    """Each snapshot, newest first, with the reasons to keep it; without any it may go."""
    ordered = sorted(snapshots, key=lambda snapshot: (snapshot.time_ns, snapshot.id), reverse=True)
    if policy.empty:
        return [(snapshot, ("its policy has no rules",)) for snapshot in ordered]
    if not ordered:
        return []
    counts = {name: getattr(policy, name) for name in _BUCKETS}
    kept: dict[str, int] = {}
    newest = local_time(ordered[0])
    result = []
    for number, snapshot in enumerate(ordered):
        moment, oldest = local_time(snapshot), number == len(ordered) - 1
        reasons = [
            f"tagged {', '.join(group)}"
            for group in policy.tags
            if group and set(group) <= set(snapshot.tags)
        ]
        if policy.within and _after(snapshot, ordered[0], policy.within, newest):
            reasons.append(f"within {policy.within}")
        for name, bucket in _BUCKETS.items():
            if counts[name] == 0:
                continue
            key = bucket(moment, number)
            if kept.get(name) != key or oldest:
                first = kept.get(name) != key
                kept[name] = key
                counts[name] -= counts[name] > 0
                reasons.append(_REASONS[name] if first else f"oldest, {name} not used up")
        for name, bucket in _BUCKETS.items():
            span = policy.within if name == "last" else getattr(policy, f"within_{name}")
            if name == "last" or not span or not _after(snapshot, ordered[0], span, newest):
                continue
            key = bucket(moment, number)
            if kept.get("within_" + name) != key or oldest:
                kept["within_" + name] = key
                reasons.append(f"{name} within {span}")
        result.append((snapshot, tuple(reasons)))
    return result


def local_time(snapshot: Snapshot) -> datetime.datetime:
    """The wall clock where it was taken, as the offset in its time says."""
    east = snapshot.offset
    if east is None:
        east = 0
    seconds = min(max(snapshot.time_ns // 1_000_000_000 + east, -62135596800), 253402300799)
    return _EPOCH + datetime.timedelta(seconds=seconds)


def _after(snapshot: Snapshot, newest: Snapshot, span: Span, clock: datetime.datetime) -> bool:
    """Whether it is younger than the newest less the span; compared as moments, not as wall clocks."""
    age = (newest.time_ns - snapshot.time_ns) / 1e9
    return age < (clock - span.before(clock)).total_seconds()


_BUCKETS: dict[str, Callable[[datetime.datetime, int], int]] = {
    "last": lambda moment, number: number,
    "hourly": lambda moment, number: moment.toordinal() * 24 + moment.hour,
    "daily": lambda moment, number: moment.toordinal(),
    "weekly": lambda moment, number: moment.isocalendar()[0] * 100 + moment.isocalendar()[1],
    "monthly": lambda moment, number: moment.year * 100 + moment.month,
    "yearly": lambda moment, number: moment.year,
}
_REASONS = {
    "last": "one of the last",
    "hourly": "hourly",
    "daily": "daily",
    "weekly": "weekly",
    "monthly": "monthly",
    "yearly": "yearly",
}
