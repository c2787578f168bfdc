"""A directory tree that is walked by descriptors, so that a link is never followed.

Every name is reached from its base directory one component at a time with O_NOFOLLOW, and all
work is done relative to the parent's descriptor. A link that somebody puts in the way, before or
while a landing runs, is met with an error and never written through. Since no long path is ever
handed to the kernel, depth is not bounded by PATH_MAX either.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import OrderedDict
from types import TracebackType
from typing import Self

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import open_to_others

#: Opens a directory for walking only: no read permission is needed on it.
WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_AT_ONCE = 64


class LandingThroughLink(SafekeptError):
    code = "landing-through-link"


def through_link(paths: list[str]) -> LandingThroughLink:
    """The refusal, naming every link that stands where a directory is needed."""
    named = ", ".join(f"`{path}`" for path in paths[:5]) + (" …" if len(paths) > 5 else "")
    return LandingThroughLink(
        f"{named} is a link where a directory is needed; safekept never writes through links"
        if len(paths) == 1
        else f"{named} are links where directories are needed; safekept never writes through links",
        kept="The home is as it was",
        next_steps=(
            "Replace the link by a real directory, or move it away, then run the command again",
            NextStep("import", ("FILE", "--into", "DIR"), before="Or restore elsewhere and copy by hand:"),
        ),
        links=paths,
    )


class LandingInForeignDirectory(SafekeptError):
    code = "landing-in-foreign-directory"


def _of_another(path: str) -> LandingInForeignDirectory:
    return LandingInForeignDirectory(
        f"`{path}` belongs to somebody else, and lies where others can put things",
        kept="Nothing was written into it",
        next_steps=(NextStep("import", ("FILE", "--into", "DIR"), before="Name a directory of your own:"),),
        path=path,
    )


class Tree:
    """Access below one base directory. Paths are relative and `/`-separated; not for several threads."""

    def __init__(self, base: str, make: bool = False) -> None:
        self.base = base
        self._make = make  # parents that are missing are made, 0700
        self._root = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._crowded = open_to_others(base)  # every directory is then asked whose it is
        self._open: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def full(self, path: str) -> str:
        """The whole path as text, for messages and for libraries that take nothing else."""
        return f"{self.base.rstrip('/')}/{path}" if path else self.base

    def parent(self, path: str) -> tuple[int, str]:
        """The open parent of `path`, and its last name.

        Raises FileNotFoundError where a parent is missing, NotADirectoryError where it is a file,
        LandingThroughLink where it is a link.
        """
        head, _, name = path.rpartition("/")
        return (self._walk(head, self._make) if head else self._root), name

    def directory(self, path: str) -> int:
        """The open directory `path`, which must be there; the descriptor stays ours."""
        return self._walk(path, make=False)

    def _walk(self, path: str, make: bool) -> int:
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        known, rest = self._nearest(path)
        descriptor = self._open[known] if known else self._root
        for name in rest:
            known = f"{known}/{name}" if known else name
            descriptor = self._enter(descriptor, name, known, make)
            self._open[known] = descriptor
            if len(self._open) > _OPEN_AT_ONCE:
                os.close(self._open.popitem(last=False)[1])
        return descriptor

    def look(self, path: str) -> os.stat_result | None:
        """What is under this name, links not followed; None where there is nothing."""
        try:
            head, _, name = path.rpartition("/")
            parent = self.directory(head) if head else self._root
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def forget(self, path: str) -> None:
        """Let go of a directory that was moved or removed, and of all below it."""
        below = path + "/"
        for known in [known for known in self._open if known == path or known.startswith(below)]:
            os.close(self._open.pop(known))

    def link_in_the_way(self, path: str) -> str:
        """The first parent of `path` that is a link, or an empty string."""
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            above = "/".join(parts[:count])
            try:
                facts = self.look(above)
            except LandingThroughLink:
                return above
            if facts is None:
                return ""
            if stat.S_ISLNK(facts.st_mode):
                return above
        return ""

    def _nearest(self, path: str) -> tuple[str, list[str]]:
        parts = path.split("/")
        for count in range(len(parts) - 1, 0, -1):
            known = "/".join(parts[:count])
            if known in self._open:
                self._open.move_to_end(known)
                return known, parts[count:]
        return "", parts

    def _enter(self, parent: int, name: str, path: str, make: bool) -> int:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
        try:
            found = os.open(name, WALK, dir_fd=parent)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise through_link([self.full(path)]) from None
            raise
        if self._crowded and os.fstat(found).st_uid not in (0, os.geteuid()):
            os.close(found)
            raise _of_another(self.full(path))
        return found


class StillTree(Tree):
    """For looking only: a directory that was missing once is not asked for again.

    Planning looks at every target once, and most of a restored home may not be there at all.
    """

    def __init__(self, base: str) -> None:
        super().__init__(base)
        self._missing: set[str] = set()

    def look(self, path: str) -> os.stat_result | None:
        head, _, name = path.rpartition("/")
        if head in self._missing:
            return None
        try:
            parent = self.directory(head) if head else self._root
        except (FileNotFoundError, NotADirectoryError):
            self._missing.add(head)
            return None
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
