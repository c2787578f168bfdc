"""Every version of one file: what each changed, entry by entry where it is a memory, and who made it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from safekept.actions.page.authors import authors
from safekept.actions.page.sections import SectionChange, delimiter_of, section_changes
from safekept.actions.projects.file_history import PointVersion, file_history
from safekept.actions.snapshots.history import History, history
from safekept.core.records import dataclass

from ..diffs import DiffRows, diff_rows
from ..visit import Visit
from .places import home_of, place_of

_VERSIONS = 40
#: Lines of one version, and entries of it, that a page shows.
_LINES, _ENTRIES = 200, 60


@dataclass(frozen=True, slots=True)
class ShownEntryChange:
    """One entry of a memory that differs; `rows` are the words that do."""

    how: str
    text: str
    rows: DiffRows | None


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """One version of a file."""

    id: str  # of the snapshot or checkpoint that holds it
    short: str
    seen: float
    written: float
    size: int
    held: str  # `3 snapshots`
    now: bool
    who: str
    rows: DiffRows | None
    entries: Sequence[ShownEntryChange] | None = None
    gone: bool = False  # the file was not there


def show(visit: Visit) -> Response:
    """Of a home or of a project."""
    return _project(visit) if place_of(visit).kind == "project" else _home(visit)


def _home(visit: Visit) -> Response:
    place, path = home_of(visit), visit.asked("path")
    found = history(visit.context, place, path, with_patches=True)
    who, delimiter = authors(visit.context, found), delimiter_of(place.layout, found.path)
    versions = [
        ShownVersion(
            one.last.id,
            one.last.short,
            one.first.snapshot.time_ns / 1e9,
            one.node.mtime_ns / 1e9,
            one.node.size,
            f"{one.snapshots:,} snapshot{'s' if one.snapshots != 1 else ''}",
            one.now,
            who[number],
            diff_rows(found.patches[number], _LINES, one_file=True) if found.patches[number] else None,
            _entries(found, number, delimiter),
        )
        for number, one in enumerate(found.versions[:_VERSIONS])
    ]
    values = {"live": found.live, "searched": f"{found.searched:,} snapshots", "restores": "/restore"}
    about = {"home": place.home}
    return _page(visit, found.path, about, versions, len(found.versions) - len(versions), values)


def _entries(found: History, number: int, delimiter: str) -> list[ShownEntryChange] | None:
    if not delimiter or number + 1 >= len(found.texts):
        return None
    before, after = found.texts[number + 1], found.texts[number]
    changes = section_changes(before, after, delimiter) if before is not None and after is not None else None
    return None if changes is None or len(changes) > _ENTRIES else [_entry(one) for one in changes]


def _entry(one: SectionChange) -> ShownEntryChange:
    if one.before and one.after:
        lines = [f"-{line}" for line in one.before.split("\n")] + [
            f"+{line}" for line in one.after.split("\n")
        ]
        return ShownEntryChange(one.how, "", diff_rows(lines, _LINES))
    return ShownEntryChange(one.how, one.after or one.before, None)


def _project(visit: Visit) -> Response:
    place, path = place_of(visit), visit.asked("path").strip("/")
    found = file_history(visit.context, place.path, path)
    versions = [_version(one) for one in found.versions[:_VERSIONS]]
    searched = (
        f"the newest {found.searched:,} checkpoints" if found.more else f"{found.searched:,} checkpoints"
    )
    values = {"live": "", "searched": searched, "restores": "/rollback"}
    left_out = len(found.versions) - len(versions)
    return _page(visit, found.path, place.query, versions, left_out, values)


def _version(one: PointVersion) -> ShownVersion:
    state = one.state
    return ShownVersion(
        one.last.id,
        one.last.short,
        one.first.time_ns / 1e9,
        (state.mtime_ns if state else one.first.time_ns) / 1e9,
        state.size if state else 0,
        f"{one.points:,} checkpoint{'s' if one.points != 1 else ''}",
        False,
        one.who,
        diff_rows(one.patch, _LINES, one_file=True) if one.patch else None,
        gone=state is None,
    )


def _page(
    visit: Visit,
    path: str,
    about: Mapping[str, object],
    versions: list[ShownVersion],
    left_out: int,
    values: dict[str, str],
) -> Response:
    common = {"about": dict(about), "path": path, "versions": versions, "left_out": left_out}
    return visit.page("history.html", os.path.basename(path), {**common, **values})
