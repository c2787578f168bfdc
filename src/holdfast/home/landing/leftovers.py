"""What a killed landing left behind, seen without touching it: for whoever reports and does not mend."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

from .area import INTENT, Area, existing_areas


@dataclass(frozen=True, slots=True)
class Leftover:
    """A landing that was cut off; the next command that changes this home makes it right."""

    operation: str
    half_way: bool  # the home is neither as it was nor as it was to be; else only litter is left
    place: str

    def as_dict(self) -> dict[str, object]:
        return {"operation": self.operation, "half_way": self.half_way, "place": self.place}


def leftovers(home: str) -> list[Leftover]:
    """Landings of this home that were begun and not ended, by processes that are gone."""
    found = []
    for area in existing_areas(home):
        begun = [one for one in area.all() if one.state in ("", INTENT)]
        if begun and not _at_work(area):
            found += [Leftover(one.operation, one.state == INTENT, one.path) for one in begun]
    return found


def _at_work(area: Area) -> bool:
    """Whether a living process lands here: the lock dies with it, and asking for it changes nothing."""
    try:
        descriptor = os.open(os.path.join(area.path, "lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
