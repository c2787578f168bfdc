"""One look at every file of a project, compared with what the last checkpoint saw.

Promise: after a walk, every path of the project is a row that is known to be in the store, a row that is
waiting to be read (`pending`), a folder, or hidden with a reason. Nothing is opened but directories, and
no link is followed: every directory is opened from its parent.

The price of a warm walk is one lstat per file. A directory whose own times have not moved has the names
it had, so it is not listed again; that is trusted only on filesystems known to keep those times.
"""

from __future__ import annotations

import errno
import os
import stat
from array import array

from safekept.core.platform.filesystems import kind_of_filesystem

from ..checkpoint import Skipped
from ..store.objects import NOTHING
from .cache import Cache
from .content import log_mark
from .folder import ABSENT, CODE_OF, UNSURE, WIDTH, Folder
from .ignore import RULES_FILE, Ignore
from .listing import Listing, unreadable
from .rules import Rules

#: Filesystems on which a directory's times tell whether its names changed.
_TELLING = frozenset(
    "ext2 ext3 ext4 xfs btrfs tmpfs ramfs zfs f2fs overlay bcachefs jfs reiserfs nilfs2".split()
)


def directory_times_are_reliable(device: int) -> bool:
    """Whether a directory's times can be trusted on the filesystem with that device number."""
    return kind_of_filesystem(device) in _TELLING


DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: Deeper than this nothing is walked: every level holds a descriptor.
DEEPEST = 256
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class TooMany(Exception):
    """More files would be stored than the limit allows."""


