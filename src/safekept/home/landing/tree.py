"""The link-safe tree of a landing: what stands in its way has an error of its own.

A link that is put in the way, before or while a landing runs, is refused by name. Where others can
put things, a directory that is not ours is refused, too.
"""

from __future__ import annotations

import os
import stat

from safekept.core.errors import SafekeptError
from safekept.core.files.tree import LinkSafeTree
from safekept.core.next_step import NextStep
from safekept.core.owner import open_to_others


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
        f"`{path}` belongs to another user, and lies where others can put things",
        kept="Nothing was written into it",
        next_steps=(NextStep("import", ("FILE", "--into", "DIR"), before="Name a directory of your own:"),),
        path=path,
    )


class LandingTree(LinkSafeTree):
    """Access below one base directory of a landing. A link in the way is LandingThroughLink."""

    def __init__(self, base: str, make: bool = False) -> None:
        super().__init__(base, make=make, follow=True)
        self._crowded = open_to_others(base)  # every directory is then asked whose it is

    def look(self, path: str) -> os.stat_result | None:
        """As below, and None for "": a step that stages nothing names nothing."""
        return super().look(path) if path else None

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

    def _enter(self, parent: int, name: str, path: str) -> int:
        try:
            found = super()._enter(parent, name, path)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise through_link([self.full(path)]) from None
            raise
        if self._crowded and os.fstat(found).st_uid not in (0, os.geteuid()):
            os.close(found)
            raise _of_another(self.full(path))
        return found


class StillTree(LandingTree):
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
            parent = self.directory(head)
        except (FileNotFoundError, NotADirectoryError):
            self._missing.add(head)
            return None
        try:
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
