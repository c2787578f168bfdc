"""Which changes count: those of files that a checkpoint would hold.

What the rules of checkpoints leave out by name (`node_modules`, `.git`, secrets), what `.gitignore` hides
and what is ours is neither watched nor taken for a change. Asking is cheap: names first, and git only for
what is left, in one process that stays. Where git cannot be asked, a change counts: too many looks at a
project cost a moment, one too few costs a file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator

from safekept.checkpoints.scan import Ignore, Rules

_RULES_FILE = ".gitignore"
#: More changed paths than this at once are not asked about one by one: some of them will count.
_ASKED = 200


class Relevance:
    """What counts in one project. `own`: directories of ours, which may lie inside it."""

    def __init__(
        self, project: str, repository: str, excluded: tuple[str, ...] = (), own: Collection[str] = ()
    ) -> None:
        self.project, self._repository = project, repository
        self._rules = Rules(excluded)
        self._own = tuple(os.path.realpath(place) for place in own if place)
        self._ignore: Ignore | None = None

    def counts(self, paths: Collection[str]) -> bool:
        """Whether one of these changed paths is something that a checkpoint would hold."""
        left = [name for name in map(self._kept, paths) if name is not None]
        if any(os.path.basename(name) == _RULES_FILE for name in left):
            self.forget()
            return True
        if not left or len(left) > _ASKED or "" in left:
            return bool(left)
        wanted = [os.fsencode(name) for name in left]
        return len(self._ignored(wanted)) < len(set(wanted))

    def walk(self) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        """Every directory worth watching, with its entries that are no directories. A level at a time.

        Raises OSError where the project itself cannot be listed.
        """
        level = [""]
        while level:
            below: list[str] = []
            for relative in level:
                entries: list[os.DirEntry[str]] = []
                try:
                    with os.scandir(os.path.join(self.project, relative)) as found:
                        entries = list(found)
                except OSError:
                    if not relative:
                        raise
                    continue
                files = []
                for entry in entries:
                    name = f"{relative}/{entry.name}" if relative else entry.name
                    directory = entry.is_dir(follow_symlinks=False)
                    if self._left_out(relative, entry.name, directory) or entry.path in self._own:
                        continue
                    if directory:
                        below.append(name)
                    else:
                        files.append(entry)
                yield os.path.join(self.project, relative) if relative else self.project, files
            hidden = {os.fsdecode(name) for name in self._ignored([os.fsencode(name) for name in below])}
            level = [name for name in below if name not in hidden]

    def forget(self) -> None:
        """The rules may have changed, or the project was made anew: git reads them again."""
        if self._ignore is not None:
            self._ignore.close()
            self._ignore = None

    def _kept(self, path: str) -> str | None:
        """The path in the project, unless a name on the way leaves it out; "" for the project itself."""
        if path == self.project:
            return ""
        if not path.startswith(self.project.rstrip("/") + "/"):
            return None
        if any(path == own or path.startswith(own + "/") for own in self._own):
            return None
        relative = path[len(self.project.rstrip("/")) + 1 :]
        directory = ""
        parts = relative.split("/")
        for at, name in enumerate(parts):
            if self._left_out(directory, name, at < len(parts) - 1):
                return None
            directory = f"{directory}/{name}" if directory else name
        # The last name may be a directory's; one that is gone can no longer be asked.
        if self._left_out(os.path.dirname(relative), parts[-1], True) and not os.path.isfile(path):
            return None
        return relative

    def _left_out(self, directory: str, name: str, is_directory: bool) -> bool:
        return self._rules.decide(os.fsencode(directory), os.fsencode(name), is_directory) is not None

    def _ignored(self, names: Iterable[bytes]) -> set[bytes]:
        asked = list(dict.fromkeys(names))
        if not asked:
            return set()
        with contextlib.suppress(OSError):
            if self._ignore is not None and not self._ignore.available:
                self.forget()  # it may have ended with the store that it stood in
            if self._ignore is None:
                self._ignore = Ignore(os.fsencode(self.project), self._repository)
            return self._ignore.ask(asked)
        return set()