class ProjectWalk:
    """A full pass. Afterwards: `folders`, `pending`, `dirty`, `lost`."""

    def __init__(self, cache: Cache, rules: Rules, ignore: Ignore | None, limit: int, most: int) -> None:
        self.folders: dict[bytes, Folder] = {}
        self.pending: dict[bytes, list[bytes]] = {}  # folder -> names of its files to be read
        self.dirty: set[bytes] = set()  # folders that are not as the cache has them
        self.lost: list[Skipped] = []  # what is there and could not be looked at or into
        self.files = 0
        self._cache, self._ignore, self._most = cache, ignore, most
        self._listing = Listing(rules, ignore, limit, self.pending, self.lost)
        self._own: set[tuple[int, int]] = set()  # directories of ours, wherever they are
        self._telling: int | None = None  # the device whose directories' times tell of their names
        self._outside_rules = False
        self._device = -1  # of the project's own directory

    def run(self, root: int, own: set[tuple[int, int]], fresh: bool, partial: bool) -> None:
        """Walk the project whose directory is open as `root`.

        `fresh`: the rules may have changed. `partial`: look only at what was named before.
        """
        status = os.fstat(root)
        self._own, self._device = own, status.st_dev
        self._telling = status.st_dev if directory_times_are_reliable(status.st_dev) else None
        self._outside_rules = self._ignore is not None and self._ignore.has_outside_rules()
        self._visit(b"", root, status, fresh, self._outside_rules, partial, 0)

    def _visit(
        self,
        path: bytes,
        directory: int,
        status: os.stat_result,
        fresh: bool,
        ruled: bool,
        partial: bool,
        depth: int,
    ) -> None:
        """One directory, open as `directory`. `ruled`: ignore rules from above apply."""
        old = self._cache.get(path)
        if partial:
            folder = self._partial(path, directory, status, old)
        else:
            found = None
            if (
                old is not None
                and not (fresh or old.partial)
                and self._telling == status.st_dev
                and old.inode == status.st_ino
                and old.mtime_ns == status.st_mtime_ns
                and old.ctime_ns == status.st_ctime_ns
            ):
                found = self._unlisted(path, directory, old)
            if found is None:
                folder, fresh, ruled = self._listing.read(path, directory, status, old, fresh, ruled)
            else:
                folder = found
                ruled = ruled or RULES_FILE in folder.names
        self.folders[path] = folder
        self.files += folder.stored()
        if self._most and self.files > self._most:
            raise TooMany
        if folder is not old or folder.stale:
            self.dirty.add(path)
        for name in folder.folders[:]:
            self._descend(path, name, directory, fresh, ruled, partial, depth)

    def _descend(
        self, parent: bytes, name: bytes, directory: int, fresh: bool, ruled: bool, partial: bool, depth: int
    ) -> None:
        path = parent + b"/" + name if parent else name
        try:
            child = os.open(name, DIRECTORY_FLAGS, dir_fd=directory)
        except OSError as error:
            self._closed(parent, name, error, error.errno == errno.ENOENT)
            return
        try:
            status = os.fstat(child)
            if depth >= DEEPEST or (status.st_dev, status.st_ino) in self._own:
                self._without(parent, name, "limit" if depth >= DEEPEST else "excluded")
                return
            if status.st_dev != self._device and not os.listdir(child):
                # A sandbox lays an empty directory over each name that an agent may not make (`.codex`): it
                # is no part of the project, and a rollback in there has not made it.
                self._without(parent, name, "excluded")
                return
            hidden = partial or name in self.folders[parent].hidden
            self._visit(path, child, status, fresh, ruled, hidden, depth + 1)
            if hidden and not self.folders[path].names and not self.folders[path].folders:
                self._without(parent, name, "")
        except OSError as error:
            # The directory went away, or would not be listed, while it was open.
            self._closed(parent, name, error)
        finally:
            os.close(child)

    def _closed(self, parent: bytes, name: bytes, error: OSError, gone: bool = False) -> None:
        """A subdirectory that went away, or that cannot be looked into: then it is named."""
        if error.errno in _GONE:
            self._without(parent, name, "", gone)
            return
        self._without(parent, name, "unreadable")
        self.lost.append(unreadable(parent + b"/" + name if parent else name, error))

    def _without(self, parent: bytes, name: bytes, reason: str, gone: bool = False) -> None:
        """A subdirectory that turned out not to be walked. `gone`: nothing is there any more."""
        path = parent + b"/" + name if parent else name
        for known in [p for p in self.folders if p == path or p.startswith(path + b"/")]:
            self.files -= self.folders.pop(known).stored()
            self.dirty.discard(known)
        for known in [p for p in self.pending if p == path or p.startswith(path + b"/")]:
            del self.pending[known]
        folder = self.folders[parent]
        if folder is self._cache.get(parent):
            folder = self.folders[parent] = folder.copy()
        folder.remove_folder(name)
        if reason:
            folder.hidden[name] = (reason, -1)
        elif gone and folder.partial and name not in folder.names:
            folder.append(name, ABSENT, None)
        folder.inode = UNSURE
        self.dirty.add(parent)

    def _unlisted(self, path: bytes, directory: int, old: Folder) -> Folder | None:
        """A directory with the names it had: look at each. None when it must be listed after all."""
        # No name came, went or was renamed here, so behind each is the inode that was there, and
        # whatever is done to an inode moves its change time.
        lstat, marks = os.lstat, old.marks[::WIDTH]
        try:
            looks = array("q", [lstat(name, dir_fd=directory).st_ctime_ns for name in old.names])
        except OSError:
            return None
        logs = old.databases and any(
            log_mark(directory, name) != known[1] for name, known in old.databases.items()
        )
        if looks == marks and not logs:
            return old
        folder = old.copy()
        waiting: list[int] = []
        for place, name in enumerate(old.names):
            if looks[place] == marks[place]:
                continue
            if name == RULES_FILE:
                return None  # the rules changed: everything below is decided again
            self._listing.look(folder, place, os.lstat(name, dir_fd=directory), waiting)
        for name, known in old.databases.items():
            if log_mark(directory, name) != known[1]:
                place = folder.names.index(name)
                if place not in waiting:
                    waiting.append(place)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        return folder

    def _partial(self, path: bytes, directory: int, status: os.stat_result, old: Folder | None) -> Folder:
        """A directory of which only named files are known: look at those, list nothing."""
        if old is None:
            return Folder(
                UNSURE, status.st_mtime_ns, status.st_ctime_ns, status.st_mode & 0o7777, partial=True
            )
        folder = old.copy()
        waiting: list[int] = []
        if not old.partial:
            # It was walked, and is hidden now: what is not stored already stays out.
            keep = [place for place in range(len(old.names)) if old.names[place] in old.forced]
            folder = Folder(partial=True, folders=list(old.folders), trees=old.trees[:], metas=old.metas[:])
            for place in keep:
                folder.names.append(old.names[place])
                folder.codes.append(old.codes[place])
                folder.modes.append(old.modes[place])
                folder.marks.extend(old.marks[WIDTH * place : WIDTH * place + WIDTH])
                folder.oids += old.oid(place)
        folder.inode, folder.mode = UNSURE, status.st_mode & 0o7777
        folder.mtime_ns, folder.ctime_ns = status.st_mtime_ns, status.st_ctime_ns
        for place in range(len(folder.names) - 1, -1, -1):
            name = folder.names[place]
            try:
                looks = os.lstat(name, dir_fd=directory)
            except OSError as error:
                code = ABSENT
                if error.errno not in _GONE:  # it may be there: going back must not take it away
                    code = CODE_OF["unreadable"]
                    self.lost.append(unreadable(path + b"/" + name if path else name, error))
                if folder.codes[place] != code:
                    folder.codes[place] = code
                    folder.set_oid(place, NOTHING)
                    folder.databases.pop(name, None)
                    folder.doubt(place)
                continue
            start = WIDTH * place
            mark = array("q", (looks.st_ctime_ns, looks.st_mtime_ns, looks.st_size, looks.st_ino))
            if folder.marks[start : start + WIDTH] != mark:
                if stat.S_ISDIR(looks.st_mode):
                    folder.remove(place)
                    waiting = [other - 1 for other in waiting]
                else:
                    self._listing.look(folder, place, looks, waiting)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        unchanged = folder.dump() == old.dump()
        return old if unchanged else folder
