"""The projects with checkpoints by their names, the one taken last first: for a page that only offers them.

`project_summaries` reads what each says of itself; here one look at each directory must do.
"""

from __future__ import annotations

import functools
import os

from ..base.context import UserContext
from ..status.project_summaries import project_summaries


def known_projects(context: UserContext) -> list[str]:
    """Their paths."""
    place = os.path.join(context.places.data_directory, "checkpoints")
    base, refs = os.path.join(place, "projects"), os.path.join(place, "store", "refs", "safekept")
    names, stored = _listed(base), _listed(refs)
    if stored - names:  # an `rm` took records that the store can give back
        return [one.project for one in project_summaries(context).projects]
    found: list[tuple[float, str]] = []
    for name in names:
        directory = f"{base}/{name}"
        if path := _path(directory):
            found.append((_written(directory), path))
    return [path for _, path in sorted(found, key=lambda one: (-one[0], one[1]))]


def _listed(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except OSError:
        return set()


def _written(directory: str) -> float:
    """When its last checkpoint was noted."""
    try:
        return os.stat(f"{directory}/ledger").st_mtime
    except OSError:
        return 0.0


@functools.lru_cache(maxsize=4096)
def _read(file: str) -> str:
    """A directory is named after the path in it, so that what was once read stays right."""
    with open(file, "rb") as opened:
        return os.fsdecode(opened.read())


def _path(directory: str) -> str:
    try:
        return _read(f"{directory}/project")
    except OSError:
        return ""
