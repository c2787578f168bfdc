"""How a vault grows: what each snapshot added, per day and per week, out of the snapshot files alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from safekept.core.records import dataclass
from safekept.vault.format import Snapshot
from safekept.vault.tags import forgotten_at

DAY = 86_400.0
#: So many days are looked at for an average: long enough for a quiet week, short enough to notice.
WINDOW = 28


@dataclass(frozen=True, slots=True)
class Growth:
    """What was added when, in bytes as they lie in the vault; oldest first."""

    points: tuple[tuple[float, int], ...] = ()  # (seconds since 1970, bytes)
    per_day: float | None = (
        None  # over the last weeks, the first snapshot of all not counted; None: too young
    )
    last_week: int | None = None
    stands_for: int = 0  # what all snapshots that are kept would be without each other

    @property
    def total(self) -> int:
        return sum(count for _, count in self.points)

    def as_dict(self) -> dict[str, object]:
        per_day = round(self.per_day) if self.per_day is not None else None
        return {"added_bytes_per_day": per_day, "added_bytes_last_week": self.last_week}


def growth_of(snapshots: Iterable[Snapshot], now: float) -> Growth:
    """The snapshots of one home or of a whole vault, forgotten ones among them: they added, too."""
    snapshots = list(snapshots)
    whole = sum(_whole(one) for one in snapshots if forgotten_at(one) is None)
    points = sorted(
        (snapshot.time_ns / 1e9, added) for snapshot in snapshots if (added := _added(snapshot)) is not None
    )
    points = [point for point in points if point[0] <= now]
    # The first one stores everything there is, which says nothing about the days after it.
    later = points[1:]
    if not later:
        return Growth(tuple(points), stands_for=whole)
    since = max(points[0][0], now - WINDOW * DAY)
    days = max(1.0, (now - since) / DAY)
    lately = sum(count for when, count in later if when >= since)
    week = sum(count for when, count in later if when >= now - 7 * DAY)
    # What came in the first minutes says nothing about a day.
    per_day = lately / days if now - points[0][0] >= DAY else None
    return Growth(tuple(points), per_day, week, whole)


def by_day(points: Sequence[tuple[float, int]], days: int, now: float) -> list[int]:
    """What was added on each of the last days of the calendar where this machine is; today comes last."""
    totals: dict[str, int] = {}
    for when, count in points:
        totals[day_of(when)] = totals.get(day_of(when), 0) + count
    return [totals.get(name, 0) for name in calendar(days, now)]


def day_of(when: float) -> str:
    """`2026-11-18`, where this machine is."""
    return time.strftime("%Y-%m-%d", time.localtime(when))


def calendar(days: int, now: float) -> list[str]:
    """The last days by their names; today comes last."""
    # From noon to noon: a day of 23 or 25 hours is one day all the same.
    today = time.localtime(now)
    noon = time.mktime((today.tm_year, today.tm_mon, today.tm_mday, 12, 0, 0, 0, 0, -1))
    return [day_of(noon - back * DAY) for back in range(days)][::-1]


def _whole(snapshot: Snapshot) -> int:
    own = snapshot.extra.get("safekept")
    own = own if isinstance(own, dict) else {}
    for value in (own.get("bytes"), snapshot.summary.get("total_bytes_processed")):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0


def _added(snapshot: Snapshot) -> int | None:
    own = snapshot.extra.get("safekept")
    own = own if isinstance(own, dict) else {}
    summary = snapshot.summary
    for value in (summary.get("data_added_packed"), summary.get("data_added"), own.get("added")):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
