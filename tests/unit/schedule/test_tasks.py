"""What is due and what is overdue: done once each, caught up on, tried again; clocks may jump."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo
from dataclasses import replace

import pytest

from safekept.schedule.tasks import AHEAD, Cadence, Task, TaskHistory, due_at, overdue_since, wanted_from

UTC = zoneinfo.ZoneInfo("UTC")
CADENCE = Cadence.parse("03:30", UTC)
DAY, HOUR = 86_400.0, 3600.0
NIGHTLY = Task("snapshot", "/home", limit=2 * DAY)
WEEKLY = Task("prune", every=7 * DAY)


def at(text: str) -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOW = at("2026-06-10 12:00")


def test_what_was_never_done_is_due_at_once():
    assert due_at(NIGHTLY, TaskHistory(since=NOW), CADENCE, NOW) <= NOW


def test_what_was_done_tonight_is_due_tomorrow_night():
    past = TaskHistory(since=1.0, done=at("2026-06-10 03:31"))
    assert due_at(NIGHTLY, past, CADENCE, NOW) == at("2026-06-11 03:30")


def test_a_night_that_was_slept_through_is_caught_up_on_once():
    past = TaskHistory(since=1.0, done=at("2026-06-05 03:31"))
    assert due_at(NIGHTLY, past, CADENCE, NOW) <= NOW  # five nights are owed
    past = replace(past, done=NOW)
    assert due_at(NIGHTLY, past, CADENCE, NOW) == at("2026-06-11 03:30")  # and one makes up for them


def test_weekly_work_that_ended_late_does_not_creep_through_the_day():
    done, times = at("2026-06-01 03:30"), []
    for _ in range(10):
        due = due_at(WEEKLY, TaskHistory(since=1.0, done=done), CADENCE, done)
        times.append(due)
        done = due + 47 * 60  # it takes most of an hour each time
    assert [datetime.datetime.fromtimestamp(one, UTC).strftime("%H:%M") for one in times] == ["03:30"] * 10
    assert all(later - earlier == 7 * DAY for earlier, later in itertools.pairwise(times))


def test_weekly_work_that_was_never_done_waits_for_the_first_night():
    assert due_at(WEEKLY, TaskHistory(since=NOW), CADENCE, NOW) == at("2026-06-11 03:30")


def test_what_failed_is_tried_again_later_and_later_but_always_the_next_night():
    tried = at("2026-06-10 03:31")
    waits = []
    for failures in range(1, 9):
        past = TaskHistory(since=1.0, tried=tried, failures=failures)
        waits.append((due_at(NIGHTLY, past, CADENCE, tried) - tried) / HOUR)
    assert waits == [1, 2, 4, 8, 12, 12, 12, 12]
    late = TaskHistory(since=1.0, tried=at("2026-06-10 23:00"), failures=9)
    assert due_at(NIGHTLY, late, CADENCE, late.tried) == at("2026-06-11 03:30")


@pytest.mark.parametrize("task", [NIGHTLY, WEEKLY])
def test_a_clock_that_was_put_back_makes_work_due_and_never_waits_for_years(task):
    future = at("2031-01-01 00:00")
    past = TaskHistory(since=future, done=future, succeeded=future, tried=future, failures=3)
    assert due_at(task, past, CADENCE, NOW) <= NOW
    assert overdue_since(replace(task, limit=DAY), past, NOW) == 0.0


def test_a_clock_that_is_set_right_by_seconds_does_not_cause_a_second_run():
    past = TaskHistory(since=1.0, done=NOW + AHEAD - 1)
    assert due_at(NIGHTLY, past, CADENCE, NOW) > NOW


def test_a_year_of_hourly_looks_does_nightly_work_once_a_night():
    past, runs, now = TaskHistory(), [], at("2025-06-01 12:20")
    while now < at("2026-06-01 12:20"):
        past = wanted_from(past, now)
        if due_at(NIGHTLY, past, CADENCE, now) <= now:
            runs.append(now)
            past = replace(past, done=now + 60)
        now += HOUR
    assert len(runs) == 366  # one at once, then 365 nights
    dates = [datetime.datetime.fromtimestamp(one, UTC).date() for one in runs[1:]]
    assert len(set(dates)) == 365


def test_overdue_is_judged_by_successes_alone():
    past = TaskHistory(since=1.0, done=NOW, succeeded=NOW - 2 * DAY - 1)
    assert overdue_since(NIGHTLY, past, NOW) == NOW - 1
    assert overdue_since(NIGHTLY, replace(past, succeeded=NOW - 2 * DAY), NOW) == 0.0
    assert overdue_since(replace(NIGHTLY, limit=0.0), past, NOW) == 0.0


def test_what_never_succeeded_is_overdue_from_when_it_was_wanted():
    assert overdue_since(NIGHTLY, TaskHistory(since=NOW - DAY), NOW) == 0.0
    assert overdue_since(NIGHTLY, TaskHistory(since=NOW - 3 * DAY), NOW) == NOW - DAY
    assert overdue_since(NIGHTLY, TaskHistory(), NOW) == 0.0
