"""What is safekept's own and no part of any home: the vault, its key, our data, the cache.

Nothing is ever restored over them. An exact restore removes what it does not know, so where it may go is
asked more strictly: a directory of its own, and none that only happens to hold the user's things.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from safekept.core.agents import HomeUnknown, locate_home, recognise_home
from safekept.core.errors import SafekeptError
from safekept.core.objects.address import is_address
from safekept.core.owner import foreign_owner

from .context import UserContext


def own_places(context: UserContext) -> list[str]:
    """What is never part of a home, also where it lies inside one."""
    found = (context.places.vault, context.places.cache_directory, context.places.data_directory)
    return [path for path in found if path and not is_address(path)]


def known_homes(context: UserContext) -> list[str]:
    """The homes that the settings and the layouts name, links resolved; they need not exist.

    Every command learns here which homes there are, so that one at an unusual place is known to all.
    """
    plan, user_home = context.choices.schedule, context.places.user_home
    named = [one for one in (context.choices.default_home, *(plan.homes if plan is not None else ())) if one]
    spelled = [user_home + one[1:] if one == "~" or one.startswith("~/") else one for one in named]
    found = [os.path.realpath(one) for one in spelled]
    for place in context.home_places.values():
        try:
            found.append(locate_home(place, context.caller.environment, context.places.user_home))
        except HomeUnknown:
            continue
    return found


def rebuilt_homes(context: UserContext) -> list[str]:
    """Homes that a rebuild put here and that are here still, the newest first: at an unusual place no setting
    names one before `setup` does."""
    from .operations.facts import Facts

    found: dict[str, None] = {}
    with contextlib.suppress(OSError):
        for entry in context.journal.backwards("rebuild"):
            if os.path.isabs(home := Facts.read(entry).home or ""):
                found[home] = None
    return [home for home in found if os.path.isdir(home) and foreign_owner(home) is None]


def home_holding(context: UserContext, paths: Sequence[str]) -> str:
    """The known home in which all of these lie; "" where there is none, or it is the one meant anyway."""
    default = context.home_and_layout_name()[0]
    others = dict.fromkeys((*known_homes(context), *rebuilt_homes(context)))
    found = set()
    for path in map(os.path.normpath, paths):
        parent, name = os.path.split(path)
        spelled = (path, os.path.join(os.path.realpath(parent), name))
        # What lies in the usual home is its own, such as the home of a profile.
        holding = [home for home in (default, *others) if any(within(one, home) for one in spelled)]
        found.add(default if default in holding else max(holding, key=len, default=""))
    return found.pop() if len(found) == 1 and default not in found else ""


def within(path: str, place: str) -> bool:
    """Whether a path is that place or lies below it; both with their links resolved."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def refuse_unsafe_target(context: UserContext, target: str, *, into: bool, exact: bool) -> None:
    """Raise UnsafeTarget where restoring there would cost the vault, its key, our data or the user's files.

    `into`: a directory that was named for this, not the home itself.
    """
    target = os.path.realpath(target)
    if target == "/":
        return  # nothing is ever restored there; the landing says so
    named = {
        "the vault": context.places.vault,
        "the key of the vault": context.places.vault_key_file,
        "the data of safekept": context.places.data_directory,
        "the cache of safekept": context.places.cache_directory,
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
    for home in known_homes(context):
        if within(home, target) and home != target and os.path.isdir(home):
            raise _unsafe(target, f"the home `{home}` lies in it, and `--exact` would remove that")
    if _holds_other_things(context, target):
        raise _unsafe(target, "it is neither empty nor a home, and `--exact` would remove what is there")


def _holds_other_things(context: UserContext, target: str) -> bool:
    from safekept.home.landing import existing_areas

    try:
        empty = not os.listdir(target)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a file, or nothing that we may look into: the landing would refuse it as well
    return not (empty or existing_areas(target) or recognise_home(target, context.choices.layouts))


def _unsafe(target: str, why: str) -> SafekeptError:
    from safekept.home.landing import UnsafeTarget

    return UnsafeTarget(
        f"Nothing is restored into `{target}`: {why}",
        kept="Nothing was changed",
        next_steps=("Name a directory of its own, a new one or an empty one, with `--into DIR`",),
        target=target,
    )
