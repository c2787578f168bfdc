"""Times and amounts in words: how long ago, when and how much, for people and for documents."""

from __future__ import annotations

import datetime
import re
import time

#: Up to two of the next unit, so that an older thing never looks younger: `119 s`, then `2 min`.
_UNITS = ((120, "s", 1), (120, "min", 60), (48, "h", 3600))


def seconds_text(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`, `9 days`."""
    for limit, unit, size in _UNITS:
        if seconds / size < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400):,} days"


#: Seconds by which two clocks may differ before a time is called one of the future.
_ASKEW = 120.0


def ago_text(when: float, now: float | None = None) -> str:
    """`5 min ago`: the one way to say an age, so that no two screens disagree."""
    seconds = (time.time() if now is None else now) - when
    return f"{seconds_text(max(0.0, seconds))} ago" if seconds >= -_ASKEW else "in the future"


def size_text(count: float) -> str:
    """1536 -> '1.5 KB'. Powers of 1024, as file managers show them."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def count_text(count: int, noun: str, plural: str = "") -> str:
    """1 -> '1 file', 1200 -> '1,200 files'."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def clock_text(seconds: float, now: float) -> str:
    """When it was, where this machine is: `16:35` today, `Nov 15 16:35` before, `2025-11-15` long ago."""
    then, today = time.localtime(seconds), time.localtime(now)
    if (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday):
        return time.strftime("%H:%M", then)
    return time.strftime("%b %d %H:%M" if abs(now - seconds) < 300 * 86_400 else "%Y-%m-%d", then)


def minute_text(seconds: float) -> str:
    """`2026-11-15 16:35`, by the clock of this machine."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def iso_time(seconds: float) -> str | None:
    """A time for a document: `2026-11-15T12:31:05Z`; None for one that never was."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None


# Times as people say them: `yesterday 18:00`, `3 days ago`, `2h`, `2026-11-01 14:30`.

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|m|min|minutes?|h|hours?|d|days?|w|weeks?)(?: ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CLOCK = re.compile(r"([01]?\d|2[0-3])[:.]([0-5]\d)|(0?[1-9]|1[0-2])(?:[:.]([0-5]\d))? ?([ap])m")
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def clock_of(text: str) -> tuple[int, int] | None:
    """Hour and minute of `18:00`, `18.00`, `3am` or `3:30 pm`; None where it is no time of the day."""
    if (match := _CLOCK.fullmatch(text.strip().lower())) is None:
        return None
    if match[5]:
        return int(match[3]) % 12 + (12 if match[5] == "p" else 0), int(match[4] or 0)
    return int(match[1]), int(match[2])


def time_of(text: str, now: float, *, end_of_day: bool = False) -> float | None:
    """The time that is meant, where this machine is; None where the words are no time.

    A day without a clock is its beginning; with `end_of_day` its end, and so is a minute: the last state of
    a day is what a person means who wants to go back to it, and a list shows no seconds.
    """
    words = " ".join(text.lower().split())
    if match := _AGO.fullmatch(words):
        return now - float(match[1]) * _SECONDS[match[2][0]]
    first, _, clock = ("today", "", words) if clock_of(words) else words.partition(" ")
    try:
        day = _day(first, datetime.datetime.fromtimestamp(now))
        if day is None or (clock and not clock_of(clock)):
            return datetime.datetime.fromisoformat(text.strip()).timestamp()
        if at := clock_of(clock):
            return day.replace(hour=at[0], minute=at[1]).timestamp() + (59.999 if end_of_day else 0.0)
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
