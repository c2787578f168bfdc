"""What changed since a point, as text. The project is looked at as it is now, and nothing of that is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from safekept.checkpoints.checkpoint import Checkpoint, FileState
from safekept.checkpoints.points import (
    ReconstructedState,
    find_checkpoint,
    find_files,
    hidden_below,
    reconstruct_all,
    text_difference,
    visible_state,
)
from safekept.checkpoints.rollback import as_it_is
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .home_points.point import HomePoint

Pair = tuple[str, FileState | None, FileState | None]


class ProjectUnreadable(SafekeptError):
    code = "project-unreadable"


@dataclass(frozen=True, slots=True)
class PointDifference:
    """What changed since a point, in the project or the home that it is of."""

    point: Checkpoint | HomePoint
    files: tuple[str, ...]
    lines: tuple[str, ...]
    asked: tuple[str, ...] = ()  # what was asked for by name; empty: everything

    def wanted(self, path: str) -> bool:
        return _Wanted(self.asked)(path)

    def as_dict(self) -> dict[str, object]:
        about = ("home", "home_point") if isinstance(self.point, HomePoint) else ("project", "checkpoint")
        return {
            about[0]: self.point.place,
            about[1]: self.point.as_dict(),
            "files": list(self.files),
            "diff": "\n".join(self.lines),
        }


def pairs_of(store: Store, older: ReconstructedState, newer: ReconstructedState) -> list[Pair]:
    """Files that differ in kind, mode or bytes between two states, by name."""
    found = {path: (one, two) for path, one, two in store.difference(older.base, newer.base)}
    for path in older.over.keys() | newer.over.keys():
        one = older.over[path][0] if path in older.over else store.state(older.base).get(path)
        two = newer.over[path][0] if path in newer.over else store.state(newer.base).get(path)
        found[path] = (one, two)
    return [
        (path, one, two)
        for path, (one, two) in sorted(found.items())
        if visible_state(one) != visible_state(two)
        and any(state is not None and state.kind != "directory" for state in (one, two))
    ]


def project_difference(
    store: Store,
    project: str,
    target: str,
    files: Sequence[str] = (),
    *,
    directory: str = "",
    settings: TakeSettings | None = None,
) -> PointDifference:
    """What changed in a project since a checkpoint, as text; names of files are meant from `directory`."""
    if not os.path.lexists(project):  # gone whole: everything changed
        point = find_checkpoint(store, project, target, None)
        return _told(store, point, pairs_to_nothing(store, project, point, files, directory))
    with as_it_is(store, project, settings) as (reading, live):
        if live is None:
            raise ProjectUnreadable(
                f"`{project}` cannot be read as it is now, so there is nothing to compare with",
                kept="Nothing was changed",
                next_steps=(
                    NextStep("checkpoint status", before="See what keeps checkpoints from being taken:"),
                ),
                project=project,
            )
        point = find_checkpoint(reading, project, target, live)
        known = reconstruct_all(reading, reading.checkpoints(project), live)
        older = known.get(point.id, ReconstructedState(point))
        pairs = pairs_of(reading, older, ReconstructedState(live))
        if files:
            then, now = older.state(reading), reading.state(live)
            may_be_hidden = hidden_below(reading.state(point), now) if live.hidden else None
            asked = find_files(reading, project, point, files, directory, then, now, may_be_hidden)
            wanted = _Wanted(asked)
            pairs = [pair for pair in pairs if wanted(pair[0])]
            return replace(_told(reading, point, pairs), asked=asked)
        return _told(reading, point, pairs)


def pairs_to_nothing(
    store: Store, project: str, point: Checkpoint, files: Sequence[str] = (), directory: str = ""
) -> list[Pair]:
    """What differs in a project that is gone: all that the checkpoint holds is missing."""
    known = reconstruct_all(store, store.checkpoints(project), None)
    then = known.get(point.id, ReconstructedState(point)).state(store)
    wanted = _Wanted(find_files(store, project, point, files, directory, then, {}) if files else ())
    return [
        (path, state, None)
        for path, state in sorted(then.items())
        if state.kind != "directory" and wanted(path)
    ]


class _Wanted:
    """Whether a path was asked for: by its own name, below a directory that was, or with everything."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self._all = not chosen or "" in chosen
        self._names, self._below = frozenset(chosen), tuple(f"{name}/" for name in chosen)

    def __call__(self, path: str) -> bool:
        return self._all or path in self._names or path.startswith(self._below)


def _told(store: Store, point: Checkpoint, pairs: list[Pair]) -> PointDifference:
    files = tuple(path for path, _, _ in pairs)
    return PointDifference(point, files, tuple(text_difference(store, pairs)))
