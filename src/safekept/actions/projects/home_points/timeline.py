"""Home points as a person sees them: beside a project's checkpoints, or numbered where one stands in a home.

Beside a project they have no number, so `rollback 1` stays what undoes the last change of the project; their
id names them everywhere. In a home, number 1 is the newest point after which something was changed, so that
it undoes the last change there; going back moves no number. Where there are none, or the vault does not open,
a list is shown without.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.checkpoints.points import Changes
from safekept.core.errors import SafekeptError
from safekept.core.events import silent
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.own_places import known_homes, within
from ...base.recovery import recover_interrupted
from ..timeline import PointRow, Timeline
from .comparison import PointState, compare
from .point import HomePoint, any_taken
from .stored import no_such_point, open_points

if TYPE_CHECKING:
    from safekept.vault.read import HomeSource

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
    """Those of this user, newest first; none where the vault does not open without asking a person."""
    if not any_taken(context):
        return []
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
    recover_interrupted(context, home, silent)
    with open_points(context) as (repository, found):
        number = 0
        ours = [one for one in found if one[0].home == home]
        stored = _Stored(repository)
        for at, (point, snapshot) in enumerate(ours):
            counts, changed = False, 0
            if not point.undo and point.paths and number < _COMPARED:
                changed = len(_state(context, repository, point, snapshot).paths)
                counts = stored.changed_after(ours[at], ours[:at], bool(changed))
            number += counts
            row = PointRow(number if counts else 0, point, Changes(changed) if changed else None)
            matches = (not session or point.session == session) and (not turn or point.turn == turn)
            if matches and (every or row.number):
                timeline.rows.append(row)
    timeline.hidden = len(ours) - len(timeline.rows)
    return timeline


class _Stored:
    """What points hold of a path, to tell whether anything was changed after one.

    It is judged by the next later point of each path, one that a rollback took among them, and by the home as
    it is only where there is none: so going back moves no number.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._sources: dict[str, HomeSource] = {}

    def changed_after(
        self, one: tuple[HomePoint, Snapshot], later: Sequence[tuple[HomePoint, Snapshot]], now: bool
    ) -> bool:
        """Whether the next point of a path has other content; `now`: the home has, where no point says."""
        left = list(one[0].paths)
        for point, snapshot in reversed(later):
            shared = _shared(left, point.paths)
            if any(self._holds(one[1], path) != self._holds(snapshot, path) for path in shared):
                return True
            left = [path for path in left if not any(within(path, above) for above in point.paths)]
        return now and bool(left)

    def _holds(self, snapshot: Snapshot, path: str) -> dict[str, tuple[object, ...]]:
        """What a person would see there: names, kinds, modes and contents; times are no change."""
        from safekept.vault.read import snapshot_source

        if snapshot.id not in self._sources:
            self._sources[snapshot.id] = snapshot_source(self._repository, snapshot)[0]
        source, found = self._sources[snapshot.id], dict[str, tuple[object, ...]]()
        waiting = [(path, source.node(path))]
        while waiting:
            name, node = waiting.pop()
            if node is not None:
                found[name] = (node.type, node.mode, node.content, node.target)
                waiting += [(f"{name}/{below.name}", below) for below in source.children(name)]
        return found


def _shared(some: Sequence[str], others: Sequence[str]) -> list[str]:
    """The paths that are, or lie below, one of each."""
    found = [path for path in some if any(within(path, above) for above in others)]
    return found + [path for path in others if any(within(path, above) for above in some)]


def point_by_number(context: UserContext, home: str, number: int) -> HomePoint:
    """The point that a number means in a home."""
    timeline = home_timeline(context, home)
    found = timeline.numbered(number)
    if not isinstance(found, HomePoint):
        most = max((row.number for row in timeline.rows), default=0)
        raise no_such_point(
            f"There is no home point {number}: they are numbered from 1 to {most}"
            if most
            else f"There is no home point {number}: nothing changed in `{home}` that could be undone"
        )
    return found


def _state(context: UserContext, repository: Repository, point: HomePoint, snapshot: Snapshot) -> PointState:
    from safekept.vault.read import snapshot_source
    from safekept.vault.tags import layout_of

    source, manifest = snapshot_source(repository, snapshot)
    name = layout_of(snapshot)
    layout = context.layout(name if name in context.choices.layouts else "generic")
    return compare(point, source, layout, point.home, (), manifest)
