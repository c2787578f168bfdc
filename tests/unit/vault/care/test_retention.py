"""Retention never surprises: per kind, oldest first, down to the limit and no further; some never go."""

from __future__ import annotations

import hashlib
import random

import pytest

from safekept.vault.care.policy import Policy, Span, apply_policy
from safekept.vault.care.retention import DEFAULT_POLICIES, for_every_kind, plan_forget
from safekept.vault.format.go_text import parse_time
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.tags import KINDS

HOUR = 3600 * 10**9
DAY = 24 * HOUR
NOW = parse_time("2026-11-15T12:00:00Z")[0]


def make(time_ns, kind="quick", *words, host="h", home="/home/u/.hermes", states=None, offset=0):
    extra = {} if states is None else {"safekept": {"databases": states}}
    words = (f"kind:{kind}", *words) if kind else words
    name = hashlib.sha256(repr((time_ns, words, host, home)).encode()).hexdigest()
    return Snapshot(time_ns, b"t" * 32, (home,), host, tags=tuple(words), extra=extra, offset=offset, id=name)


def series(count, kind="quick", step=HOUR, end=NOW - HOUR, **options):
    """Oldest first."""
    return [make(end - (count - 1 - number) * step, kind, **options) for number in range(count)]


def forgotten(plan):
    return [item.snapshot for item in reversed(plan.forget)]


def plan_of(snapshots, policies=DEFAULT_POLICIES, now_ns=NOW, **options):
    shuffled = list(snapshots)
    random.Random(5).shuffle(shuffled)
    plan = plan_forget(shuffled, policies, now_ns=now_ns, **options)
    assert len(plan.keep) + len(plan.forget) == len(shuffled)
    assert all(item.reasons for item in (*plan.keep, *plan.forget))
    return plan


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("quick", 20), ("pre-update", 5), ("pre-migration", 5), ("pre-import", 5), ("pre-restore", 5)],
)
def test_the_oldest_beyond_the_limit_go_and_no_more(kind, limit):
    every = series(limit + 3, kind)
    plan = plan_of(every)
    assert forgotten(plan) == every[:3]
    assert plan.forget[0].reasons == (f"{kind} beyond what its policy keeps ({limit} last)",)
    assert plan_of(every[3:]).forget == []


@pytest.mark.parametrize("kind", ["manual", "adopted", "", "of-a-later-safekept"])
def test_what_a_person_or_restic_made_never_goes_by_itself(kind):
    plan = plan_of(series(300, kind))
    assert plan.forget == []
    assert f"{kind or 'other'} snapshots never go by themselves" in plan.keep[-1].reasons


def test_each_host_home_and_kind_has_a_bucket_of_its_own():
    every = [
        *series(6, "pre-update"),
        *series(6, "pre-import"),
        *series(6, "pre-update", home="/other"),
        *series(6, "pre-update", host="laptop"),
        *series(20),
    ]
    gone = forgotten(plan_of(every))
    assert sorted((item.hostname, item.paths[0], item.tags[0]) for item in gone) == [
        ("h", "/home/u/.hermes", "kind:pre-import"),
        ("h", "/home/u/.hermes", "kind:pre-update"),
        ("h", "/other", "kind:pre-update"),
        ("laptop", "/home/u/.hermes", "kind:pre-update"),
    ]


