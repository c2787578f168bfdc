"""Files of an agent's home among those of a turn: kept in the vault, and brought back from there.

A home is never a project. What a turn changes in it goes into a quick snapshot of just those files, a home
point, which stands in the timeline beside the checkpoints of the project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from safekept.core.errors import SafekeptError

from .apart import in_its_own_process
from .here import Here, here
from .values import Missing, Point, RolledBack, Step


def keep_home_files(
    user: Here, paths: Iterable[str], *, reason: str, session: str, turn: str
) -> tuple[list[str], list[str], list[str]]:
    """What is no file of a home, the ids of the points that were taken, and what failed, in sentences."""
    from safekept.actions.projects.home_points.take import before_home_change

    others: list[str] = []
    at_home: dict[str, list[str]] = {}
    for path in paths:
        home = _home_of(user, path)
        (at_home.setdefault(home, []) if home else others).append(path)
    points, failures = [], []
    for home, names in at_home.items():
        try:
            layout = user.context.locate(home, existing=False).layout
            point = before_home_change(
                user.context,
                home,
                layout,
                names,
                reason=reason,
                session=session,
                turn=turn,
                host="api",
                isolated=True,
            )
            points.append(point.id)
        except Exception as error:  # whatever it is, it must not stop an agent
            failures.append(error.what if isinstance(error, SafekeptError) else f"{home}: {error}")
            others += [name for name in names if not os.path.isdir(name)]  # by name, like any other file
    return others, points, failures


def home_point_named(user: Here, directory: str, word: str) -> str:
    """The id of the home point that a word means here; nothing where it means a checkpoint."""
    from safekept.actions.projects.home_points.timeline import named_point

    return named_point(user.context, directory, word)


def home_points_of(user: Here, session: str, turn: str) -> list[Point]:
    """The home points of this user, newest first."""
    from safekept.actions.projects.home_points.timeline import home_points

    found = home_points(user.context, session=session, turn=turn)
    return [
        Point(one.id, one.home, None, one.time_ns, "home", one.reason, one.session, one.turn) for one in found
    ]


@in_its_own_process
def roll_home_back(point: str, files: tuple[str, ...], directory: str, *, dry_run: bool) -> RolledBack:
    """Bring the files of a home point back."""
    from safekept.actions.projects.home_points.rollback import HomeRollbackRequest, roll_back_home

    user = here()
    request = HomeRollbackRequest(
        point,
        files,
        directory,
        dry_run,
        deadline=user.deadline,
        keep_days=user.settings.number("import.keep_days"),
    )
    done = roll_back_home(user.context, request)
    steps = [("recreate", done.create), ("restore", done.replace), ("remove", done.remove)]
    return RolledBack(
        project=done.point.home,
        checkpoint=done.point.id,
        done=not dry_run,
        steps=tuple(Step(path, action) for action, paths in steps for path in paths),
        left=tuple(Missing(path, reason) for path, reason in done.left),
        complete=done.complete,
        operation="" if dry_run else done.operation,
    )


def _home_of(user: Here, path: str) -> str:
    """The home that a file lies in; nothing where it lies in none, or in a project inside one."""
    from safekept.actions.projects.home_points.timeline import home_around
    from safekept.actions.projects.project import forbidden_roots
    from safekept.checkpoints.project import find_root

    if "\0" in path:
        return ""
    home = home_around(user.context, os.path.dirname(path))
    if not home:
        return ""
    root = find_root(path, forbidden=forbidden_roots(user.context))
    inside = root is not None and root.walked and root.path.startswith(home + os.sep)
    return "" if inside else home
