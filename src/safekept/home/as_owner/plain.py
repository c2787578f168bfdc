"""What root may have done in a home by a word: paths and numbers in, plain values out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from safekept.core.agents.homes import locate_home, recognise_home

from ..landing.area import existing_areas
from ..landing.leftover import leftovers
from ..landing.recovery import expire, landings, recover
from ..landing.swap.moving import discard
from ..landing.undoing import plan_undo, undo
from ..layout.layout import Layout
from ..layout.places import check_home, find_home


def _locate(
    home: str,
    layout: Layout | None,
    layouts: Mapping[str, Layout],
    environment: Mapping[str, str],
    user_home: str,
    existing: bool,
) -> list[str]:
    """The home that is meant, links resolved, and the name of its layout; as `UserContext.locate` does."""
    if not home:
        assert layout is not None
        find = find_home if existing else locate_home
        return [find(layout, environment, user_home), layout.name]
    home = os.path.realpath(home)
    chosen = layout or layouts[recognise_home(home, layouts) or "generic"]
    if existing:
        check_home(home, chosen)
    return [home, chosen.name]


def _empty(path: str) -> None:
    """Take away what is in a directory."""
    for name in os.listdir(path):
        discard(os.path.join(path, name))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "locate": _locate,
    "is_directory": os.path.isdir,
    "names": lambda path: sorted(os.listdir(path)),
    "areas": lambda home: [area.path for area in existing_areas(home)],
    "recover": lambda home, wait: [one.as_dict() for one in recover(home, wait)],
    "landings": lambda home: [
        {**past.as_dict(), "directory": past.directory.path} for past in landings(home)
    ],
    "empty": _empty,
    "expire": expire,
    "leftovers": lambda home: [one.as_dict() for one in leftovers(home)],
    "plan_undo": lambda home, operation: plan_undo(home, operation).as_dict(),
    "undo": lambda home, operation, deadline: undo(home, operation, deadline=deadline).as_dict(),
}
