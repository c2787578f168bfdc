"""Home points as a person sees them: beside a project's checkpoints, or numbered where one stands in a home.

Beside a project they have no number, so `rollback 1` stays what undoes the last change of the project; their
id names them everywhere. In a home, number 1 is the newest point to which something changed since, so that
it undoes the last change there. Where there are none, or the vault does not open, a list is shown without.
"""

from __future__ import annotations

import os

from safekept.checkpoints.points import Changes
from safekept.core.errors import SafekeptError
from safekept.core.events import silent
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.own_places import known_homes, within
from ...base.recovery import make_right
from ..timeline import PointRow, Timeline
from .comparison import PointState, compare
from .point import HomePoint
from .stored import no_such_point, open_points

#: Numbers count points that differ; so many are compared for a list.
_COMPARED = 60


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
        with open_points(context) as (_, found):
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
) -> Timeline:
    """The list of one home, with numbers. What a killed landing left is made right first."""
    timeline = Timeline(home, home=home)
    make_right(context, home, silent)
    with open_points(context) as (repository, found):
        number = 0
        ours = [one for one in found if one[0].home == home]
        behind = _left_behind(context, home, [point for point, _ in ours])
        for point, snapshot in ours:
            changed = 0
            if not point.undo and point.id not in behind and number < _COMPARED:
                changed = len(_state(context, repository, point, snapshot).paths)
            number += bool(changed)
            row = PointRow(number if changed else 0, point, Changes(changed) if changed else None)
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
        target = times.get(change.landed.home_point or "") if change.open else None
        if target is None:
            continue
        behind |= {
            point.id
            for point in points
            if target.time_ns <= point.time_ns <= change.time * 1e9
            and all(any(within(path, one) for one in target.paths) for path in point.paths)
        }
    return behind


def point_by_number(context: UserContext, home: str, number: int) -> HomePoint:
    """The point that a number means in a home."""
    timeline = home_timeline(context, home)
    found = timeline.numbered(number)
    if not isinstance(found, HomePoint):
        most = max((row.number for row in timeline.rows), default=0)
        raise no_such_point(
            f"there is no home point {number}: they are numbered from 1 to {most}"
            if most
            else f"there is no home point {number}: nothing changed in `{home}` that could be undone"
        )
    return found


def _state(context: UserContext, repository: Repository, point: HomePoint, snapshot: Snapshot) -> PointState:
    from safekept.vault.read import snapshot_source
    from safekept.vault.tags import layout_of

    source, manifest = snapshot_source(repository, snapshot)
    name = layout_of(snapshot)
    layout = context.layout(name if name in context.choices.layouts else "generic")
    return compare(point, source, layout, point.home, (), manifest)
