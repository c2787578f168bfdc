"""The points of a project as a person sees them: numbers, and what each change amounts to.

A number means the same here and in a rollback: both look at the project as it is, so number 1 is
always the point that undoes the last change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from safekept.checkpoints.checkpoint import LOOKED_AT, Checkpoint, CheckpointDamaged
from safekept.checkpoints.points import (
    Changes,
    ReconstructedState,
    RollbackJournal,
    count_pairs,
    numbered,
    reconstruct_all,
)
from safekept.checkpoints.project import holds_too_much
from safekept.checkpoints.rollback import as_it_is
from safekept.checkpoints.scan import LeftRecord, read_left
from safekept.checkpoints.store import Store, same_repositories
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..base.context import UserContext
from .difference import pairs_of
from .guarding import forbidden_roots
from .home_points.point import HomePoint, any_taken
from .project import NearbyProjects, find_project, near
from .turns.turn import Turn, turns_among

#: What changed is counted for so many rows; few read further down.
_COUNTED = 40
#: Of the home's points, so many stand beside those of a project.
_HOME_POINTS = 10


@dataclass(frozen=True, slots=True)
class PointRow:
    """One line of the list. `number` is 0 for marks, undo points, and points to which nothing changed."""

    number: int
    point: Checkpoint | HomePoint
    changes: Changes | None = None  # what was changed after it, up to the next one; None where not counted
    damaged: bool = False  # it cannot be gone back to: part of it is missing from the store
    here: bool = False  # the project is as it was then: a rollback went back to it

    def as_dict(self) -> dict[str, object]:
        head = {"number": self.number or None, **self.point.as_dict()}
        if isinstance(self.point, HomePoint):
            return {**head, "changed": self.changes.files if self.changes else 0}
        changes = self.changes.as_dict() if self.changes else None
        return {**head, "changes": changes, "damaged": self.damaged, "here": self.here}


@dataclass(frozen=True, slots=True)
class RepositoryMoved:
    """What moved in the project's own repository since a point, in one line."""

    point: Checkpoint
    words: str

    def as_dict(self) -> dict[str, object]:
        return {"checkpoint": self.point.id, "words": self.words}


