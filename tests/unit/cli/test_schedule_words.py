"""When the schedule runs, in the words of `status`."""

from __future__ import annotations

import datetime

import pytest

from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.cli.status.work import _runs


def at(day: int, hour: int, minute: int = 0) -> float:
    return datetime.datetime(2026, 5, day, hour, minute).timestamp()


@pytest.mark.parametrize(
    ("now", "following", "words"),
    [
        (at(4, 22), at(5, 3, 30), "first run tonight at 03:30"),
        (at(5, 1), at(5, 3, 30), "first run tonight at 03:30"),
        (at(4, 9), at(4, 12), "first run today at 12:00"),
        (at(4, 14), at(5, 12), "first run tomorrow at 12:00"),
        (at(4, 14), at(7, 15), "first run in 3 days"),
        (at(4, 14), at(4, 14), "first run within the hour"),
        (at(4, 14), at(4, 13), "first run within the hour"),
        (at(4, 14), 0.0, "no run yet"),
    ],
)
def test_before_the_first_run_it_says_when_that_is(now, following, words):
    assert _runs(ScheduleStatus(next=following, installed="cron"), now) == words


@pytest.mark.parametrize(
    ("following", "words"),
    [
        (at(5, 3, 30), "; next tonight at 03:30"),
        (at(4, 13), "; next within the hour"),
        (0.0, ""),
    ],
)
def test_after_it_ran_it_says_how_that_ended_and_when_the_next_is(following, words):
    ran = ScheduleStatus(last=at(4, 3, 30), state="done", next=following, installed="cron")
    assert _runs(ran, at(4, 14)) == "last run 10 h ago, done" + words
