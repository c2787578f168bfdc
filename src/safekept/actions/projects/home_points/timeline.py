"""Home points as a person sees them: beside a project's checkpoints, or numbered where one stands in a home.

Beside a project they have no number, so `rollback 1` stays what undoes the last change of the project; their
id names them everywhere. In a home, number 1 is the newest point to which something changed since, so that
it undoes the last change there. Where there are none, or the vault does not open, a list is shown without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from safekept.core.errors import SafekeptError
from safekept.core.events import silent
from safekept.vault.errors import AmbiguousSnapshot, NoSuchSnapshot
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import PRE_CHANGE, kind_of

from ...base.context import UserContext
from ...base.own_places import known_homes, within
from ...base.recovery import make_right
from ..project import checkpoint_directory, find_project
from .point import HomePoint, may_be_point, no_such_point, pick_point, points_among
from .state import PointState, compare

#: Numbers count points that differ; so many are compared for a list.
_COMPARED = 60


@dataclass(frozen=True, slots=True)
class HomeRow:
    """One line of a home's own list. `number` is 0 where nothing changed since, or it is an undo point."""

    number: int
    point: HomePoint
    changed: int  # files that going back would write or remove

    def as_dict(self) -> dict[str, object]:
        return {"number": self.number or None, **self.point.as_dict(), "changed": self.changed}


@dataclass(slots=True)
class HomeTimeline:
    """The home points of one home, newest first."""

    home: str
    rows: list[HomeRow] = field(default_factory=list)
    hidden: int = 0

    def numbered(self, number: int) -> HomePoint | None:
        return next((row.point for row in self.rows if row.number == number), None)


def home_around(context: UserContext, directory: str) -> str:
    """The agent's home that a directory is, or lies in; empty where it is in none."""
    place = os.path.realpath(directory)
    homes = known_homes(context)
    if not any(within(place, home) for home in homes):
        # One that no setting names any more is known by its points.
        homes += {point.home for point in home_points(context, every=True)}
    user = os.path.realpath(context.places.user_home)  # a user's home is no agent's
    found = (home for home in homes if within(place, home) and home != user and os.path.isdir(home))
    return max(found, key=len, default="")


def home_points(
    context: UserContext, *, home: str = "", session: str = "", turn: str = "", every: bool = False
) -> list[HomePoint]:
    """Those of this user, newest first; none where the vault does not open without asking anybody."""
    if not os.path.isdir(os.path.join(context.places.data_directory, "home-points")):
        return []  # none was ever taken here: nobody pays for looking
    try:
        with _points(context) as (_, found):
            points = [point for point, _ in found]
    except (SafekeptError, OSError):
        return []
    return [
        point
        for point in points
        if (not home or point.home == home)
        and (not session or point.session == session)
        and (not turn or point.turn == turn)
        and (every or not point.undo)
    ]


def home_timeline(
    context: UserContext, home: str, *, session: str = "", turn: str = "", every: bool = False
) -> HomeTimeline:
    """The list of one home, with numbers. What a killed landing left is made right first."""
    timeline = HomeTimeline(home)
    make_right(context, home, silent)
    with _points(context) as (repository, found):
        number = 0
        ours = [one for one in found if one[0].home == home]
        behind = _left_behind(context, home, [point for point, _ in ours])
        for point, snapshot in ours:
            changed = 0
            if not point.undo and point.id not in behind and number < _COMPARED:
                changed = len(_state(context, repository, point, snapshot).paths)
            number += bool(changed)
            row = HomeRow(number if changed else 0, point, changed)
            told = (not session or point.session == session) and (not turn or point.turn == turn)
            if told and (every or row.number):
                timeline.rows.append(row)
    timeline.hidden = len(ours) - len(timeline.rows)
    return timeline


