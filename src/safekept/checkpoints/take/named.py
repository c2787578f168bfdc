"""Named files: taken at every call, whatever the rules for full passes say; secrets excepted.

Only the folders on the way are touched, so that one file of a project of a hundred thousand costs what
one file costs. A directory that is not walked (excluded, ignored, or no project at all) becomes a
*partial* folder: of such a one only the named files are known, present or absent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from array import array
from collections.abc import Iterable, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.files import quick_write, write_all

from ..checkpoint import Skipped
from ..scan.cache import View
from ..scan.content import log_mark, sidecar_of
from ..scan.folder import ABSENT, CODE_OF, DATABASE, PLAIN, STORED, SYMLINK, UNSURE, WIDTH, Folder
from ..scan.rules import Rules
from ..scan.walk import DIRECTORY_FLAGS
from ..store.metadata import escape, unescape
from ..store.objects import NOTHING
from ..store.store import Store

# The names that tools named in a project lately, present or absent. A file that the rules hide, or in a
# directory that is not walked, is looked at because it was named. One that was absent then leaves
# no row to look at again, so marks and undo points would not see that it was made. This list is what
# they look at beside. It can be lost: then it is gathered from the checkpoints.

NAME = "named"
#: So many names are remembered, the newest.
MOST = 4096


class NamedRecord:
    """The list of one project; `names` are relative to it."""

    def __init__(self, store: Store, project: str, directory: str) -> None:
        self._path = os.path.join(directory, NAME)
        self.names: dict[bytes, None] = {}
        self._lines = 0
        try:
            with open(self._path, "rb") as file:
                lines = [line for line in file.read().split(b"\n") if line]
        except OSError:
            self.add(_gathered(store, project), anew=True)
            return
        self._lines = len(lines)
        for line in lines[-MOST:]:
            self.names[unescape(line)] = None

    def add(self, names: Iterable[bytes], *, anew: bool = False) -> None:
        """Remember more. Told before the checkpoint is made: one too many, never one too few."""
        fresh = [name for name in dict.fromkeys(names) if name not in self.names]
        self.names.update(dict.fromkeys(fresh))
        if anew or self._lines + len(fresh) > 2 * MOST:
            self.names = dict.fromkeys(list(self.names)[-MOST:])
            quick_write(self._path, b"".join(escape(name) + b"\n" for name in self.names))
            self._lines = len(self.names)
        elif fresh:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                # A name that a killed process left torn is ended by the line feed in front.
                write_all(descriptor, b"\n" + b"".join(escape(name) + b"\n" for name in fresh))
            finally:
                os.close(descriptor)
            self._lines += len(fresh)


def _gathered(store: Store, project: str) -> list[bytes]:
    """What the checkpoints themselves say that was named, oldest first."""
    found: dict[bytes, None] = {}
    for point in reversed(store.checkpoints(project)):
        with contextlib.suppress(SafekeptError, json.JSONDecodeError):
            named = store.about(point).get("named")
            for name in named if isinstance(named, list) else ():
                found[os.fsencode(str(name))] = None
    return list(found)


#: What the kernel says of a name behind which nothing is, or nothing can be.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def relative_names(project: str, named: Sequence[str]) -> tuple[list[bytes], list[Skipped]]:
    """The named paths relative to the project, links above the last part resolved; others are listed."""
    found: dict[bytes, None] = {}
    outside = []
    for name in named:
        full = os.path.join(project, name)
        parent, last = os.path.split(os.path.normpath(full))
        real = os.path.join(os.path.realpath(parent), last)
        if not last or "\0" in real or not real.startswith(project.rstrip("/") + "/"):
            outside.append(Skipped(name, "outside", "lies outside the project"))
            continue
        found[os.fsencode(real[len(project.rstrip("/")) + 1 :])] = None
    return list(found), outside


class Named:
    """Brings named files up to date in the folders on their way."""

    def __init__(self, view: View, rules: Rules, limit: int) -> None:
        self._view, self._rules, self._limit = view, rules, limit
        self.pending: dict[bytes, set[bytes]] = {}
        self.dirty: set[bytes] = set()
        self.skipped: list[Skipped] = []
        self.files = 0  # change in the number of stored files

    def know(self, root: int) -> None:
        """Make sure that at least the project's own directory is known."""
        if self._view.get(b"") is None:
            self._new(b"", os.fstat(root))

    def look(self, root: int, path: bytes) -> None:
        """One named path, below the project open as `root`."""
        parts = path.split(b"/")
        if any(part.lower() == b".git" for part in parts):
            self._skip(path, "git")
            return
        if self._rules.secret(path):
            self._skip(path, "secret")
            return
        directory, here = os.dup(root), b""
        try:
            for part in parts[:-1]:
                parent, here = here, here + b"/" + part if here else part
                try:
                    below = os.open(part, DIRECTORY_FLAGS, dir_fd=directory)
                except OSError as error:
                    self._leads_nowhere(path, parent, directory, part, error)
                    return
                os.close(directory)
                directory = below
                self._on_the_way(parent, here, part, directory)
            self._file(here, directory, parts[-1])
        finally:
            os.close(directory)

    def _file(self, here: bytes, directory: int, name: bytes) -> None:
        try:
            status = os.lstat(name, dir_fd=directory)
        except OSError as error:
            if error.errno in _NOT_THERE:
                self._gone(here, directory, name)
            else:
                self._unknown(here, directory, name, error)
            return
        if stat.S_ISDIR(status.st_mode):
            self._skip(os.path.join(here, name), "excluded", "is a directory; name its files")
            return
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            self._skip(os.path.join(here, name), "special")
            return
        if self._as_known(here, directory, name, status):
            return
        folder = self._owned(here, directory)
        if name in folder.folders:
            self._was_directory(folder, here, name)
        if folder.hidden.pop(name, None) is not None or self._rules.decide(here, name, False) is not None:
            folder.forced = folder.forced | {name}
        if folder.databases and sidecar_of(name) in folder.databases:
            return
        place = folder.names.index(name) if name in folder.names else -1
        was = place >= 0 and folder.codes[place] in STORED
        if place >= 0:
            folder.set_status(place, status)
        else:
            place = folder.append(name, PLAIN, status)
        if self._limit and status.st_size > self._limit and not stat.S_ISLNK(status.st_mode):
            folder.codes[place] = CODE_OF["oversize"]
            folder.set_oid(place, NOTHING)
            self.files -= was
            self._skip(os.path.join(here, name), "oversize", size=status.st_size)
            return
        if stat.S_ISLNK(status.st_mode):
            folder.codes[place] = SYMLINK
        elif folder.codes[place] != DATABASE:
            folder.codes[place] = PLAIN
        self.pending.setdefault(here, set()).add(name)
        self.files += not was

    def _as_known(self, here: bytes, directory: int, name: bytes, status: os.stat_result) -> bool:
        """Whether the file is stored already, just as it is."""
        folder = self._view.get(here)
        if folder is None or name not in folder.names:
            return False
        place = folder.names.index(name)
        mark = array("q", (status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino))
        return (
            folder.codes[place] in STORED
            and folder.marks[WIDTH * place : WIDTH * place + WIDTH] == mark
            and self._quiet(folder, place, directory)
        )

    def _owned(self, here: bytes, directory: int) -> Folder:
        """A folder that is about to be changed, with its own looks brought up to date."""
        folder = self._view.own(here)
        status = os.fstat(directory)
        if (folder.mtime_ns, folder.ctime_ns) != (status.st_mtime_ns, status.st_ctime_ns):
            folder.inode = UNSURE  # other names may have come and gone: the next full pass lists it
            folder.mtime_ns, folder.ctime_ns = status.st_mtime_ns, status.st_ctime_ns
            folder.mode = status.st_mode & 0o7777
        self.dirty.add(here)
        return folder

    def _quiet(self, folder: Folder, place: int, directory: int) -> bool:
        known = folder.databases.get(folder.names[place])
        return known is None or log_mark(directory, folder.names[place]) == known[1]

    def _gone(self, here: bytes, directory: int, name: bytes) -> None:
        """Something named, or on the way to it, that is not there; nor is what was known below it."""
        known = self._view.get(here)
        assert known is not None
        place = known.names.index(name) if name in known.names else -1
        below, hidden = name in known.folders, name in known.hidden
        if place < 0 and not (below or hidden or known.partial):
            return  # in a folder that was listed, that goes without saying
        if place >= 0 and not below and known.partial and known.codes[place] == ABSENT:
            return
        folder = self._owned(here, directory)
        folder.hidden.pop(name, None)
        if below:
            self._was_directory(folder, here, name)
        if place >= 0 and folder.codes[place] in STORED:
            self.files -= 1
        if folder.partial:
            if place < 0:
                place = folder.append(name, ABSENT, None)
            folder.codes[place] = ABSENT
            folder.set_oid(place, NOTHING)
            folder.databases.pop(name, None)
            folder.doubt(place)
        elif place >= 0:
            folder.remove(place)
        folder.inode = UNSURE

    def _unknown(self, here: bytes, directory: int, name: bytes, error: OSError) -> None:
        """It may be there and cannot be looked at: not stored, and not absent, so that nothing deletes it."""
        folder = self._owned(here, directory)
        if name not in folder.folders:
            place = folder.names.index(name) if name in folder.names else folder.append(name, ABSENT, None)
            self.files -= folder.codes[place] in STORED
            folder.codes[place] = CODE_OF["unreadable"]
            folder.set_oid(place, NOTHING)
            folder.databases.pop(name, None)
            folder.doubt(place)
        self._skip(os.path.join(here, name), "unreadable", error.strerror or str(error))

    def _leads_nowhere(self, path: bytes, parent: bytes, directory: int, part: bytes, error: OSError) -> None:
        """A name on the way that leads nowhere: missing with all below it, or something else by now."""
        if error.errno == errno.ENOENT:
            self._gone(parent, directory, part)
        elif error.errno in (errno.ENOTDIR, errno.ELOOP):
            self._file(parent, directory, part)
        else:
            self._skip(path, "unreadable", error.strerror or str(error))

    def _was_directory(self, folder: Folder, here: bytes, name: bytes) -> None:
        folder.remove_folder(name)
        self.files -= self._view.remove(os.path.join(here, name))

    def _on_the_way(self, parent: bytes, here: bytes, part: bytes, directory: int) -> None:
        """Make sure that a directory on the way is known, at least in part."""
        if self._view.get(here) is None:
            self._new(here, os.fstat(directory))
            owner = self._view.own(parent)
            if part in owner.names:  # was a file, or absent
                place = owner.names.index(part)
                self.files -= owner.codes[place] in STORED
                owner.remove(place)
            owner.set_folder(part, NOTHING, NOTHING)
            owner.inode = UNSURE
            self.dirty.update((parent, here))

    def _new(self, path: bytes, status: os.stat_result) -> None:
        mode = status.st_mode & 0o7777
        folder = Folder(UNSURE, status.st_mtime_ns, status.st_ctime_ns, mode, partial=True)
        self._view.put(path, folder)
        self.dirty.add(path)

    def _skip(self, path: bytes, reason: str, detail: str = "", size: int = 0) -> None:
        self.skipped.append(Skipped(os.fsdecode(path), reason, detail, size))
