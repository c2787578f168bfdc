"""One turn of an agent of yours: what it is about to change is kept before.

A home is never a project. What a turn changes in it goes into a quick snapshot of just those files, a home
point, which stands in the timeline beside the checkpoints of the project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError

from .user import ApiUser, PathLike, any_text, words
from .values import Missing, Protected

if TYPE_CHECKING:
    from safekept.checkpoints.checkpoints import Checkpoints as Door
    from safekept.checkpoints.take import Protection


class Turn:
    """One turn of an agent, from `Checkpoints.turn`."""

    def __init__(self, door: Door, directory: str, user: ApiUser, session: str, turn: str) -> None:
        self._door, self._directory, self._user = door, directory, user
        self._session, self._turn = session, turn

    @property
    def _off(self) -> bool:
        """Whether this session, or the environment it was started with, wants no checkpoints."""
        from safekept.actions.hosts.sessions import switch

        here = self._user.context
        return not switch(here.places.data_directory, here.caller.environment, self._session).on

    def before(self, paths: Iterable[PathLike], *, reason: str = "") -> Protected:
        """Call before a tool changes these files; relative ones are meant in the project's directory.

        Files of an agent's home are kept in the vault, as a point of the kind `home`.

        >>> with safekept.Checkpoints(project).turn("session-1") as turn:
        ...     turn.before(["parser.py", "not_there_yet.py"]).complete
        True
        """
        if self._off:
            return Protected((), off=True)
        names = [os.path.join(self._directory, any_text(path)) for path in words(paths)]
        others, points, failures = _keep_home_files(
            self._user, names, reason=reason, session=self._session, turn=self._turn
        )
        found = _protected(self._door.before(others, reason, directory=self._directory))
        return replace(
            found, checkpoints=(*found.checkpoints, *points), failures=(*found.failures, *failures)
        )

    def before_shell(self, directory: PathLike | None = None, *, reason: str = "") -> Protected:
        """Call before a command whose changes cannot be foreseen: the whole project is kept.

        >>> with safekept.Checkpoints(project).turn("session-1") as turn:
        ...     kept = turn.before_shell(reason="before make clean")
        >>> len(kept.checkpoints)
        1
        """
        if self._off:
            return Protected((), off=True)
        place = os.path.join(self._directory, any_text(directory))
        found = self._door.before([place], reason, directory=place, shell=True)  # noqa: S604 - no shell is run
        return _protected(found)


def _protected(found: Protection) -> Protected:
    points = [taken.checkpoint or taken.latest for taken in found.taken]
    return Protected(
        checkpoints=tuple(point.id for point in points if point is not None),
        skipped=tuple(Missing(one.path, one.detail or one.reason) for one in found.skipped),
        failures=tuple(one.what for one in found.failures),
        notices=tuple(found.notices),
    )


def _keep_home_files(
    user: ApiUser, paths: Iterable[str], *, reason: str, session: str, turn: str
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


def _home_of(user: ApiUser, path: str) -> str:
    """The home that a file lies in; nothing where it lies in none, or in a project inside one."""
    from safekept.actions.projects.guarding import forbidden_roots
    from safekept.actions.projects.home_points.timeline import home_around
    from safekept.checkpoints.project import find_root

    if "\0" in path:
        return ""
    home = home_around(user.context, os.path.dirname(path))
    if not home:
        return ""
    root = find_root(path, forbidden=forbidden_roots(user.context))
    inside = root is not None and root.walked and root.path.startswith(home + os.sep)
    return "" if inside else home
