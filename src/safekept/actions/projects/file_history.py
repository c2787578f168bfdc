"""Every version of one file of a project, over its newest checkpoints, and who made each.

Marks after a turn say what an agent left behind: what differs between a point before and the mark after it is
that turn's; what differs between a mark and the next point before a turn was done by a person.
"""

from __future__ import annotations

import os
from itertools import islice

from safekept.checkpoints.checkpoint import Checkpoint, FileState
from safekept.checkpoints.points import ReconstructedState, reconstruct_all
from safekept.checkpoints.store import Store
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..snapshots.contents import LARGEST_TEXT, patch
from .contents import NotInCheckpoint
from .project import checkpoint_directory

#: Checkpoints that are looked at.
MOST_POINTS = 500
NOT_AN_AGENT = "Made by you, or by a program that is not connected"
FIRST = "Already there when it was first kept"


@dataclass(frozen=True, slots=True)
class PointVersion:
    """One content that the file had; `state` is None where it was not there."""

    first: Checkpoint
    last: Checkpoint
    state: FileState | None
    points: int
    who: str
    patch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PointHistory:
    """The versions of one file, newest first. `more`: there are older checkpoints that were not looked at."""

    path: str
    versions: tuple[PointVersion, ...]
    searched: int
    more: bool


def file_history(context: UserContext, project: str, path: str, most: int = MOST_POINTS) -> PointHistory:
    """Raises NotInCheckpoint where no checkpoint that was looked at has it."""
    directory = checkpoint_directory(context)
    points: list[Checkpoint] = []
    versions: list[PointVersion] = []
    if os.path.isdir(directory):
        with Store.open(directory) as store:
            points = list(islice(store.newest_first(project), most + 1))
            versions = _versions(store, points[:most], path)
    if not any(one.state for one in versions):
        raise NotInCheckpoint(
            f"None of the newest {len(points):,} checkpoints of `{project}` holds a file called `{path}`",
            kept="Nothing was changed",
            next_steps=("Choose a file that the page shows",),
        )
    return PointHistory(path, tuple(versions), min(len(points), most), len(points) > most)


def _versions(store: Store, points: list[Checkpoint], path: str) -> list[PointVersion]:
    known = reconstruct_all(store, points, None)
    runs: list[tuple[Checkpoint, Checkpoint, FileState | None, int]] = []  # oldest first
    for point in reversed(points):
        state = known.get(point.id, ReconstructedState(point)).state(store).get(path)
        state = None if state is not None and state.kind == "directory" else state
        if runs and _oid(runs[-1][2]) == _oid(state):
            first, _, held, count = runs[-1]
            runs[-1] = (first, point, state or held, count + 1)
        elif runs or state is not None:
            runs.append((point, point, state, 1))
    found: list[PointVersion] = []
    texts = [_text(store, state) for _, _, state, _ in runs]
    for number, (first, last, state, count) in enumerate(runs):
        who, lines = FIRST, list[str]()
        if number:
            who = _who(runs[number - 1][1], first)
            lines = patch(path, texts[number - 1], texts[number])
        found.append(PointVersion(first, last, state, count, who, tuple(lines)))
    return found[::-1]


def _oid(state: FileState | None) -> str:
    return state.oid if state is not None else ""


def _who(before: Checkpoint, after: Checkpoint) -> str:
    if "undo" in (before.kind, after.kind):
        return "Made by a rollback"
    turn = after if after.kind == "after" else before if before.kind == "before" else None
    if turn is None:
        return NOT_AN_AGENT
    session = f", session {turn.session}" if turn.session else ""
    return f"Made by an agent{session}{': ' + turn.reason if turn.reason else ''}"


def _text(store: Store, state: FileState | None) -> str | None:
    if state is None:
        return ""
    if state.kind != "file" or state.size > LARGEST_TEXT:
        return None
    data = store.read(state.oid)
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
