"""Which paths of a home a point is about: what they are called below it, and what is too much.

A command that names nothing may change anything; then it is what a person would miss: persona, memories,
skills, settings. Links are resolved up to the last name: what is changed is where it really is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from safekept.core.entries import Entry, Outcome, Remark
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.home.layout import Layout, Pattern
from safekept.home.scan import NothingSelected, Scan

from ...base.own_places import within

#: A directory that holds more is not stored before a tool call.
_MOST_FILES, _MOST_BYTES = 5_000, 128 << 20
#: What of a home an unknown command may change and a person would miss, by worth.
_WORTHS = ("identity", "memory", "skills", "settings")


class HomePointTooLarge(SafekeptError):
    code = "home-point-too-large"


class OutsideHome(SafekeptError):
    code, exit_code = "outside-home", 2


def names_in(home: str, paths: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """What these paths are called below the home, links above their last names resolved; outermost only."""
    found = set[str]() if paths else set(unknown_paths(home, layout))
    for path in paths:
        full = os.path.normpath(os.path.join(home, path))
        if path and os.path.realpath(full) == home:
            found.update(unknown_paths(home, layout))
            continue
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        if not path or not within(full, home):
            raise OutsideHome(
                f"`{path}` does not lie in the home `{home}`",
                kept="Nothing was stored or changed",
                next_steps=(
                    NextStep(
                        "checkpoint", ("DIR",), before="Take a checkpoint of the project it belongs to:"
                    ),
                ),
                path=path,
                home=home,
            )
        found.add(os.path.relpath(full, home))
    return tuple(sorted(one for one in found if not any(one.startswith(other + "/") for other in found)))


def unknown_paths(home: str, layout: Layout) -> tuple[str, ...]:
    """Where a command that names nothing may do harm: persona, memories, skills, settings; no databases."""
    roots = [""]
    if layout.profiles and os.path.isdir(os.path.join(home, layout.profiles)):
        names = sorted(os.listdir(os.path.join(home, layout.profiles)))
        roots += [f"{layout.profiles}/{name}/" for name in names]
    worths = dict(layout.worths)
    places = [place for worth in _WORTHS for one in worths.get(worth, ()) if (place := _literal(one))]
    named = {root + place for root in roots for place in places if not layout.database(place)}
    return tuple(sorted(one for one in named if not any(one.startswith(other + "/") for other in named)))


def missing_above(home: str, absent: Sequence[str]) -> tuple[str, ...]:
    """Directories that would have to be made for these paths: going back takes the empty ones away."""
    found = set[str]()
    for path in absent:
        while (path := os.path.dirname(path)) and not os.path.lexists(os.path.join(home, path)):
            found.add(path)
    return tuple(sorted(found))


def refuse_too_large(home: str, named: Sequence[str]) -> None:
    """What would hold an agent's tool call up is not stored before it, and that is reported."""
    files = size = 0
    for path in named:
        for directory, _, names in os.walk(os.path.join(home, path)):
            files += len(names)
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.lstat(os.path.join(directory, name)).st_size
            if files > _MOST_FILES or size > _MOST_BYTES:
                raise HomePointTooLarge(
                    f"`{path}` in `{home}` holds too much to be stored before every change of it: "
                    f"more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB",
                    kept="Nothing was stored or changed",
                    next_steps=(NextStep("snapshot", before="Take a snapshot of the whole home before:"),),
                    path=path,
                    home=home,
                )


def _literal(pattern: Pattern) -> str:
    """The one path that a pattern means; empty where it means several, or one outside the home."""
    parts = pattern.parts
    plain = all(isinstance(part, str) and part != "**" for part in parts) and parts[0] != "_external"
    return "/".join(map(str, parts)) if plain else ""


# What a home point holds of a home: named paths whole, of the small state files all but databases. A
# database of an agent that runs changes with every message; to read it before each tool call would hold
# the agent up, and the regular snapshots hold it. It is named among the remarks, never left out unsaid.

_REASON = "a database: regular snapshots hold it, a point before one change does not"


def escaped(path: str) -> str:
    """A path as a pattern that means it and nothing else."""
    return "/" + path.replace("\\", "\\\\").replace("*", "\\*")


class PointSource:
    """A Source: the scan without the databases that were not named."""

    ordered = False

    def __init__(self, inner: Scan, named: Sequence[str]) -> None:
        self._inner = inner
        self._exact, self._below = frozenset(named), tuple(f"{path}/" for path in named)
        self._left: list[Remark] = []

    @property
    def remarks(self) -> list[Remark]:
        return [*self._inner.remarks, *self._left]

    def __iter__(self) -> Iterator[Entry]:
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[Entry]]:
        self._left = []
        try:
            for group in self._inner.groups():
                yield [entry for entry in group if not entry.database or self._named(entry)]
        except NothingSelected:
            return  # nothing of it is there yet, and just that is what is kept

    def _named(self, entry: Entry) -> bool:
        if entry.path in self._exact or entry.path.startswith(self._below):
            return True
        self._left.append(Remark(entry.path, Outcome.EXCLUDED, _REASON, 1, entry.size))
        return False
