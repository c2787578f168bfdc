"""What may go is decided first, oldest first, down to the limit and no further."""

from __future__ import annotations

import dataclasses
import random

import pytest

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.project import ORPHAN, UNREACHABLE, Presence
from safekept.checkpoints.upkeep.retention import DAY_NS, Limits, ProjectPoints, RetentionPlan, plan_retention

NOW = 1_800_000_000 * 1_000_000_000
HOUR = DAY_NS // 24


def point(project: str, age_hours: float, kind: str = "before", name: str = "") -> Checkpoint:
    time_ns = NOW - int(age_hours * HOUR)
    return Checkpoint(
        id=name or f"{time_ns:012x}"[-12:],
        project=project,
        time_ns=time_ns,
        kind=kind,
        reason="",
        session="",
        turn="",
        commit="",
        full=True,
        files=1,
        skipped=0,
    )


def project(name: str, *ages: float, kind: str = "before") -> ProjectPoints:
    return ProjectPoints(name, [point(name, age, kind, f"{name}-{age:g}") for age in ages])


def gone(plan: RetentionPlan) -> list[str]:
    return [drop.checkpoint.id for drop in plan.drop]


def test_count_drops_the_oldest_of_each_project_and_no_more():
    plan = plan_retention([project("a", 1, 2, 3, 4), project("b", 10, 20)], Limits(max_snapshots=3), NOW)
    assert gone(plan) == ["a-4"]


def test_v34_a_live_project_untouched_for_weeks_keeps_its_newest_checkpoint():
    plan = plan_retention([project("a", 24 * 40, 24 * 50, 24 * 60)], Limits(retention_days=7), NOW)
    assert gone(plan) == ["a-1440", "a-1200"]
    assert [drop.reason for drop in plan.drop] == ["age", "age"]


def test_the_newest_numbered_point_stays_although_marks_are_newer():
    points = [point("a", 500, "before", "before"), point("a", 499, "after", "after")]
    plan = plan_retention([ProjectPoints("a", points)], Limits(max_snapshots=1, retention_days=1), NOW)
    assert gone(plan) == []


def test_after_marks_stay_as_long_as_a_numbered_point_before_them_does():
    """Without the mark, a rollback would take the user's own edits for the agent's (G, #80751)."""
    points = [
        point("a", 40, "before", "b1"),
        point("a", 39, "after", "m1"),
        point("a", 30, "before", "b2"),
        point("a", 29, "after", "m2"),
        point("a", 20, "before", "b3"),
    ]
    plan = plan_retention([ProjectPoints("a", points)], Limits(max_snapshots=2), NOW)
    assert gone(plan) == ["b1", "m1"]


def test_undo_points_of_the_last_day_are_immune():
    points = [point("a", age, "before", f"b{age}") for age in (1, 2, 3)]
    points += [point("a", 10, "undo", "young"), point("a", 30, "undo", "old")]
    plan = plan_retention([ProjectPoints("a", points)], Limits(max_snapshots=1, retention_days=0.01), NOW)
    assert set(gone(plan)) == {"b2", "b3", "old"}


def test_what_a_rollback_in_progress_needs_is_immune():
    each = project("a", 1, 2, 3, 4)
    held = ProjectPoints("a", each.checkpoints, each.presence, frozenset({"a-4"}))
    plan = plan_retention([held], Limits(max_snapshots=1, retention_days=0.001), NOW)
    assert gone(plan) == ["a-3", "a-2"]


def test_the_state_before_a_session_that_is_still_at_work_stays_whatever_the_limits_say():
    points = project("a", 1, 2, 3, 4, 5).checkpoints
    held = ProjectPoints("a", points, at_work=frozenset({"a-5"}))
    limits = Limits(max_snapshots=2, max_total_bytes=1, retention_days=0.1)
    plan = plan_retention([held], limits, NOW, total_bytes=100, bytes_held=ten_each)
    assert "a-5" not in gone(plan) and {"a-2", "a-3", "a-4"} <= set(gone(plan))
    orphan = dataclasses.replace(held, presence=Presence(ORPHAN, "deleted"))
    assert "a-5" in gone(plan_retention([orphan], limits, NOW, drop_orphans=True))


def test_47612_going_back_to_the_oldest_does_not_prune_it_first():
    """The undo point that a rollback takes makes one too many; the target is pinned while it runs."""
    each = project("a", *range(1, 22))
    target = "a-21"
    points = [*each.checkpoints, point("a", 0, "undo", "undo")]
    plan = plan_retention(
        [ProjectPoints("a", points, each.presence, frozenset({target}))], Limits(max_snapshots=20), NOW
    )
    assert target not in gone(plan)


# ── orphans ───────────────────────────────────────────────────────────────────────────────────────


def test_orphans_go_only_when_a_person_asked():
    orphan = ProjectPoints("a", project("a", 1, 2).checkpoints, Presence(ORPHAN, "gone"))
    assert gone(plan_retention([orphan], Limits(), NOW)) == []
    plan = plan_retention([orphan], Limits(), NOW, drop_orphans=True)
    assert gone(plan) == ["a-2", "a-1"]
    assert plan.orphans == ("a",)


def test_69063_an_unreachable_project_is_no_orphan():
    away = ProjectPoints("a", project("a", 1, 2).checkpoints, Presence(UNREACHABLE, "unmounted"))
    assert gone(plan_retention([away], Limits(), NOW, drop_orphans=True)) == []


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def ten_each(points):
    return [10] * len(points)


