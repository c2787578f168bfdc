"""Where entries go: into the home, or to one of the declared places outside it, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field

from safekept.core.entries import Kind
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

from .area import real_home
from .record import Root

EXTERNAL = "_external"


class ImportOutsideHome(SafekeptError):
    code = "import-outside-home"


class UnsafeTarget(SafekeptError):
    code = "unsafe-target"


@dataclass(frozen=True, slots=True)
class Targets:
    """The home, and the only places outside it that may be written."""

    home: str
    external: Mapping[str, str] = field(default_factory=dict)  # {"_external/.honcho": "/home/u/.honcho"}


class Places:
    """Resolves the path of an entry to a root and a path below that root's base."""

    def __init__(self, targets: Targets) -> None:
        home = real_home(targets.home)
        if not home.strip("/"):
            raise UnsafeTarget(
                "`/` is the root of the filesystem; nothing is ever restored into it",
                kept="Nothing was changed",
                next_steps=(
                    NextStep("import", ("FILE", "--into", "DIR"), before="Name a directory of its own:"),
                ),
                home=home,
            )
        self.home = home
        self.roots = [_root("home", home)]
        self._external: list[tuple[str, int]] = []
        for key, place in sorted(targets.external.items(), reverse=True):  # the innermost place wins
            self._external.append((key.strip("/"), len(self.roots)))
            self.roots.append(_root(f"external-{len(self.roots)}", _checked(os.path.abspath(place))))

    def find(self, path: str) -> tuple[int, str] | None:
        """Root and path below its base; None for what may not be written."""
        if path != EXTERNAL and not path.startswith(EXTERNAL + "/"):
            return 0, f"{self.roots[0].name}/{path}" if path else self.roots[0].name
        for key, number in self._external:
            name = self.roots[number].name
            if path == key:
                return number, name
            if path.startswith(key + "/"):
                return number, name + path[len(key) :]
        return None

    def only_leads_to(self, path: str, kind: Kind) -> bool:
        """A directory above declared places: not content, and its facts are not ours to set."""
        return kind is Kind.DIRECTORY and (
            path == EXTERNAL or any(key.startswith(path + "/") for key, _ in self._external)
        )

    def outside(self, root: int, path: str) -> str:
        """The full path of something outside the home."""
        return os.path.join(self.roots[root].base, path)


def refuse_outside(paths: list[str]) -> ImportOutsideHome:
    named = ", ".join(f"`{path}`" for path in paths[:5]) + (" …" if len(paths) > 5 else "")
    return ImportOutsideHome(
        f"{len(paths):,} {'file' if len(paths) == 1 else 'files'} would be written outside the home, "
        f"to places that this layout does not declare: {named}",
        kept="Nothing was changed",
        next_steps=(
            "Do not trust this archive unless you know who made it",
            NextStep(
                "import",
                ("FILE", "--into", "DIR"),
                before="To look at it safely, restore into an empty directory:",
            ),
        ),
        paths=paths,
    )


def _checked(place: str) -> str:
    """A place outside the home that root may write; with a home of its own, root writes in no other."""
    if (owner := foreign_owner(place)) is not None:
        raise UnsafeTarget(
            f"`{place}` belongs to `{owner.name}`, and the home does not",
            kept="Nothing was changed",
            next_steps=(
                NextStep(
                    "import", ("FILE", "--into", "DIR"), before="Restore without what lies outside the home:"
                ),
            ),
            home=place,
        )
    return place


def _root(label: str, place: str) -> Root:
    """The nearest directory that exists is the base; what is below it is walked without following links."""
    base, names = os.path.split(place.rstrip("/"))
    while not os.path.isdir(base):
        base, name = os.path.split(base)
        names = f"{name}/{names}"
    return Root(label, os.path.realpath(base), names)
