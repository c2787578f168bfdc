"""Which project a person means by the directory they stand in, and what is near it.

One answer for every command and front end: the directory itself if it has checkpoints, else the
project around it that checkpoints would be taken of. Never a project further up: going back there
would change more than was asked for, so it is only shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safekept.checkpoints.project import find_root
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .guarding import forbidden_roots

if TYPE_CHECKING:
    from safekept.checkpoints.store import Store

    from ..base.context import UserContext

_SHOWN = 5


class NoCheckpointsHere(SafekeptError):
    code = "no-checkpoints"


class NoSuchDirectory(SafekeptError):
    code = "no-such-directory"


@dataclass(frozen=True, slots=True)
class NearbyProjects:
    """Projects with checkpoints around a directory that has none."""

    below: tuple[str, ...]
    above: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.below, *self.above)


def checkpoint_directory(context: UserContext) -> str:
    """Where all checkpoints are: outside every home and every project."""
    return os.path.join(context.places.data_directory, "checkpoints")


def find_project(store: Store | None, directory: str, context: UserContext) -> str | None:
    """The project with checkpoints that a directory means, if there is one."""
    if store is None:
        return None
    place = os.path.realpath(directory)
    known = set(store.projects())
    if place in known:
        return place
    root = find_root(place, forbidden=forbidden_roots(context))
    return root.path if root is not None and root.path in known else None


def near(store: Store | None, directory: str) -> NearbyProjects:
    """The projects with checkpoints below and above a directory."""
    if store is None:
        return NearbyProjects((), ())
    place = os.path.realpath(directory)
    known = sorted(store.projects())
    below = [project for project in known if project.startswith(place.rstrip("/") + "/")]
    above = [project for project in known if place.startswith(project.rstrip("/") + "/")]
    return NearbyProjects(tuple(below), tuple(reversed(above)))


def need_project(store: Store | None, directory: str, context: UserContext) -> str:
    """The same as `find_project`; an error that names what is near where there is none."""
    found = find_project(store, directory, context)
    if found is not None:
        return found
    others = near(store, directory).all
    steps = [NextStep("rollback", ("--dir", place), before="See what there is:") for place in others[:_SHOWN]]
    raise NoCheckpointsHere(
        f"There are no checkpoints of `{os.path.realpath(directory)}`",
        kept="Nothing was changed",
        next_steps=(*steps, NextStep("rollback", ("--all-projects",), before="See those of every project:")),
        directory=directory,
        near=others,
    )
