"""What may go: decided first, as a plan that can be shown, and only then done.

Oldest first over all projects, down to the limit and no further. Never in a plan: the newest
checkpoint of a project and its newest numbered one, whatever their age; undo points younger than a
day; what a rollback in progress needs; the first point of a session that is still at work. After-marks
stay as long as a numbered point before them does, because they are what tells the user's edits from the
agent's. Points that were only taken to look at a project go after an hour. Orphans go whole, only on
positive evidence, and only where a person asked. A limit that cannot be reached without breaking a rule
is reported (`still_over`), not forced, and nothing is dropped that gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from safekept.core.records import dataclass

from ..checkpoint import LOOKED_AT, Checkpoint
from ..project import LIVE, ORPHAN, Presence

HOUR_NS = 3_600 * 1_000_000_000
DAY_NS = 24 * HOUR_NS


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept. Zero means no limit."""

    max_snapshots: int = 0  # numbered points per project
    max_total_bytes: int = 0
    retention_days: float = 0

    def as_dict(self) -> dict[str, object]:
        return {
            "max_snapshots": self.max_snapshots,
            "max_total_bytes": self.max_total_bytes,
            "retention_days": self.retention_days,
        }


@dataclass(frozen=True, slots=True)
class ProjectPoints:
    """One project's side of the decision."""

    project: str
    checkpoints: Sequence[Checkpoint]  # any order
    presence: Presence = field(default_factory=lambda: Presence(LIVE, ""))
    protected: frozenset[str] = frozenset()  # ids that a rollback in progress needs
    at_work: frozenset[str] = frozenset()  # the state before each session that has not ended its turn


@dataclass(frozen=True, slots=True)
class Drop:
    """One checkpoint that goes, and why."""

    checkpoint: Checkpoint
    reason: str  # "count", "age", "looked", "orphan", "size"
    frees: int = 0  # bytes that only this one holds, once those before it are gone

    def as_dict(self) -> dict[str, object]:
        point = self.checkpoint
        return {"id": point.id, "project": point.project, "time_ns": point.time_ns, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What goes, and what is left over a limit because the rest may not go."""

    drop: tuple[Drop, ...]
    orphans: tuple[str, ...]  # projects that go whole
    size_before: int
    size_after: int
    still_over: int  # bytes above max_total_bytes that no rule lets go

    def as_dict(self) -> dict[str, object]:
        return {
            "drop": [drop.as_dict() for drop in self.drop],
            "orphans": list(self.orphans),
            "size_before": self.size_before,
            "size_after": self.size_after,
            "still_over": self.still_over,
        }


#: Given checkpoints in the order in which they would go: the bytes that each frees.
BytesHeld = Callable[[Sequence[Checkpoint]], Sequence[int]]


def plan_retention(
    projects: Sequence[ProjectPoints],
    limits: Limits,
    now_ns: int,
    *,
    total_bytes: int = 0,
    bytes_held: BytesHeld | None = None,
    drop_orphans: bool = False,
) -> RetentionPlan:
    """Decide what goes. `bytes_held` is asked only where a size limit is exceeded."""
    reasons: dict[str, tuple[Checkpoint, str]] = {}
    orphans = []
    for each in projects:
        if drop_orphans and each.presence.state == ORPHAN and not each.protected:
            orphans.append(each.project)
            reasons.update({point.id: (point, "orphan") for point in each.checkpoints})
        else:
            reasons.update(_by_count_and_age(each, limits, now_ns))
    chosen = sorted(reasons.values(), key=lambda pair: _age(pair[0]))
    waiting = _may_go_for_size(projects, reasons, now_ns) if limits.max_total_bytes else []
    over = limits.max_total_bytes and total_bytes > limits.max_total_bytes
    # What each frees is known only from the whole order: first what goes anyway, then the rest.
    order = [point for point, _ in chosen] + waiting
    frees: Sequence[int] = bytes_held(order) if bytes_held is not None and over else [0] * len(order)
    drops = [Drop(point, why, frees[n]) for n, (point, why) in enumerate(chosen)]
    left = total_bytes - sum(frees[: len(chosen)])
    if over and bytes_held is not None:
        more, left = _down_to(limits.max_total_bytes, left, waiting, frees[len(chosen) :])
        drops += more
    still_over = max(0, left - limits.max_total_bytes) if limits.max_total_bytes else 0
    return RetentionPlan(tuple(drops), tuple(orphans), total_bytes, left, still_over)


def _down_to(
    cap: int, size: int, waiting: Sequence[Checkpoint], frees: Sequence[int]
) -> tuple[list[Drop], int]:
    """Take from the oldest until the cap holds; nothing where that would gain nothing."""
    taken: list[Drop] = []
    worth = 0  # how many of `taken` end with one that frees something
    left = size
    for point, freed in zip(waiting, frees, strict=True):
        if left <= cap:
            break
        taken.append(Drop(point, "size", freed))
        left -= freed
        if freed:
            worth = len(taken)
    return taken[:worth], left


def _by_count_and_age(
    each: ProjectPoints, limits: Limits, now_ns: int
) -> Mapping[str, tuple[Checkpoint, str]]:
    newest_first = sorted(each.checkpoints, key=_age, reverse=True)
    immune = immune_ids(newest_first, now_ns) | each.protected | each.at_work
    found: dict[str, tuple[Checkpoint, str]] = {}
    numbered = [point for point in newest_first if point.numbered]
    if limits.max_snapshots and len(numbered) > limits.max_snapshots:
        # Marks and undo points go with the numbered point that they follow.
        oldest_kept = numbered[limits.max_snapshots - 1]
        for point in newest_first:
            if _age(point) < _age(oldest_kept) and point.id not in immune:
                found[point.id] = (point, "count")
    for point in newest_first:
        if looked_at(point) and now_ns - point.time_ns >= HOUR_NS and point.id not in immune:
            found.setdefault(point.id, (point, "looked"))
    if limits.retention_days:
        oldest_ns = now_ns - int(limits.retention_days * DAY_NS)
        for point in newest_first:
            if point.time_ns < oldest_ns and point.id not in immune:
                found.setdefault(point.id, (point, "age"))
    return found


def _may_go_for_size(
    projects: Sequence[ProjectPoints], gone: Mapping[str, object], now_ns: int
) -> list[Checkpoint]:
    waiting: list[Checkpoint] = []
    for each in projects:
        immune = immune_ids(each.checkpoints, now_ns) | each.protected | each.at_work
        waiting += [p for p in each.checkpoints if p.id not in immune and p.id not in gone]
    return sorted(waiting, key=_age)


def immune_ids(checkpoints: Sequence[Checkpoint], now_ns: int) -> frozenset[str]:
    """What no limit may take: the newest of any kind, the newest numbered, undo points of the last day."""
    kept = {max(points, key=_age).id for points in (checkpoints, _numbered(checkpoints)) if points}
    # A clock that ran ahead makes points from the future: they count as young.
    kept |= {
        p.id
        for p in checkpoints
        if p.kind == "undo" and now_ns - p.time_ns < (HOUR_NS if looked_at(p) else DAY_NS)
    }
    return frozenset(kept)


def looked_at(point: Checkpoint) -> bool:
    """Whether a point was taken for a list, a difference or a dry run, and no rollback needs it."""
    return point.kind == "undo" and point.reason == LOOKED_AT


def _numbered(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    return [point for point in checkpoints if point.numbered]


def _age(point: Checkpoint) -> tuple[int, str]:
    return point.time_ns, point.id