def test_a_scheduled_year_keeps_days_then_weeks_then_months():
    every = series(400, "scheduled", DAY)
    kept = [item.snapshot for item in plan_of(every).keep]
    ages = [(NOW - one.time_ns) // DAY for one in kept]
    assert ages[:14] == list(range(14))
    assert len(kept) <= 14 + 8 + 12
    assert max(ages) > 300
    # The next day, and the next, nothing that would be kept longer has gone too early.
    left = kept
    for day in range(1, 60):
        left = [make(NOW + day * DAY - HOUR, "scheduled"), *left]
        plan = plan_of(left, now_ns=NOW + day * DAY)
        left = [item.snapshot for item in plan.keep]
        assert len(plan.forget) <= 2
    assert {(NOW + 59 * DAY - one.time_ns) // DAY for one in left} >= set(range(14))


# What no policy can overrule


def test_pinned_ones_stay_until_their_pin_is_over():
    every = series(22)
    every[0] = make(every[0].time_ns, "quick", "pin")
    every[1] = make(every[1].time_ns, "quick", "pin:2026-11-20")
    plan = plan_of(every)
    assert plan.forget == []
    assert {item.reasons for item in plan.keep[-2:]} == {("pinned",), ("pinned until 2026-11-20",)}
    assert forgotten(plan_of(every, now_ns=NOW + 10 * DAY)) == [every[1]]


def test_the_newest_of_a_home_stays_even_if_its_policy_keeps_none():
    every = [make(NOW - DAY, "quick"), make(NOW - HOUR, "pre-update")]
    plan = plan_of(every, {"quick": Policy(tags=(("x",),)), "pre-update": Policy(tags=(("x",),))})
    assert forgotten(plan) == [every[0]]
    assert "the newest of its home" in plan.keep[0].reasons


def test_an_incomplete_newest_does_not_push_out_the_newest_complete_one():
    every = [*series(2), *(make(NOW - 99 + number, "quick", "incomplete") for number in range(20))]
    plan = plan_of(every)
    assert forgotten(plan) == [every[0]]
    assert plan.keep[-1].reasons == ("the newest complete one of its home",)


def test_the_newest_verified_generation_of_each_database_stays():
    every = series(30)
    every[2] = make(every[2].time_ns, states={"state.db": "sound", "old.db": "sound"})
    every[4] = make(every[4].time_ns, states={"state.db": "sound"})
    every[5] = make(every[5].time_ns, states={"state.db": "unverified"})
    every[6] = make(every[6].time_ns, "quick", "state:sound")
    plan = plan_of(every)
    reasons = {item.snapshot.id: item.reasons for item in plan.keep}
    assert reasons[every[2].id] == ("the newest verified generation of `old.db`",)
    assert reasons[every[4].id] == ("the newest verified generation of `state.db`",)
    assert reasons[every[6].id] == ("the newest verified generation of its databases",)
    assert every[5] in forgotten(plan)
    assert len(plan.forget) == 10 - 3


def test_damaged_generations_never_push_out_the_last_sound_one():
    sound = make(NOW - 90 * DAY, states={"state.db": "sound"})
    every = [sound, *series(200, states={"state.db": "damaged"})]
    plan = plan_of(every)
    assert sound not in forgotten(plan)
    assert len(plan.keep) == 21


def test_what_is_forgotten_already_neither_counts_nor_protects():
    away = [make(NOW - number * HOUR, "quick", "forgotten:2026-11-15T09:00:00Z") for number in range(1, 9)]
    every = series(20, end=NOW - 10 * HOUR)
    plan = plan_forget([*away, *every], now_ns=NOW)
    assert plan.forget == []
    assert len(plan.keep) == 20
    assert "the newest of its home" in plan.keep[0].reasons


# Clocks


def test_snapshots_from_the_future_push_nothing_out():
    """The clock was years ahead for twenty snapshots; each new one must not be forgotten at once."""
    future = series(20, end=NOW + 3650 * DAY)
    present = series(20)
    plan = plan_of([*future, *present])
    assert plan.forget == []
    assert plan.keep[0].reasons == ("the newest of its home", "its time is in the future")
    newest = next(item for item in plan.keep if item.snapshot == present[-1])
    assert "the newest of its home" in newest.reasons
    assert forgotten(plan_of([*future, *series(21)])) == [series(21)[0]]


def test_a_clock_that_is_set_back_forgets_nothing_of_before():
    """The battery died: it is 2020 again, and everything is in the future."""
    then = parse_time("2020-01-01T00:00:00Z")[0]
    every = series(25)
    new = [make(then + number * HOUR) for number in range(3)]
    assert plan_of([*every, *new], now_ns=then + DAY).forget == []


def test_a_clock_that_jumps_ahead_forgets_no_more_than_counts_say():
    every = series(20)
    ahead = make(NOW + 3650 * DAY)
    assert forgotten(plan_of([*every, ahead], now_ns=NOW + 3650 * DAY + 1)) == [every[0]]


# restic's meaning


def kept_by(policy, snapshots):
    return [snapshot for snapshot, reasons in apply_policy(snapshots, policy) if reasons]


def local(text, **options):
    time_ns, offset = parse_time(text)
    return make(time_ns, offset=offset, **options)


def test_a_day_is_the_day_of_the_offset_that_the_snapshot_was_written_with():
    late = local("2026-11-14T23:30:00-05:00")
    early = local("2026-11-15T00:30:00-05:00")
    assert kept_by(Policy(daily=9), [late, early]) == [early, late]
    # The same moments in Greenwich are one day; the older of the two stays as the oldest of all.
    same = [local("2026-11-15T04:30:00Z"), local("2026-11-15T05:30:00Z"), local("2026-11-15T06:30:00Z")]
    assert kept_by(Policy(daily=9), same) == [same[2], same[0]]
    assert kept_by(Policy(daily=1), same) == [same[2]]


def test_weeks_are_those_of_the_iso_calendar():
    new_year = local("2027-01-01T12:00:00Z")  # a Friday in week 53 of 2026
    monday = local("2026-12-28T12:00:00Z")
    sunday = local("2026-12-27T12:00:00Z")
    older = local("2026-12-26T12:00:00Z")
    assert kept_by(Policy(weekly=2), [new_year, monday, sunday, older]) == [new_year, sunday]


def test_rules_are_ored_and_all_means_all():
    every = series(50)
    assert len(kept_by(Policy(last=3, hourly=5), every)) == 5
    assert len(kept_by(Policy(hourly=-1), every)) == 50
    assert len(kept_by(Policy(daily=-1), every)) == 4  # three days, and the oldest
    assert kept_by(Policy(), every) == list(reversed(every))


def test_tags_of_a_group_must_all_be_there_and_any_group_will_do():
    every = [make(NOW - 3, "quick", "a"), make(NOW - 2, "quick", "a", "b"), make(NOW - 1, "quick", "c")]
    assert kept_by(Policy(tags=(("a", "b"), ("c",))), every) == [every[2], every[1]]


def test_within_counts_back_from_the_newest_snapshot_not_from_now():
    old = parse_time("2020-03-31T12:00:00Z")[0]
    every = [make(old - number * DAY) for number in range(40)]
    assert len(kept_by(Policy(within=Span(days=7)), every)) == 7
    # A month before 31 March is "31 February", which runs over to 2 March in a leap year.
    assert len(kept_by(Policy(within=Span.parse("1m")), every)) == 29
    assert len(kept_by(Policy(within_weekly=Span(days=21)), every)) == 4


@pytest.mark.parametrize("text", ["", "5", "d", "1d1y", "1w", "-1d"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ValueError, match="not a length of time"):
        Span.parse(text)
    assert str(Span.parse("2y5m7d3h")) == "2y5m7d3h"


def test_one_policy_can_be_meant_for_every_kind():
    every = [*series(4, "manual"), *series(4, "")]
    assert len(plan_of(every, for_every_kind(Policy(last=2))).forget) == 4
    assert set(for_every_kind(Policy())) == {*KINDS, "other"}


def test_what_a_restore_stored_by_itself_does_not_cost_the_newest_verified_generation_its_place():
    every = series(30)
    every[4] = make(every[4].time_ns, states={"state.db": "sound"})
    undo = make(NOW - 30, "pre-restore", states={"state.db": "sound", "only-there.db": "sound"})
    plan = plan_of([*every, undo])
    reasons = {item.snapshot.id: item.reasons for item in plan.keep}
    assert reasons[every[4].id] == ("the newest verified generation of `state.db`",)
    assert "the newest verified generation of `only-there.db`" in reasons[undo.id], "no other has it"
