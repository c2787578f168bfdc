"""When regular work is due: once a night, whatever the clock is put to for the summer."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo

import pytest

from safekept.schedule.tasks import Cadence

DAY, HOUR = 86_400.0, 3600.0


def moment(text: str, zone: str, fold: int = 0) -> float:
    place = zoneinfo.ZoneInfo(zone)
    return datetime.datetime.fromisoformat(text).replace(tzinfo=place, fold=fold).timestamp()


def nights(cadence: Cadence, start: float, end: float) -> list[float]:
    found = []
    while (start := cadence.next(start)) < end:
        found.append(start)
    return found


@pytest.mark.parametrize(
    "zone",
    ["Europe/Berlin", "Europe/Athens", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"],
)
def test_every_night_of_two_years_has_exactly_one_moment(zone):
    cadence = Cadence.parse("03:30", zoneinfo.ZoneInfo(zone))
    found = nights(cadence, moment("2025-01-01", zone), moment("2027-01-01", zone))
    dates = [datetime.datetime.fromtimestamp(one, zoneinfo.ZoneInfo(zone)).date() for one in found]
    assert len(found) == 730
    assert len(set(dates)) == 730
    assert all(22 * HOUR < later - earlier < 26 * HOUR for earlier, later in itertools.pairwise(found))


def test_a_time_that_a_night_does_not_have_is_the_moment_it_would_have_been():
    # In Athens the clock goes from 03:00 to 04:00 on the last Sunday of March.
    cadence = Cadence.parse("03:30", zoneinfo.ZoneInfo("Europe/Athens"))
    found = cadence.next(moment("2026-03-28 12:00", "Europe/Athens"))
    assert found == moment("2026-03-29 04:30", "Europe/Athens")


def test_a_time_that_a_night_has_twice_comes_once():
    # In Athens the clock goes from 04:00 back to 03:00 on the last Sunday of October.
    cadence = Cadence.parse("03:30", zoneinfo.ZoneInfo("Europe/Athens"))
    first = cadence.next(moment("2026-10-24 12:00", "Europe/Athens"))
    assert first == moment("2026-10-25 03:30", "Europe/Athens", fold=0)
    again = moment("2026-10-25 03:30", "Europe/Athens", fold=1)
    assert cadence.latest(again) == first
    assert cadence.next(first) == moment("2026-10-26 03:30", "Europe/Athens")


def test_the_latest_is_never_after_and_the_next_never_before():
    cadence = Cadence.parse("15:30, 03:30", zoneinfo.ZoneInfo("Europe/Berlin"))
    start = moment("2026-03-27", "Europe/Berlin")
    for minute in range(0, 5 * 24 * 60, 7):
        now = start + minute * 60
        assert cadence.latest(now) <= now < cadence.next(now)
        assert cadence.next(cadence.latest(now)) == cadence.next(now)
    exactly = cadence.next(start)
    assert cadence.latest(exactly) == exactly


def test_hourly_is_every_full_hour():
    cadence = Cadence.parse("hourly")
    assert (cadence.latest(7300.0), cadence.next(7300.0), cadence.next(7200.0)) == (7200.0, 10800.0, 10800.0)


@pytest.mark.parametrize("text", ["", "24:00", "3.30", "03:60", "daily", "03:30;", "03:30,"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="not a time of the day"):
        Cadence.parse(text)


def test_times_are_written_as_they_are_read():
    assert str(Cadence.parse("3:30")) == "03:30"
    assert str(Cadence.parse("3am, 3:30 PM")) == "03:00, 15:30"
    assert str(Cadence.parse("15:00,03:30, 03:30")) == "03:30, 15:00"
    assert str(Cadence.parse(" hourly ")) == "hourly"
