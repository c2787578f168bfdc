"""What never goes into the checkpoint store, which is not encrypted: agents' secrets, and whole homes.

A directory that holds the user's home, an agent's home or our own stores is never a project: of it only
named files are kept. Secrets of an agent's home are not kept there either, however they are named: by their
own path, through a link, or by another name of the same file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping

from safekept.checkpoints.project import holds_too_much
from safekept.core.errors import SafekeptError

from ..base.context import UserContext
from ..base.own_places import known_homes, own_places, within


def forbidden_roots(context: UserContext) -> tuple[str, ...]:
    """Directories that are never a project: the user's home, agents' homes, our own places, and all above."""
    places = context.places
    own = [*own_places(context), os.path.dirname(places.vault_key_file)]
    found = [os.path.realpath(one) for one in (places.user_home, *own, *known_homes(context)) if one]
    # What does not exist has nothing in it that could be taken; the user's home is above most of them.
    above = [one for place in found if os.path.isdir(place) for one in _above(place)]
    return tuple(dict.fromkeys([*found, *above]))


def _above(place: str) -> list[str]:
    found = []
    while (above := os.path.dirname(place)) != place:
        found.append(above)
        place = above
    return found


class HomeGuard:
    """Which projects are none, and which of their files are secrets of an agent's home.

    The layouts, which say what is a secret, are read only where a project and a home have to do with each
    other, or where a file has two names.
    """

    def __init__(self, context: UserContext) -> None:
        self._context = context
        self._forbidden = forbidden_roots(context)
        self._twins: frozenset[tuple[int, int]] | None = None

    def never(self, project: str) -> bool:
        """Whether no pass over this directory may be made."""
        return holds_too_much(project, self._forbidden)

    def secrets(self, project: str) -> Callable[[str], bool] | None:
        """What tells the secrets among paths, absolute and resolved; None where there can be none."""
        near = [home for home in self._homes() if within(project, home) or within(home, project)]
        return self._is_secret if near else None

    def _is_secret(self, path: str) -> bool:
        for home, name in self._homes().items():
            if within(path, home) and path != home:
                layout = self._context.choices.layouts.get(name)
                if layout is None or layout.secret(path[len(home.rstrip("/")) + 1 :]):
                    return True
        return False

    def is_twin(self, status: os.stat_result) -> bool:
        """Whether a file is, by another name, a secret of a home."""
        if self._twins is None:
            self._twins = frozenset(self._secret_files())
        return (status.st_dev, status.st_ino) in self._twins

    def _secret_files(self) -> set[tuple[int, int]]:
        found = set()
        for home, name in self._homes().items():
            layout = self._context.choices.layouts.get(name)
            if layout is None:
                continue
            waiting = [""]
            while waiting:
                inside = waiting.pop()
                with contextlib.suppress(OSError), os.scandir(os.path.join(home, inside)) as listing:
                    for entry in listing:
                        path = f"{inside}/{entry.name}" if inside else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            waiting += [path] if layout.secret_below(path) else []
                        elif layout.secret(path):
                            status = entry.stat(follow_symlinks=False)
                            found.add((status.st_dev, status.st_ino))
        return found

    def _homes(self) -> Mapping[str, str]:
        """Every home that is there, with the name of its layout."""
        context, found = self._context, dict[str, str]()
        for name, place in context.home_places.items():
            usual = os.path.join(context.places.user_home, place.default) if place.default else ""
            with contextlib.suppress(SafekeptError):
                found.setdefault(context.home_and_layout_name(layout=name)[0], name)
            if usual and os.path.isdir(usual):
                found.setdefault(os.path.realpath(usual), name)
        with contextlib.suppress(SafekeptError):
            found.setdefault(*context.home_and_layout_name())
        return {home: name for home, name in found.items() if home and os.path.isdir(home)}
