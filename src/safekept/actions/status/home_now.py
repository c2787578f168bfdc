"""How a home is now, beside how its last snapshot saw it: by a quick look, for a status that must be fast.

The doctor looks closer, and says what it finds in the same words (findings/losses.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from safekept.core.files.small import read_document
from safekept.core.records import dataclass
from safekept.home.health import (
    Counts,
    LossSummary,
    QuickLook,
    Shrinkage,
    count_now,
    no_databases,
    shrunk,
    summarize_losses,
)
from safekept.home.layout import Layout

from ..base.context import UserContext
from ..base.operations.homes import LandingFacts, SnapshotFacts

DAMAGED_NOW, WHEN_STORED = "database-damaged", "damaged-when-stored"


@dataclass(frozen=True, slots=True)
class DamagedDatabase:
    """A database of a home that is not sound, and the snapshot that has it sound."""

    path: str
    wrong: str = ""  # what is wrong with it, in words
    snapshot: str = ""  # short id; empty: none is known
    proof: str = "checked and sound"  # what is known of it there
    mended: bool = False  # it was damaged when it was stored, and what is there now is something else


@dataclass(frozen=True, slots=True)
class Fewer:
    """What an agent seldom takes away by itself: no alarm, and worth a line for a while."""

    fall: Shrinkage
    snapshot: str  # the short id of the newest that has more

    def as_dict(self) -> dict[str, object]:
        return {**self.fall.as_dict(), "snapshot": self.snapshot}


_SELDOM, _SECONDS = ("skills", "memories"), 7 * 86400.0


@dataclass(frozen=True, slots=True)
class HomeNow:
    """What is wrong with a home as it is."""

    databases: tuple[DamagedDatabase, ...] = ()
    lost: LossSummary = field(default_factory=LossSummary)  # since the newest whole snapshot
    snapshot: str = ""  # the short id of that one
    restore: tuple[str, ...] = ()  # what of it brings that back; nothing: the whole home
    census: Counts = field(default_factory=dict)  # what that snapshot counted
    unread: tuple[str, ...] = ()  # settings and databases that changed since, and that nobody looked into
    #: Within the ordinary, and worth a line: a look through the week, for whoever shows it.
    fewer: Callable[[], tuple[Fewer, ...]] = tuple


def falls_of(before: Counts, after: Counts, *, whole: bool = True) -> tuple[Shrinkage, ...]:
    """What fell beyond the ordinary: the very rule by which a snapshot raises an alarm."""
    return tuple(fall for fall in shrunk(before, after, whole=whole) if fall.alarming)


def look_now(
    home: str,
    layout: Layout,
    databases: Iterable[str],
    census: Counts,
    excused: Callable[[Shrinkage], bool],
    since: float,
    *,
    isolated: bool = False,
) -> tuple[dict[str, str], LossSummary, tuple[str, ...], Counts]:
    """Files that are no databases any more, what is lost, what was not read, and what there is.

    `excused`: whether a fall is no loss. `since`: when `census` was counted.
    """
    try:
        owner = os.stat(home).st_uid
    except OSError:
        return {}, LossSummary(), (), {}
    if os.geteuid() == 0 and owner != 0:
        # Root opens nothing in other people's homes by itself.
        return {}, LossSummary(), tuple(path for path in databases if layout.database(path)), {}
    known = [path for path in databases if layout.database(path)]
    noise = no_databases(home, layout, known, isolated=isolated)
    quick = QuickLook(home, layout, since, isolated)
    after = count_now(home, layout, census, quick)
    falls = [one for one in falls_of(census, after) if not excused(one)]
    unread = tuple(path for path in quick.unread if path not in noise)
    return noise, summarize_losses(falls, census, after), unread, after


def fewer_lately(
    context: UserContext, home: str, counts: Counts, excused: Callable[[Shrinkage, float], bool], now: float
) -> tuple[Fewer, ...]:
    """By the snapshots of the last week, beside what is there now; what is an alarm is not named again."""
    found: dict[tuple[str, str], Fewer] = {}
    try:
        for entry in context.journal.backwards(SnapshotFacts.verb):
            if entry.time < now - _SECONDS:
                break
            taken = SnapshotFacts.read(entry)
            if taken.home != home or entry.state not in ("done", "incomplete"):
                continue
            before = census_in({"census": taken.census or {}})
            for fall in shrunk({one: _seldom(had) for one, had in before.items()}, counts, whole=False):
                known = (fall.profile, fall.name) in found or fall.alarming
                if not known and not excused(fall, entry.time):
                    found[fall.profile, fall.name] = Fewer(fall, (taken.snapshot or "")[:8])
    except OSError:
        pass
    return tuple(found.values())


def _seldom(counts: Mapping[str, int | None]) -> dict[str, int | None]:
    return {name: counts[name] for name in _SELDOM if name in counts}


def restored_since(context: UserContext, home: str, when: float) -> Callable[[str], bool]:
    """Whether a path of a home was brought back after that time, and stayed so: by the journal."""
    places: set[str] = set()
    undone: set[str] = set()
    try:
        for entry in context.journal.backwards("restore", "import", "rebuild", "undo"):
            if entry.time <= when:
                break
            if entry.state not in ("done", "incomplete") or entry.operation in undone:
                continue
            done = LandingFacts.read(entry)
            if entry.verb == "undo":
                undone.add(done.undoes or "")
            elif done.home == home:
                places.update(done.only or ("",))
    except OSError:
        pass
    return lambda path: any(not one or path == one or path.startswith(one + "/") for one in places)


def doctor_file(context: UserContext) -> str:
    """Where the doctor writes down what it found (findings/doctor_memory.py)."""
    return os.path.join(context.places.data_directory, "doctor.json")


def found_damaged(context: UserContext, home: str) -> dict[str, float]:
    """Databases of a home that the doctor found damaged when it last looked, and when that was."""

    def damaged(document: dict[str, Any]) -> dict[str, float]:
        found = [one for one in document["findings"] if (one["home"], one["code"]) == (home, DAMAGED_NOW)]
        return {str(one.get("path") or ""): float(document["time"]) for one in found}

    return read_document(doctor_file(context), damaged, {})


def sound_to_the_doctor(context: UserContext, home: str, since: float) -> set[str]:
    """Databases that were damaged when they were stored, and that the doctor found sound after that."""

    def sound(document: dict[str, Any]) -> set[str]:
        if float(document["time"]) <= since:
            return set()
        found = [one for one in document["findings"] if one["home"] == home]
        return {path for one in found if one["code"] == WHEN_STORED for path in str(one["path"]).split(", ")}

    return read_document(doctor_file(context), sound, set())


def census_in(manifest: Mapping[str, object] | None) -> Counts:
    """What a snapshot counted, by its own account; what is not understood is left out."""
    census = manifest.get("census") if manifest else None
    return {
        str(profile): {str(name): count for name, count in counts.items() if isinstance(count, int)}
        for profile, counts in (census.items() if isinstance(census, Mapping) else ())
        if isinstance(counts, Mapping)
    }
