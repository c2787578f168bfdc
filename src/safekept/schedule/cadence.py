"""At which moments regular work is due: times of the day where the machine is, or every hour.

A moment is a number of seconds since 1970, so that a clock that is put forward or back for the summer
changes nothing but the distance of two moments. A time of the day that does not exist that day (03:30 in
Athens when summer begins) stands for the moment it would have been; one that exists twice is its first.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

HOURLY = "hourly"
HOUR = 3600.0
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_AROUND = range(-2, 3)  # days: no zone is further than that from where the date changes


@dataclass(frozen=True, slots=True)
class Cadence:
    """Times of the day as (hour, minute); none of them: every hour."""

    times: tuple[tuple[int, int], ...] = ((3, 30),)
    zone: datetime.tzinfo | None = None  # None: where this machine is

    @classmethod
    def parse(cls, text: str, zone: datetime.tzinfo | None = None) -> Cadence:
        """`03:30`, `03:30, 15:30` or `hourly`. ValueError for anything else."""
        if text.strip() == HOURLY:
            return cls((), zone)
        found = []
        for part in text.split(","):
            match = _TIME.fullmatch(part.strip())
            if match is None:
                raise ValueError(f"not a time of the day: {part.strip()!r}")
            found.append((int(match[1]), int(match[2])))
        return cls(tuple(sorted(set(found))), zone)

    def __str__(self) -> str:
        return ", ".join(f"{hour:02}:{minute:02}" for hour, minute in self.times) or HOURLY

    def next(self, moment: float) -> float:
        """The first of our moments after that one."""
        if not self.times:
            return (moment // HOUR + 1) * HOUR
        return min(slot for slot in self._around(moment) if slot > moment)

    def latest(self, moment: float) -> float:
        """The last of our moments that is not after that one."""
        if not self.times:
            return moment // HOUR * HOUR
        return max(slot for slot in self._around(moment) if slot <= moment)

    def _around(self, moment: float) -> list[float]:
        today = datetime.datetime.fromtimestamp(moment, self.zone).date()
        days = [today + datetime.timedelta(days=number) for number in _AROUND]
        return [
            datetime.datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).timestamp()
            for day in days
            for hour, minute in self.times
        ]
