"""Fewer than before: which counts of a census fell, and where in the home that can be brought back.

Unknown is never zero: a class that cannot be counted now, or could not before, says nothing about loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..layout.layout import Layout
from ..layout.rules import Count

#: Counts per profile and class, as `home.census` gives them.
Counts = Mapping[str, Mapping[str, int | None]]

#: Beyond the ordinary: nothing left, or at least so much of it and so many gone.
PART = 0.2
ITEMS = 3


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """One class of one profile that holds less than it did."""

    profile: str  # "default" or `profiles/coder`
    name: str  # "sessions", "cron_jobs", …
    before: int
    after: int

    @property
    def alarming(self) -> bool:
        """Whether it is more than an agent's ordinary tidying up."""
        gone = self.before - self.after
        return self.after == 0 or (gone >= ITEMS and gone >= PART * self.before)

    @property
    def text(self) -> str:
        """`cron jobs 19 → 1`, with the profile in front where it is not the main one."""
        whose = "" if self.profile == "default" else f"{self.profile}: "
        return f"{whose}{self.name.replace('_', ' ')} {self.before:,} → {self.after:,}"

    def as_dict(self) -> dict[str, object]:
        return {"profile": self.profile, "name": self.name, "before": self.before, "after": self.after}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Shrinkage:
        """Raises KeyError, ValueError or TypeError where it is none."""
        return cls(str(fields["profile"]), str(fields["name"]), int(fields["before"]), int(fields["after"]))


def shrunk(before: Counts, after: Counts, *, whole: bool = True) -> list[Shrinkage]:
    """Every class that fell. `whole`: `after` covers all profiles, so one that is missing there is gone."""
    found = []
    for profile, counts in before.items():
        now = after.get(profile)
        for name, count in counts.items():
            left = now.get(name) if now is not None else (0 if whole else None)
            if count is not None and left is not None and left < count:
                found.append(Shrinkage(profile, name, count, left))
    return found


def places_of(layout: Layout, shrinkage: Shrinkage) -> tuple[str, ...]:
    """Where what shrank lies in the home: a file, or the directory that its files are in."""
    prefix = "" if shrinkage.profile == "default" else shrinkage.profile + "/"
    for count in layout.counts:
        if count.name == shrinkage.name:
            return tuple(dict.fromkeys(prefix + place for place in _places(count)))
    return ()


def _places(count: Count) -> list[str]:
    places = []
    for pattern in count.patterns:
        literal: list[str] = []
        for part in pattern.parts:
            if not isinstance(part, str) or part == "**":
                break
            literal.append(part)
        if literal:
            places.append("/".join(literal))
    return places