@dataclass(slots=True)
class Timeline:
    """The points of one place, newest first; or, where a directory has none, what is near it."""

    directory: str
    project: str | None = None
    home: str | None = None  # where the directory lies in an agent's home and in no project
    rows: list[PointRow] = field(default_factory=list)
    hidden: int = 0  # marks, undo points and such that were not asked for
    moved: RepositoryMoved | None = None  # in git, since the newest point from which something did
    gone: bool = False  # the project itself is not there any more
    near: NearbyProjects = field(default_factory=lambda: NearbyProjects((), ()))
    never: bool = False  # a home, or a directory that holds one or our stores: no project can be here
    #: Files of agents' homes that were kept in the same time; they have no number here.
    home_points: list[HomePoint] = field(default_factory=list)
    left_out: LeftRecord = field(default_factory=LeftRecord)  # hidden, and in no point: it would be lost
    words: dict[str, str] = field(default_factory=dict)  # of turns by id, the person's own, where asked for

    @property
    def in_order(self) -> list[PointRow]:
        """Every row, those of home points beside a project among them, newest first."""
        every = [*self.rows, *(PointRow(0, point) for point in self.home_points)]
        return sorted(every, key=lambda row: row.point.time_ns, reverse=True)

    @property
    def turns(self) -> list[Turn]:
        """The turns that the rows belong to, newest first."""
        return turns_among(row.point for row in self.in_order)

    def numbered(self, number: int) -> Checkpoint | HomePoint | None:
        return next((row.point for row in self.rows if row.number == number), None)

    def as_dict(self) -> dict[str, object]:
        rows = [row.as_dict() for row in self.rows]
        return {
            "directory": self.directory,
            "project": self.project,
            "home": self.home,
            "checkpoints": rows if self.home is None else [],
            "home_points": [point.as_dict() for point in self.home_points] if self.home is None else rows,
            "turns": [
                {"id": one.id, "session": one.session, "turn": one.turn}
                | ({"words": self.words[one.id]} if one.id in self.words else {})
                for one in self.turns
            ],
            "below": list(self.near.below),
            "above": list(self.near.above),
            "hidden": self.hidden,
            "gone": self.gone,
            "repository_moved": self.moved.as_dict() if self.moved else None,
            "left_out": self.left_out.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class EveryPoint:
    """The points of all projects and homes, newest first."""

    points: tuple[Checkpoint | HomePoint, ...]
    gone: frozenset[str] = frozenset()  # projects that are not there any more

    def of_kind(self, home: bool) -> list[Checkpoint | HomePoint]:
        return [point for point in self.points if (point.kind == "home") is home]

    def as_dict(self) -> dict[str, object]:
        return {
            "checkpoints": [point.as_dict() for point in self.of_kind(home=False)],
            "home_points": [point.as_dict() for point in self.of_kind(home=True)],
            "gone": sorted(self.gone),
        }


def timeline(
    store: Store | None,
    directory: str,
    context: UserContext,
    *,
    settings: TakeSettings | None = None,
    session: str = "",
    turn: str = "",
    every: bool = False,
    count: bool = True,
    git: bool = False,
    listener: Listener = silent,
) -> Timeline:
    """What can be gone back to from here. `every` shows marks and undo points too.

    `git`: what only moved the project's own repository has a number, too.
    """
    project = find_project(store, directory, context)
    if store is None or project is None:
        never = holds_too_much(os.path.realpath(directory), forbidden_roots(context))
        return Timeline(directory, None, near=near(store, directory), never=never)
    with as_it_is(store, project, settings) as (reading, live):
        points = reading.checkpoints(project)
        damaged: list[Checkpoint] = []
        found = numbered(reading, points, live, damaged=damaged, git=git)
        numbers = {point.id: at for at, point in enumerate(found, 1)}
        bad = {point.id for point in damaged}
        chosen = [
            point
            for point in points
            if (live is None or point.id != live.id)  # which is not kept
            and (not session or point.session == session)
            and (not turn or point.turn == turn)
            and (every or point.id in numbers or point.id in bad)
        ]
        amounts = _amounts(reading, points, live, chosen[:_COUNTED]) if count else {}
        moved = _moved(store, reading, points, live)
        finished = RollbackJournal(store.project_directory(project)).finished()
        here = _here(reading, points, live, [point for point in chosen if point.id in amounts], finished)
    rows = [
        PointRow(numbers.get(point.id, 0), point, amounts.get(point.id), point.id in bad, point.id == here)
        for point in chosen
    ]
    shown = {point.id for point in chosen}
    hidden = sum(1 for point in points if point.id not in shown and (live is None or point.id != live.id))
    gone = not os.path.lexists(project)
    left = LeftRecord() if gone else read_left(store.project_directory(project))
    return Timeline(directory, project, rows=rows, hidden=hidden, moved=moved, gone=gone, left_out=left)


def _moved(
    store: Store, reading: Store, points: Sequence[Checkpoint], live: Checkpoint | None
) -> RepositoryMoved | None:
    """What moved in the project's repositories since the newest point to which that can be said."""
    if live is None:
        return None
    older = [point for point in points if point.numbered and point.id != live.id][:_COUNTED]
    with contextlib.suppress(SafekeptError, OSError):
        for point in older:
            if not same_repositories(reading, point, live):
                from safekept.checkpoints.store import plan_repositories

                plans = plan_repositories(reading, point, live, kept_in=store.directory)
                words = "; ".join(plan.words for plan in plans if plan.words)
                return RepositoryMoved(point, words) if words else None
    return None


def every_point(
    store: Store | None, context: UserContext, *, session: str = "", turn: str = "", every: bool = False
) -> EveryPoint:
    """The points of all projects and homes in one list, newest first."""
    from .home_points.timeline import home_points

    found: list[Checkpoint | HomePoint] = [
        point
        for project in (store.projects() if store is not None else ())
        for point in (store.checkpoints(project) if store is not None else ())
        if (not session or point.session == session)
        and (not turn or point.turn == turn)
        and (every or point.numbered)
    ]
    found += home_points(context, session=session, turn=turn, every=every)
    places = {point.place for point in found if point.kind != "home"}
    gone = frozenset(place for place in places if not os.path.lexists(place))
    in_order = sorted(found, key=lambda point: (point.time_ns, point.id), reverse=True)
    return EveryPoint(tuple(in_order), gone)


def with_home_points(
    context: UserContext, found: Timeline, *, session: str = "", turn: str = "", every: bool = False
) -> Timeline:
    """The same with the home points of its time; or, standing in a home, that home's own list.

    What keeps the vault shut keeps no checkpoint from being listed.
    """
    if found.project is not None and not any_taken(context):
        return found
    from .home_points.timeline import home_around, home_points, home_timeline

    home = home_around(context, found.directory) if found.project is None else ""
    if home:
        with contextlib.suppress(SafekeptError, OSError):
            shown = home_timeline(context, home, session=session, turn=turn, every=every)
            if shown.rows or shown.hidden:
                return replace(shown, directory=found.directory, near=found.near)
        return found
    points = home_points(context, session=session, turn=turn, every=every)
    if not (every or session or turn):  # what is narrowed already is shown whole
        since = min((row.point.time_ns for row in found.rows), default=0)
        points = [point for point in points if point.time_ns >= since][:_HOME_POINTS]
    return replace(found, home_points=points)


def _here(
    store: Store,
    points: Sequence[Checkpoint],
    live: Checkpoint | None,
    chosen: Sequence[Checkpoint],
    finished: Sequence[Mapping[str, object]],
) -> str:
    """The id of the newest point that the project is just as, where a rollback came after it; or nothing.

    Without one in between the project is as its newest point was because nothing changed since.
    """
    if live is None or not any(point.kind == "undo" for point in points):
        return ""
    known = reconstruct_all(store, points, live)
    partly = ("files", "until")
    whole = [line for line in finished if line.get("complete") and not any(map(line.get, partly))]
    for point in chosen:
        with contextlib.suppress(CheckpointDamaged):
            if not pairs_of(store, known[point.id], ReconstructedState(live)):
                return point.id if _hidden_as_then(whole, points, point, live) else ""
    return ""


def _hidden_as_then(
    finished: Sequence[Mapping[str, object]],
    points: Sequence[Checkpoint],
    point: Checkpoint,
    live: Checkpoint,
) -> bool:
    """Whether what git hides is as it was then, or as a whole rollback to that point left it.

    What came back has times of its own, so a look at it has another name than the one of then. Where one of
    the two was not looked at, only what is visible can be compared.
    """
    if not point.hidden or not live.hidden:
        return True
    turns = {f"rollback {line.get('undo')}" for line in finished if line.get("target") == point.id}
    marks = (one.hidden for one in points if one.kind == "after" and one.turn in turns)
    return live.hidden in {point.hidden, *marks}


def _amounts(
    store: Store,
    points: Sequence[Checkpoint],
    live: Checkpoint | None,
    chosen: Sequence[Checkpoint],
) -> dict[str, Changes]:
    """What was changed after each, as the next point saw it, whatever made that one."""
    known = reconstruct_all(store, points, live)
    newer = ReconstructedState(live) if live is not None else None
    # The hidden half as the nearest newer point saw it. Not each one looked at it: a mark where `.git` was
    # removed has named files only, and one that had to be quick has none of it.
    after = live.hidden if live is not None else ""
    wanted, found = {point.id for point in chosen}, dict[str, Changes]()
    for point in points:
        rebuilt = known[point.id]
        if rebuilt.damaged or point.reason == LOOKED_AT:
            continue
        if newer is not None and point.id in wanted:
            with contextlib.suppress(CheckpointDamaged):  # one of the two; it is not counted then
                counted = count_pairs(store, pairs_of(store, rebuilt, newer))
                # To count these, too, the vault would have to be opened: a list never does.
                hidden = bool(point.hidden and after and point.hidden != after)
                found[point.id] = replace(counted, hidden=hidden)
        newer, after = rebuilt, point.hidden or after
    return found
