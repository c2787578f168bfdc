"""What is safekept's own and no part of any home: the vault, its key, our data, the cache.

Nothing is ever restored over them. An exact restore removes what it does not know, so where it may go is
asked more strictly: a directory of its own, and none that only happens to hold somebody's things.
"""

from __future__ import annotations

import os

from safekept.core.errors import SafekeptError
from safekept.core.objects.address import is_address
from safekept.home.layout import HomeUnknown, locate_home, recognise_home

from .context import Surroundings


def own_places(surroundings: Surroundings) -> list[str]:
    """What is never part of a home, also where somebody put it inside one."""
    found = (surroundings.vault, surroundings.cache_directory, surroundings.data_directory)
    return [path for path in found if path and not is_address(path)]


def known_homes(surroundings: Surroundings) -> list[str]:
    """The homes that the settings and the layouts name, links resolved; they need not exist."""
    found = [os.path.realpath(surroundings.default_home)] if surroundings.default_home else []
    for layout in surroundings.layouts.values():
        try:
            found.append(locate_home(layout, surroundings.environment, surroundings.user_home))
        except HomeUnknown:
            continue
    return found


def within(path: str, place: str) -> bool:
    """Whether a path is that place or lies below it; both with their links resolved."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def refuse_unsafe_target(surroundings: Surroundings, target: str, *, into: bool, exact: bool) -> None:
    """Raise UnsafeTarget where restoring there would cost the vault, its key, our data or somebody's files.

    `into`: a directory that was named for this, not the home itself.
    """
    target = os.path.realpath(target)
    if target == "/":
        return  # nothing is ever restored there; the landing says so
    named = {
        "the vault": surroundings.vault,
        "the key of the vault": surroundings.vault_key_file,
        "the data of safekept": surroundings.data_directory,
        "the cache of safekept": surroundings.cache_directory,
    }
    for what, path in named.items():
        if not path or is_address(path):
            continue
        place = os.path.realpath(path)
        if within(target, place):
            raise _unsafe(target, f"it is where {what} lies (`{path}`)")
        # A home with our things somewhere in it is a home all the same, as long as nothing is removed.
        if within(place, target) and (into or exact):
            raise _unsafe(target, f"{what} (`{path}`) lies in it")
    if not (into and exact):
        return
    for home in known_homes(surroundings):
        if within(home, target) and home != target and os.path.isdir(home):
            raise _unsafe(target, f"the home `{home}` lies in it, and `--exact` would remove that")
    if _holds_other_things(surroundings, target):
        raise _unsafe(target, "it is neither empty nor a home, and `--exact` would remove what is there")


def _holds_other_things(surroundings: Surroundings, target: str) -> bool:
    from safekept.home.landing import existing_areas

    try:
        empty = not os.listdir(target)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a file, or nothing that we may look into: the landing would refuse it as well
    return not (empty or existing_areas(target) or recognise_home(target, surroundings.layouts))


def _unsafe(target: str, why: str) -> SafekeptError:
    from safekept.home.landing import UnsafeTarget

    return UnsafeTarget(
        f"Nothing is restored into `{target}`: {why}",
        kept="Nothing was changed",
        next_steps=("Name a directory of its own, a new one or an empty one, with `--into DIR`",),
        target=target,
    )
