"""What a look saw, as the vault's writer takes it in: only what may have changed is read.

Of a directory that looks as it did when an earlier snapshot stored it, nothing is listed and no file is
looked at again: the look itself did that a moment ago. Everything else goes through the one scanner, narrowed
to the names of the look. What came since is another look's: a rollback, for one, has landed its visible half
by now.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator

from safekept.checkpoints.scan import HiddenFolders
from safekept.core.entries import Entry, Kind, Remark
from safekept.core.events import Event, Listener
from safekept.core.owner import foreign_owner
from safekept.home.scan import Scan
from safekept.vault.write import Memory, UnchangedDirectory

from .repository import not_ready

#: More files than this are not named to the scanner one by one.
_MOST_NAMED = 500


class LookSource:
    """A Source of what the look saw, which ends when its time is over.

    `scanner` makes a scan of these files, or of everything. `unchanged` are the directories of which nothing
    was read, once it was iterated.
    """

    ordered = False

    def __init__(
        self,
        project: str,
        seen: HiddenFolders,
        memory: Memory,
        scanner: Callable[[Collection[str] | None], Scan],
        deadline: float,
    ) -> None:
        self._project, self._look, self._seen = project, seen, seen.folders
        self._memory, self._scanner, self._deadline = memory, scanner, deadline
        self._scan: Scan | None = None
        self._above = {b""}
        for path in self._seen:
            while path not in self._above:
                self._above.add(path)
                path = path.rpartition(b"/")[0]
        self.unchanged: set[bytes] = set()
        #: Directories may come in any order where only some of them are listed.
        self.in_turn = True

    @property
    def remarks(self) -> list[Remark]:
        return self._scan.remarks if self._scan is not None else []

    def __iter__(self) -> Iterator[Entry]:
        for group in self.groups():
            if not isinstance(group, UnchangedDirectory):
                yield from group

    def groups(self) -> Iterator[list[Entry] | UnchangedDirectory]:
        self.unchanged = self._unchanged()
        named = self._named() if self.unchanged else None
        leading = self._leading() if named is not None else None
        if named is None or leading is None:
            self.unchanged, self.in_turn = set(), True
            self._scan = self._scanner(None)
            for group in self._scan.groups():
                self._in_time()
                yield self._of_the_look(group)
            return
        self.in_turn = False
        yield leading
        for path in self.unchanged:
            folder = self._seen[path]
            yield UnchangedDirectory(os.fsdecode(path), len(folder.names), folder.size)
        if named:
            self._scan = self._scanner(named)
            for group in self._scan.groups():
                self._in_time()
                files = [entry for entry in group if entry.kind is not Kind.DIRECTORY]
                if files and os.fsencode(os.path.dirname(files[-1].path)) not in self.unchanged:
                    yield self._of_the_look(files)

    def _unchanged(self) -> set[bytes]:
        """The directories whose files all look as they did when they were stored."""
        if not self._memory.indexed or self._look.left_unread or foreign_owner(self._project) is not None:
            return set()
        return {path for path in self._seen if self._is_known(path)}

    def _is_known(self, path: bytes) -> bool:
        folder = self._seen[path]
        if not folder.names or any(stat.S_ISLNK(mode) for mode in folder.modes):
            return False
        names = os.fsdecode(b"\0".join(folder.names)).split("\0")
        return self._memory.holds(os.fsdecode(path), names, folder.changes.tolist())

    def _named(self) -> list[str] | None:
        """The files of all other directories; None where they are too many to be named."""
        found = []
        for path, folder in self._seen.items():
            if path not in self.unchanged:
                full = (path + b"/" + name if path else name for name in folder.names)
                found += [os.fsdecode(one) for one in full if one not in self._look.left]
                if len(found) > _MOST_NAMED:
                    return None
        return found

    def _leading(self) -> list[Entry] | None:
        """Every directory of the look, and those above; None where one is not what it was."""
        found = []
        for path in sorted(self._above):
            if not path:
                continue
            try:
                status = os.lstat(os.path.join(self._project, os.fsdecode(path)))
            except OSError:
                return None
            if not stat.S_ISDIR(status.st_mode):
                return None
            mode, mtime_ns = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            found.append(Entry(os.fsdecode(path), Kind.DIRECTORY, mode, mtime_ns, status=status))
        return found

    def _of_the_look(self, group: list[Entry]) -> list[Entry]:
        """A group is of one directory: see `home/scan/walk.py`."""
        if not group:
            return group
        place = os.fsencode(os.path.dirname(group[-1].path))
        names = set(self._seen[place].names) if place in self._seen else set[bytes]()
        found = []
        for entry in group:
            path = os.fsencode(entry.path)
            if entry.kind is Kind.DIRECTORY:
                seen = path in self._above
            else:  # a look passes over the index of a database's log, and what is called like one
                seen = path.rpartition(b"/")[2] in names or path.endswith(b"-shm")
            if seen:
                found.append(entry)
        return found

    def heard(self, listener: Listener) -> Listener:
        """The same listener; the deadline is looked at with every event, in the middle of a file, too."""

        def listening(event: Event) -> None:
            self._in_time()
            listener(event)

        return listening if self._deadline else listener

    def _in_time(self) -> None:
        if self._deadline and time.monotonic() > self._deadline:
            raise not_ready("they changed, and storing them takes longer than a call may wait")