def _left_behind(context: UserContext, home: str, points: list[HomePoint]) -> set[str]:
    """Points that a rollback which stands went back to or behind: they would undo it, not a change."""
    from ...undo.changes import changes

    times = {point.id: point for point in points}
    behind = set[str]()
    for change in changes(context, home):
        target = times.get(str(change.facts.get("home_point") or "")) if change.open else None
        if target is None:
            continue
        behind |= {
            point.id
            for point in points
            if target.time_ns <= point.time_ns <= change.time * 1e9
            and all(any(within(path, one) for one in target.paths) for path in point.paths)
        }
    return behind


def named_point(context: UserContext, directory: str, word: str) -> str:
    """The id of the home point that a word means here; empty where it means a checkpoint, or nothing.

    A number means one only in a home, where no project is.
    """
    word = word.strip().lower()
    number = word.isascii() and word.isdigit() and len(word) <= 3
    if not number and not may_be_point(word):
        return ""
    project, taken = _project(context, directory, word)
    if number:
        home = home_around(context, directory)
        return "" if project or not home else _by_number(context, home, int(word))
    if taken:
        return ""
    try:
        with _points(context) as (repository, found):
            picked = pick_point(found, word)
            if picked is None:
                _refuse_forgotten(repository, word)
    except OSError:
        return ""
    except SafekeptError as error:
        if isinstance(error, AmbiguousSnapshot | NoSuchSnapshot):
            raise
        return ""
    return picked[0].id if picked else ""


def _refuse_forgotten(repository: Repository, word: str) -> None:
    """A point that policy or a person let go can be called back for some time."""
    for snapshot in list_snapshots(repository)[0]:
        if kind_of(snapshot) == PRE_CHANGE and public_id(snapshot).startswith(word):
            name = public_id(snapshot)[:8]
            raise NoSuchSnapshot(
                f"home point {name} was forgotten",
                kept="Nothing was changed; it can still be brought back until the vault is pruned",
                next_steps=(f"Bring it back: `safekept snapshot forget --undo {name}`",),
                snapshot=public_id(snapshot),
            )


def _by_number(context: UserContext, home: str, number: int) -> str:
    timeline = home_timeline(context, home)
    found = timeline.numbered(number)
    if found is None:
        most = max((row.number for row in timeline.rows), default=0)
        raise no_such_point(
            f"there is no home point {number}: they are numbered from 1 to {most}"
            if most
            else f"there is no home point {number}: nothing changed in `{home}` that could be undone"
        )
    return found.id


def _project(context: UserContext, directory: str, word: str) -> tuple[str, bool]:
    """The project there, if it has checkpoints, and whether the word begins the id of one of them."""
    from safekept.checkpoints.store import Store

    if not os.path.isdir(checkpoint_directory(context)):
        return "", False
    store = Store.open(checkpoint_directory(context))
    try:
        project = find_project(store, directory, context) or ""
        taken = bool(project) and any(point.id.startswith(word) for point in store.checkpoints(project))
        return project, taken
    finally:
        store.close()


def _state(context: UserContext, repository: Repository, point: HomePoint, snapshot: Snapshot) -> PointState:
    from safekept.vault.read import snapshot_source
    from safekept.vault.tags import layout_of

    source, manifest = snapshot_source(repository, snapshot)
    name = layout_of(snapshot)
    layout = context.layout(name if name in context.choices.layouts else "generic")
    return compare(point, source, layout, point.home, (), manifest)


@contextmanager
def _points(
    context: UserContext,
) -> Iterator[tuple[Repository, list[tuple[HomePoint, Snapshot]]]]:
    """The points of this machine in the user's own vault; where it has none, as in a new container, all.

    A list asks nobody for a passphrase.
    """
    from ...vault.opening import open_vault

    secret = context.caller.vault_secret if context.choices.vault_wants_passphrase else None
    quiet = context.changed(vault_secret=secret, source_vault="")
    host = os.uname().nodename
    with open_vault(quiet) as repository:
        every = points_among(repository, list_snapshots(repository)[0])
        yield repository, [one for one in every if one[1].hostname in ("", host)] or every
