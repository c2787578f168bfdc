"""The checkpoints of a project as a person sees them: numbers, what each change amounts to, what differs.

A number means the same here and in a rollback: both look at the project as it is, so number 1 is
always the point that undoes the last change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from safekept.checkpoints.checkpoint import LOOKED_AT, Checkpoint, CheckpointDamaged, FileState
from safekept.checkpoints.points import (
    Changes,
    Moment,
    borrowed,
    count_pairs,
    find_files,
    moments,
    numbered,
    substance,
    text_difference,
)
from safekept.checkpoints.store import Store, StoreUnusable
from safekept.checkpoints.take import TakeSettings, take
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent

from ..base.context import UserContext
from .home_points.point import HomePoint
from .home_points.timeline import HomeTimeline
from .project import Near, find_project, near

Pair = tuple[str, FileState | None, FileState | None]
#: What changed is counted for so many rows; nobody reads further down.
_COUNTED = 40
#: Of the home's points, so many stand beside those of a project.
_HOME_POINTS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the list. `number` is 0 for marks, undo points, and points to which nothing changed."""

    number: int
    checkpoint: Checkpoint
    changes: Changes | None  # what was changed after it, up to the next one; None where not counted
    damaged: bool = False  # it cannot be gone back to: part of it is missing from the store

    def as_dict(self) -> dict[str, object]:
        changes = self.changes.as_dict() if self.changes else None
        facts = {"changes": changes, "damaged": self.damaged}
        return {"number": self.number or None, **self.checkpoint.as_dict(), **facts}


@dataclass(slots=True)
class Timeline:
    """The points of one project, newest first; or, where a directory has none, what is near it."""

    directory: str
    project: str | None
    rows: list[Row] = field(default_factory=list)
    hidden: int = 0  # marks, undo points and such that were not asked for
    near: Near = field(default_factory=lambda: Near((), ()))
    #: Files of agents' homes that were kept in the same time; they have no number here.
    home_points: list[HomePoint] = field(default_factory=list)
    home: HomeTimeline | None = None  # where the directory lies in an agent's home and in no project

    @property
    def in_order(self) -> list[Row | HomePoint]:
        """Both kinds of points, newest first."""
        return sorted(
            [*self.rows, *self.home_points],
            key=lambda one: one.time_ns if isinstance(one, HomePoint) else one.checkpoint.time_ns,
            reverse=True,
        )

    def as_dict(self) -> dict[str, object]:
        points = self.home.rows if self.home is not None else self.home_points
        return {
            "directory": self.directory,
            "project": self.project,
            "home": self.home.home if self.home is not None else None,
            "checkpoints": [row.as_dict() for row in self.rows],
            "home_points": [point.as_dict() for point in points],
            "below": list(self.near.below),
            "above": list(self.near.above),
        }


@contextlib.contextmanager
def seen(
    store: Store, project: str, settings: TakeSettings | None, listener: Listener = silent
) -> Iterator[tuple[Store, Checkpoint | None]]:
    """Where to read, and a full point of the project as it is: the last one, or a new one if it changed.

    A store that cannot be written is read through one that is thrown away. The point is None where it
    cannot be had at all; numbers then count from the last point that is known.
    """
    with contextlib.ExitStack() as stack:
        reading, live = store, None
        try:
            live = _live_point(store, project, settings, listener)
        except (StoreUnusable, OSError):
            with contextlib.suppress(SafekeptError, OSError):
                reading = stack.enter_context(borrowed(store, project))
                live = _live_point(reading, project, settings, silent)
        except SafekeptError:
            pass
        yield reading, live


def _live_point(
    store: Store, project: str, settings: TakeSettings | None, listener: Listener
) -> Checkpoint | None:
    taken = take(
        store,
        project,
        kind="undo",
        reason=LOOKED_AT,
        settings=settings or TakeSettings(),
        listener=listener,
    )
    found = taken.latest
    return found if found is not None and found.full else None


