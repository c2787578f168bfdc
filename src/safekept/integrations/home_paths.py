"""Files of an agent's own home among those that a call names: they go into a quick snapshot of that home.

A project inside a home, with a marker of its own, is a project like any other.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from .calls import Call, Problem, Uncovered, problem
from .places import Place


@dataclass(frozen=True, slots=True)
class HomeKept:
    """What became of the files of homes."""

    point: str = ""
    unkept: tuple[str, ...] = ()  # what is to be taken as named files instead
    failures: tuple[Problem, ...] = ()


_HOURS = "integrations.session_snapshot_hours"
#: (home, layout) -> paths in it, absolute
AtHome = dict[tuple[str, str], list[str]]


def sorted_paths(call: Call, place: Place) -> tuple[list[str], AtHome, tuple[Uncovered, ...]]:
    """Paths of projects, paths of homes, and what is no path at all."""
    names: list[str] = []
    at_home: AtHome = {}
    uncovered: list[Uncovered] = []
    homes = _homes(call, place)
    for path in call.paths:
        full = _full(path, call.directory)
        if not full:
            uncovered.append(Uncovered(path, "name", "is no name that a file can have"))
            continue
        found = _home_of(full, homes, place) if homes else None
        if found is None:
            names.append(full)
        else:
            at_home.setdefault(found, []).append(full)
    if call.shell and homes and call.directory and (full := _full(call.directory, "")):
        found = _home_of(full, homes, place)
        if found is not None:
            at_home.setdefault(found, []).append(full)
    return names, at_home, tuple(uncovered)


def keep_home_paths(call: Call, place: Place, at_home: AtHome) -> HomeKept:
    """A quick snapshot of each home before its files change; what cannot be kept so comes back by name."""
    from safekept.actions.projects.home_points.take import before_home_change

    points: list[str] = []
    unkept: list[str] = []
    failures: list[Problem] = []
    for (home, layout), paths in at_home.items():
        try:
            point = before_home_change(
                place.acting(call.host),
                home,
                layout,
                tuple(paths),
                reason=call.reason or f"before {call.tool}",
                session=call.session,
                turn=call.turn,
                host=call.host,
                isolated=True,
            )
            points.append(point.id)
        except Exception as error:  # whatever it is, the files can still be kept by name
            failures.append(problem(error, home))
            unkept += [path for path in paths if not os.path.isdir(path)]
    return HomeKept(points[0] if points else "", tuple(unkept), tuple(failures))


def snapshot_before(call: Call, place: Place, at_home: AtHome) -> None:
    """A home is about to change: a snapshot with its databases, by another process, when one is due."""
    from safekept.actions.projects.home_points.take import snapshot_is_due

    from .in_process import run_apart

    for home, _ in at_home:
        with contextlib.suppress(SafekeptError, OSError, ValueError):
            if snapshot_is_due(place.context, home, place.settings.number(_HOURS)):
                # What the tool names is kept already, so the rest is not waited for.
                run_apart(replace(call, kind="session-end", home=home, paths=()), place.environment)


def snapshot_at_end(call: Call, place: Place) -> tuple[Problem, ...]:
    """A session ended: a snapshot of the agent's home, when one is due."""
    from safekept.actions.projects.home_points.take import snapshot_if_due

    home = _meant(call, place)
    if home is None:
        return ()
    try:
        snapshot_if_due(
            place.acting(call.host),
            *home,
            hours=place.settings.number(_HOURS),
            reason=call.reason or "end of a session",
            isolated=True,  # another thread of this process may be at the same databases
        )
    except (SafekeptError, OSError, ValueError) as error:
        return (problem(error, home[0]),)
    return ()


def snapshot_wanted(call: Call, place: Place) -> bool:
    """Whether there is a home to look at at all when this session ends."""
    return place.settings.number(_HOURS) > 0 and _meant(call, place) is not None


def _meant(call: Call, place: Place) -> tuple[str, str] | None:
    """The home of the agent whose session ended."""
    named = os.path.realpath(call.home) if call.home else ""
    for home, layout in _homes(call, place):
        # A profile is named by itself, and is a part of its home.
        if f"{named}/".startswith(f"{home}/") or (not named and layout == call.host):
            return home, layout
    return None


def _homes(call: Call, place: Place) -> tuple[tuple[str, str], ...]:
    if not call.home or not os.path.isdir(call.home):
        return place.homes
    home = os.path.realpath(call.home)
    # A profile is part of the home that it belongs to.
    if any(f"{home}/".startswith(f"{known}/") for known, _ in place.homes):
        return place.homes
    if home == os.path.realpath(place.user_home):
        return place.homes
    try:
        found = place.context.locate(home, existing=False)
    except SafekeptError:
        return place.homes
    return ((found.home, found.layout.name), *place.homes)


def _home_of(path: str, homes: tuple[tuple[str, str], ...], place: Place) -> tuple[str, str] | None:
    """The home that a path lies in, unless a project in that home holds it."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    for home, layout in homes:
        if real == home or real.startswith(home + os.sep):
            from safekept.checkpoints.project import find_root

            root = find_root(path, forbidden=place.forbidden)
            inside = root is not None and root.walked and root.path.startswith(home + os.sep)
            return None if inside else (home, layout)
    return None


def _full(path: str, directory: str) -> str:
    """A path that a file can have, absolute; "" where it is none."""
    try:
        if not path or "\0" in path:
            return ""
        os.fsencode(path)
        return os.path.abspath(os.path.join(directory, path))
    except (ValueError, OSError):
        return ""
