"""Times in words: how long ago something was, and when, for people and for documents."""

from __future__ import annotations

import datetime
import re
import time

_UNITS = ((100, "s", 1), (100, "min", 60), (48, "h", 3600))


def seconds_text(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`, `9 days`."""
    for limit, unit, size in _UNITS:
        if seconds / size < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400):,} days"


def iso_time(seconds: float) -> str | None:
    """A time for a document: `2026-11-15T12:31:05Z`; None for one that never was."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


# Times as people say them: `yesterday 18:00`, `3 days ago`, `2h`, `2026-11-01 14:30`.

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|m|min|minutes?|h|hours?|d|days?|w|weeks?)(?: ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CLOCK = re.compile(r"([01]?\d|2[0-3])[:.]([0-5]\d)")
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def time_of(text: str, now: float, *, end_of_day: bool = False) -> float | None:
    """The iso_time that is meant, where this machine is; None where the words are no time.

    A day without a clock is its beginning; with `end_of_day` its end, since the last state of a day is
    what a person means who wants to go back to it.
    """
    words = " ".join(text.lower().split())
    if match := _AGO.fullmatch(words):
        return now - float(match[1]) * _SECONDS[match[2][0]]
    first, _, clock = ("today", "", words) if _CLOCK.fullmatch(words) else words.partition(" ")
    try:
        day = _day(first, datetime.datetime.fromtimestamp(now))
        if day is None or (clock and not _CLOCK.fullmatch(clock)):
            return datetime.datetime.fromisoformat(text.strip()).timestamp()
        if match := _CLOCK.fullmatch(clock):
            return day.replace(hour=int(match[1]), minute=int(match[2])).timestamp()
        return day.timestamp() + (86_399.999 if end_of_day else 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def _day(word: str, now: datetime.datetime) -> datetime.datetime | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        return today - datetime.timedelta(days=word == "yesterday")
    if word in _WEEK:
        return today - datetime.timedelta(days=(today.weekday() - _WEEK.index(word)) % 7 or 7)
    try:
        return datetime.datetime.combine(datetime.date.fromisoformat(word), datetime.time())
    except ValueError:
        return None