def timeline(
    store: Store,
    directory: str,
    context: UserContext,
    *,
    settings: TakeSettings | None = None,
    session: str = "",
    turn: str = "",
    every: bool = False,
    count: bool = True,
    listener: Listener = silent,
) -> Timeline:
    """What can be gone back to from here. `every` shows marks and undo points too."""
    project = find_project(store, directory, context)
    if project is None:
        return Timeline(directory, None, near=near(store, directory))
    with seen(store, project, settings, listener) as (reading, live):
        points = reading.checkpoints(project)
        damaged: list[Checkpoint] = []
        found = numbered(reading, points, live, damaged=damaged)
        numbers = {point.id: at for at, point in enumerate(found, 1)}
        bad = {point.id for point in damaged}
        chosen = [
            point
            for point in points
            if (not session or point.session == session)
            and (not turn or point.turn == turn)
            and (every or point.id in numbers or point.id in bad)
        ]
        amounts = _amounts(reading, points, live, chosen[:_COUNTED], numbers, every) if count else {}
    rows = [Row(numbers.get(point.id, 0), point, amounts.get(point.id), point.id in bad) for point in chosen]
    shown = {point.id for point in chosen}
    hidden = sum(1 for point in points if point.id not in shown and (live is None or point.id != live.id))
    return Timeline(directory, project, rows, hidden)


def add_home_points(
    context: UserContext, found: Timeline, *, session: str = "", turn: str = "", every: bool = False
) -> None:
    """Home points of the time that the list covers; or, standing in a home, that home's own list.

    What keeps the vault shut keeps no checkpoint from being listed.
    """
    from .home_points.timeline import home_around, home_points, home_timeline

    home = home_around(context, found.directory) if found.project is None else ""
    if home:
        with contextlib.suppress(SafekeptError, OSError):
            shown = home_timeline(context, home, session=session, turn=turn, every=every)
            found.home = shown if shown.rows or shown.hidden else None
        return
    points = home_points(context, session=session, turn=turn, every=every)
    if not every:
        since = min((row.checkpoint.time_ns for row in found.rows), default=0)
        points = [point for point in points if point.time_ns >= since][:_HOME_POINTS]
    found.home_points = points


def _amounts(
    store: Store,
    points: Sequence[Checkpoint],
    live: Checkpoint | None,
    chosen: Sequence[Checkpoint],
    numbers: dict[str, int],
    every: bool,
) -> dict[str, Changes]:
    known = moments(store, points, live)
    newer = Moment(live) if live is not None else None
    wanted, found = {point.id for point in chosen}, dict[str, Changes]()
    for point in points:
        if point.id not in numbers and not every:
            continue
        moment = known[point.id]
        if moment.damaged:
            continue
        if newer is not None and point.id in wanted:
            with contextlib.suppress(CheckpointDamaged):  # one of the two; it is not counted then
                found[point.id] = count_pairs(store, pairs_of(store, moment, newer))
        newer = moment
    return found


def pairs_of(store: Store, older: Moment, newer: Moment) -> list[Pair]:
    """Files that differ in kind, mode or bytes between two moments, by name."""
    found = {path: (one, two) for path, one, two in store.difference(older.base, newer.base)}
    for path in older.over.keys() | newer.over.keys():
        one = older.over[path][0] if path in older.over else store.state(older.base).get(path)
        two = newer.over[path][0] if path in newer.over else store.state(newer.base).get(path)
        found[path] = (one, two)
    return [
        (path, one, two)
        for path, (one, two) in sorted(found.items())
        if substance(one) != substance(two)
        and any(state is not None and state.kind != "directory" for state in (one, two))
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed in a project since a checkpoint."""

    project: str
    checkpoint: Checkpoint
    pairs: tuple[Pair, ...]
    lines: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "checkpoint": self.checkpoint.as_dict(),
            "files": [path for path, _, _ in self.pairs],
            "diff": "\n".join(self.lines),
        }


def difference_since(
    store: Store, project: str, point: Checkpoint, live: Checkpoint, files: Sequence[str] = ()
) -> Difference:
    """Everything that is different now; `files` are paths below the project."""
    known = moments(store, store.checkpoints(project), live)
    pairs = pairs_of(store, known.get(point.id, Moment(point)), Moment(live))
    if files:
        below = tuple(f"{name}/" for name in files)
        pairs = [pair for pair in pairs if pair[0] in files or pair[0].startswith(below) or "" in files]
    return Difference(project, point, tuple(pairs), tuple(text_difference(store, pairs)))


def difference_to_nothing(
    store: Store, project: str, point: Checkpoint, files: Sequence[str], directory: str
) -> Difference:
    """The same for a project that is gone: all that the checkpoint holds is missing."""
    known = moments(store, store.checkpoints(project), None)
    then = known.get(point.id, Moment(point)).state(store)
    paths = find_files(store, project, point, files, directory, then, {}) if files else ()
    below = tuple(f"{name}/" for name in paths)
    pairs: list[Pair] = [
        (path, state, None)
        for path, state in sorted(then.items())
        if state.kind != "directory" and (not paths or path in paths or path.startswith(below) or "" in paths)
    ]
    return Difference(project, point, tuple(pairs), tuple(text_difference(store, pairs)))