def test_v33_crossing_the_cap_by_one_drops_one_and_not_the_history_of_every_project():
    projects = [
        project(name, *(hours + offset for hours in range(1, 11))) for offset, name in enumerate("abcde")
    ]
    plan = plan_retention(projects, Limits(max_total_bytes=495), NOW, total_bytes=500, bytes_held=ten_each)
    assert gone(plan) == ["e-14"], "the oldest over all projects, and only that one"
    assert (plan.size_after, plan.still_over) == (490, 0)


def test_oldest_first_over_all_projects():
    plan = plan_retention(
        [project("a", 1, 5, 9), project("b", 2, 7, 8)],
        Limits(max_total_bytes=35),
        NOW,
        total_bytes=60,
        bytes_held=ten_each,
    )
    assert gone(plan) == ["a-9", "b-8", "b-7"]


def test_112063_nothing_is_dropped_and_nothing_weighed_twice_when_nothing_can_be_gained():
    plan = plan_retention(
        [project("a", 1, 2, 3)],
        Limits(max_total_bytes=10),
        NOW,
        total_bytes=100,
        bytes_held=lambda points: [0] * len(points),
    )
    assert gone(plan) == []
    assert plan.still_over == 90


def test_at_the_floor_the_excess_is_said_and_the_newest_of_each_project_stays():
    plan = plan_retention(
        [project("a", 1), project("b", 2)],
        Limits(max_total_bytes=5),
        NOW,
        total_bytes=20,
        bytes_held=ten_each,
    )
    assert gone(plan) == []
    assert plan.still_over == 15


def test_size_is_not_asked_for_below_the_cap():
    def never(points):
        raise AssertionError("weighed although nothing is over")

    plan_retention([project("a", 1, 2)], Limits(max_total_bytes=100), NOW, total_bytes=50, bytes_held=never)


def test_what_goes_by_count_is_counted_before_more_goes_by_size():
    plan = plan_retention(
        [project("a", 1, 2, 3, 4)],
        Limits(max_snapshots=2, max_total_bytes=25),
        NOW,
        total_bytes=40,
        bytes_held=ten_each,
    )
    assert [(drop.checkpoint.id, drop.reason) for drop in plan.drop] == [("a-4", "count"), ("a-3", "count")]


def test_51939_a_time_from_the_future_or_of_zero_aborts_nothing():
    points = [point("a", -1000, name="future"), point("a", 5, name="now")]
    points.append(Checkpoint("zero", "a", 0, "before", "", "", "", "", True, 1, 0))
    plan = plan_retention([ProjectPoints("a", points)], Limits(retention_days=1), NOW)
    assert gone(plan) == ["zero"]


@pytest.mark.parametrize("seed", range(40))
def test_no_plan_ever_breaks_a_rule(seed):
    """Random stores: immune points stay, the oldest goes, the cap is met or said to be out of reach."""
    chance = random.Random(seed)
    projects = []
    for name in "abcd"[: chance.randint(1, 4)]:
        points = [
            point(
                name,
                chance.uniform(0, 900),
                chance.choice(["before", "after", "undo", "manual"]),
                f"{name}{n}",
            )
            for n in range(chance.randint(1, 30))
        ]
        projects.append(ProjectPoints(name, points))
    weights = {p.id: chance.choice([0, 1, 7, 40]) for each in projects for p in each.checkpoints}
    total = sum(weights.values())
    limits = Limits(
        chance.choice([0, 1, 5]), chance.choice([0, total // 2, total - 1, 1]), chance.choice([0, 3])
    )
    plan = plan_retention(
        projects, limits, NOW, total_bytes=total, bytes_held=lambda order: [weights[p.id] for p in order]
    )
    dropped = set(gone(plan))
    by_size = [drop for drop in plan.drop if drop.reason == "size"]
    for each in projects:
        newest = max(each.checkpoints, key=lambda p: (p.time_ns, p.id))
        assert newest.id not in dropped
        assert all(
            p.id not in dropped for p in each.checkpoints if p.kind == "undo" and NOW - p.time_ns < DAY_NS
        )
        numbered = [p for p in each.checkpoints if p.numbered]
        assert not numbered or max(numbered, key=lambda p: (p.time_ns, p.id)).id not in dropped
    if by_size:
        last = by_size[-1]
        assert plan.size_after + last.frees > limits.max_total_bytes, "one more went than was needed"
        assert by_size == sorted(by_size, key=lambda drop: (drop.checkpoint.time_ns, drop.checkpoint.id))
    if limits.max_total_bytes and plan.still_over:
        left = [p for each in projects for p in each.checkpoints if p.id not in dropped and weights[p.id]]
        kept_for_a_reason = [
            p
            for each in projects
            for p in each.checkpoints
            if p in left
            and (
                (p.kind == "undo" and NOW - p.time_ns < DAY_NS)
                or p.id == max(each.checkpoints, key=lambda q: (q.time_ns, q.id)).id
                or p.id
                == max(
                    (q for q in each.checkpoints if q.numbered), key=lambda q: (q.time_ns, q.id), default=p
                ).id
            )
        ]
        assert left == kept_for_a_reason, "still over the cap although something could have gone"


def test_points_that_were_only_looked_at_go_after_an_hour_and_real_undo_points_stay():
    points = [
        dataclasses.replace(point("a", age, "undo", name), reason=reason)
        for age, name, reason in (
            (0.5, "newest", "looked at"),
            (0.9, "young", "looked at"),
            (1.1, "old", "looked at"),
            (20, "undo", "before a rollback"),
        )
    ]
    points.append(point("a", 30, "before", "before"))
    plan = plan_retention([ProjectPoints("a", points)], Limits(), NOW)
    assert [(drop.checkpoint.id, drop.reason) for drop in plan.drop] == [("old", "looked")]
    alone = plan_retention([ProjectPoints("a", [points[2], points[4]])], Limits(), NOW)
    assert not alone.drop, "the newest of all stays: the next look builds upon it"
