"""What a killed landing left behind, seen without touching it: for whoever reports and does not mend."""

from __future__ import annotations

import os
from dataclasses import dataclass

from safekept.core.locks import lock_is_held

from ..owner import worker_for
from .area import INTENT, existing_areas


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
    if (worker := worker_for(home)) is not None:
        return [Leftover(**one) for one in worker.do("leftovers", home)]
    found = []
    for area in existing_areas(home):
        begun = [one for one in area.all() if one.state in ("", INTENT)]
        if begun and not lock_is_held(os.path.join(area.path, "lock")):
            found += [Leftover(one.operation, one.state == INTENT, one.path) for one in begun]
    return found
