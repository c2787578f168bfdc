"""When a count that fell is an alarm, and the shape of what a home has lost: where, and what brings it back.

What else is a loss: documents.py, files.py and databases.py look for it, health.py in the whole home.
The alarm between two snapshots: actions/alarms/loss_alarm.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..layout.rules import is_file

if TYPE_CHECKING:
    from safekept.core.sqlite.capture import CaptureOptions

    from ..layout.layout import Layout
    from ..layout.rules import Count
    from .recorded import Recorded, Since


# Fewer than before: which counts of a census fell, and where in the home that can be brought back.
# Unknown is never zero: a class that cannot be counted now, or could not before, says nothing about
# loss.

#: Counts per profile and class, as `home.census` gives them.
Counts = Mapping[str, Mapping[str, int | None]]

#: Beyond the ordinary: nothing left, or at least so much of it and so many gone.
PART = 0.2
ITEMS = 3


@dataclass(frozen=True, slots=True)
class Shrinkage:
    """One class of one profile that holds less than it did."""

    profile: str  # "default" or `profiles/coder`
    name: str  # "sessions", "cron_jobs", …; or one file: "SOUL.md"
    before: int
    after: int
    emptied: bool = False  # of one file: it is there, and holds nothing any more
    places: tuple[str, ...] = ()  # the files that have to come back, where they are known

    @property
    def alarming(self) -> bool:
        """Whether it is more than an agent's ordinary tidying up."""
        gone = self.before - self.after
        return self.after == 0 or (gone >= ITEMS and gone >= PART * self.before)

    @property
    def text(self) -> str:
        """The same with the profile in front, where it is not the main one."""
        return self.bare if self.profile == "default" else f"{self.profile}: {self.bare}"

    @property
    def bare(self) -> str:
        """`18 of 19 cron jobs are gone`, `SOUL.md is gone`, `SOUL.md is empty`."""
        if is_file(self.name):
            return f"{self.name} is {'empty' if self.emptied else 'gone'}"
        return of_them(self.before - self.after, self.before, self.name)

    def as_dict(self) -> dict[str, object]:
        counts = {"profile": self.profile, "name": self.name, "before": self.before, "after": self.after}
        return {**counts, "emptied": True} if self.emptied else counts

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Shrinkage:
        """Raises KeyError, ValueError or TypeError where it is none."""
        counts = int(fields["before"]), int(fields["after"])
        return cls(str(fields["profile"]), str(fields["name"]), *counts, fields.get("emptied") is True)


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
    if shrinkage.places:
        return shrinkage.places
    prefix = "" if shrinkage.profile == "default" else shrinkage.profile + "/"
    for count in layout.counts:
        if count.name == shrinkage.name:
            return tuple(dict.fromkeys(prefix + place for place in literal_places(count)))
    return (prefix + shrinkage.name,) if is_file(shrinkage.name) else ()


def literal_places(count: Count) -> list[str]:
    """Where its patterns begin, as far as they are names; nothing for one that begins with a wildcard."""
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


#: So many names are listed in a sentence.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class HomeLoss:
    """Something that was there and is not any more."""

    kind: str  # "wiped", "owner", "closed", "database-…", "fewer", "gone", "emptied", "changed", …
    path: str  # in the home; empty: the home itself
    text: str  # a sentence, with the path in it
    unambiguous: bool = False  # beyond doubt a loss: may be brought back unasked
    restore_paths: tuple[str, ...] = ()  # what to restore; nothing: see `whole` and `fix`
    whole: bool = False  # the whole home is to be restored
    fix: str = ""  # a command of the system, where no restore can help
    losses: tuple[Shrinkage, ...] = ()  # the counts that fell, where they are known

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "path": self.path,
            "text": self.text,
            "unambiguous": self.unambiguous,
            "restore_paths": list(self.restore_paths),
            "whole": self.whole,
            "losses": [one.as_dict() for one in self.losses],
        }


class StoredState(Protocol):
    """Reads what the snapshot holds."""

    def data(self, path: str) -> bytes | None:
        """A file's bytes; None where there is none, or it cannot be read or is too large."""

    def owner(self, path: str) -> tuple[int, int] | None:
        """User and group of a file or directory; None where they are not known."""


@dataclass(slots=True)
class Examination:
    """What is looked at, and what was found so far."""

    layout: Layout
    recorded: Recorded
    since: Since
    stored: StoredState
    options: CaptureOptions
    listener: Listener = silent
    findings: list[HomeLoss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what could not be known: unknown is not lost
    reported: set[str] = field(default_factory=set)  # paths that a finding speaks for already
    paths: list[str] = field(default_factory=list)  # everything that was recorded, once it was asked for

    def found(self, finding: HomeLoss, *paths: str) -> None:
        self.findings.append(finding)
        self.reported.update((finding.path, *paths))

    def shrinkage(self, path: str, name: str, before: int, after: int) -> tuple[Shrinkage, ...]:
        """What a fall in one file means for the census of its profile; nothing where that did not fall."""
        profile = self.layout.profile_of(path)
        total = self.recorded.census.get(profile, {}).get(name)
        if total is None or after >= before:
            return ()
        return (Shrinkage(profile, name, total, max(0, total - before + after)),)

    def file_emptied(self, path: str) -> tuple[Shrinkage, ...]:
        """A file that held something and holds nothing, where the census counts it in any class."""
        if not any(matcher.covers(path) for _, matcher in self.layout.counted):
            return ()
        profile = self.layout.profile_of(path)
        name = path if profile == "default" else path[len(profile) + 1 :]
        return (Shrinkage(profile, name, 1, 0, emptied=True),)

    def file_gone(self, path: str) -> tuple[Shrinkage, ...]:
        """The same for a file that is gone, where the census has it by its own name."""
        profile = self.layout.profile_of(path)
        return self.shrinkage(path, path if profile == "default" else path[len(profile) + 1 :], 1, 0)


def counted(name: str, count: int) -> str:
    """`1 cron job`, `4 cron jobs`, `12 memories`."""
    noun = name.replace("_", " ")
    if count == 1:
        noun = "memory" if noun == "memories" else noun.removesuffix("s")
    return f"{count:,} {noun}"


def some(names: list[str]) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED:,} more" if len(names) > _NAMED else shown


def of_them(gone: int, before: int, name: str) -> str:
    """`all 4 cron jobs are gone`, `both memories are gone`, `1 of 4 cron jobs is gone`."""
    if gone >= before and before == 1:
        return f"the only {counted(name, 1)[2:]} is gone"
    if gone >= before and before == 2:
        return f"both {counted(name, 2)[2:]} are gone"
    if gone >= before:
        return f"all {counted(name, before)} are gone"
    return f"{gone:,} of {counted(name, before)} {'is' if gone == 1 else 'are'} gone"
