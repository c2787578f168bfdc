"""One look at every file of a project, compared with what the last checkpoint saw.

Promise: after a walk, every path of the project is a row that is known to be in the store, a row that is
waiting to be read (`pending`), a folder, or hidden with a reason. Nothing is opened but directories, and
no link is followed: every directory is opened from its parent.

The price of a warm walk is one lstat per file. A directory whose own times have not moved has the names
it had, so it is not listed again; that is trusted only on filesystems known to keep those times.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from array import array

from .cache import Cache
from .content import log_mark, settled, sidecar_of
from .folder import ABSENT, CODE_OF, DATABASE, PLAIN, STORED, SYMLINK, UNSURE, WIDTH, Folder
from .ignore import Ignore
from .objects import NOTHING
from .rules import Rules

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: Deeper than this nothing is walked: every level holds a descriptor.
DEEPEST = 256
#: Filesystems on which a directory's times tell whether its names changed.
_TELLING = frozenset(
    "ext2 ext3 ext4 xfs btrfs tmpfs ramfs zfs f2fs overlay bcachefs jfs reiserfs nilfs2".split()
)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_RULES = b".gitignore"


class TooMany(Exception):
    """More files would be stored than the limit allows."""


class Walk:
    """A full pass. Afterwards: `folders`, `pending`, `dirty`."""

    def __init__(self, cache: Cache, rules: Rules, ignore: Ignore | None, limit: int, most: int) -> None:
        self.folders: dict[bytes, Folder] = {}
        self.pending: dict[bytes, list[bytes]] = {}  # folder -> names of its files to be read
        self.dirty: set[bytes] = set()  # folders that are not as the cache has them
        self.files = 0
        self._cache, self._rules, self._ignore = cache, rules, ignore
        self._limit, self._most = limit, most
        self._own: set[tuple[int, int]] = set()  # directories of ours, wherever they are
        self._telling = False
        self._outside_rules = False

    def run(self, root: int, own: set[tuple[int, int]], fresh: bool, partial: bool) -> None:
        """Walk the project whose directory is open as `root`.

        `fresh`: the rules may have changed. `partial`: look only at what was named before.
        """
        status = os.fstat(root)
        self._own = own
        self._telling = names_are_told(status.st_dev)
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
                and self._telling
                and old.inode == status.st_ino
                and old.mtime_ns == status.st_mtime_ns
                and old.ctime_ns == status.st_ctime_ns
            ):
                found = self._unlisted(path, directory, old)
            if found is None:
                folder, fresh, ruled = self._listed(path, directory, status, old, fresh, ruled)
            else:
                folder = found
                ruled = ruled or _RULES in folder.names
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
            self._without(parent, name, "" if error.errno in _GONE else "unreadable")
            return
        try:
            status = os.fstat(child)
            if depth >= DEEPEST or (status.st_dev, status.st_ino) in self._own:
                self._without(parent, name, "limit" if depth >= DEEPEST else "excluded")
                return
            hidden = partial or name in self.folders[parent].hidden
            self._visit(path, child, status, fresh, ruled, hidden, depth + 1)
            if hidden and not self.folders[path].names and not self.folders[path].folders:
                self._without(parent, name, "")
        except OSError as error:
            # The directory went away, or would not be listed, while it was open.
            self._without(parent, name, "" if error.errno in _GONE else "unreadable")
        finally:
            os.close(child)

    def _without(self, parent: bytes, name: bytes, reason: str) -> None:
        """A subdirectory that turned out not to be walked."""
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
            if name == _RULES:
                return None  # the rules changed: everything below is decided anew
            self._look(folder, place, os.lstat(name, dir_fd=directory), waiting)
        for name, known in old.databases.items():
            if log_mark(directory, name) != known[1]:
                place = folder.names.index(name)
                if place not in waiting:
                    waiting.append(place)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        return folder

    def _look(self, folder: Folder, place: int, status: os.stat_result, waiting: list[int]) -> None:
        """A row that does not look as it did: decide what it is now."""
        name, code = folder.names[place], folder.codes[place]
        if code in (CODE_OF["sidecar"], CODE_OF["ignored"]):
            folder.set_status(place, status)
            return
        if stat.S_ISLNK(status.st_mode):
            code = SYMLINK
        elif not stat.S_ISREG(status.st_mode):
            code = CODE_OF["special"]
        elif self._limit and status.st_size > self._limit:
            code = CODE_OF["oversize"]
        elif code != DATABASE:
            code = PLAIN
        if code != DATABASE:
            folder.databases.pop(name, None)
        folder.codes[place] = code
        folder.set_status(place, status)
        if code in STORED:
            waiting.append(place)
        else:
            folder.set_oid(place, NOTHING)

    def _listed(
        self,
        path: bytes,
        directory: int,
        status: os.stat_result,
        old: Folder | None,
        fresh: bool,
        ruled: bool,
    ) -> tuple[Folder, bool, bool]:
        """A directory that is new, or whose names may have changed."""
        before = time.time_ns()
        folder = Folder(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_mode & 0o7777)
        if not settled(max(status.st_ctime_ns, status.st_mtime_ns), before):
            folder.inode = UNSURE
        old_places = {name: place for place, name in enumerate(old.names)} if old else {}
        old_folders = {name: place for place, name in enumerate(old.folders)} if old else {}
        forced = old.forced if old else frozenset()
        if old and old.partial:
            forced = forced | frozenset(old.names)
            old_known: dict[bytes, tuple[str, int]] = {}
        else:
            old_known = old.hidden if old else {}
        with os.scandir(directory) as listing:
            entries = {
                os.fsencode(entry.name): (entry, entry.is_dir(follow_symlinks=False)) for entry in listing
            }
        if self._ignore is not None:
            rules = entries.get(_RULES)
            ruled = ruled or rules is not None
            fresh = fresh or self._rules_changed(rules, old, old_places)
        asked: list[bytes] = []
        undecided: list[bytes] = []
        for name, (_, is_directory) in entries.items():
            reason = self._rules.decide(path, name, is_directory)
            if reason is not None:
                folder.hidden[name] = (reason, -1 if is_directory else 0)
            elif ruled and self._ignore is not None:
                known = name in old_folders if is_directory else name in old_places
                was = old_known.get(name)
                if not fresh and was is not None and was[0] == "ignored" and (was[1] < 0) == is_directory:
                    folder.hidden[name] = was
                elif fresh or not known or (old is not None and old.partial):
                    undecided.append(name)
        if undecided and self._ignore is not None:
            prefix = path + b"/" if path else b""
            asked = [prefix + name for name in undecided]
            for name in self._ignore.ask(asked):
                name = name[len(prefix) :]
                folder.hidden[name] = ("ignored", -1 if entries[name][1] else 0)
        waiting: list[int] = []
        taken = set()
        for name in sorted(entries):
            entry, is_directory = entries[name]
            why = folder.hidden.get(name)
            if is_directory:
                # A directory that the rules hide is gone into only for files that were named.
                if why is None or (name in old_folders and why[0] in ("excluded", "ignored")):
                    place = 20 * old_folders[name] if name in old_folders and old else -1
                    folder.folders.append(name)
                    folder.trees += old.trees[place : place + 20] if old and place >= 0 else NOTHING
                    folder.metas += old.metas[place : place + 20] if old and place >= 0 else NOTHING
                continue
            if why is not None:
                if name in forced and why[0] in ("excluded", "ignored"):
                    del folder.hidden[name]
                    taken.add(name)
                elif name == _RULES and why[0] == "ignored":
                    del folder.hidden[name]  # still looked at: it rules what is beside it
                else:
                    continue
            try:
                looks = entry.stat(follow_symlinks=False)
            except OSError:
                folder.inode = UNSURE
                continue
            self._row(folder, name, looks, old, old_places.get(name, -1), waiting)
            if why is not None and name == _RULES and name not in taken:
                folder.codes[-1] = CODE_OF["ignored"]
                folder.set_oid(len(folder.names) - 1, NOTHING)
                waiting = [place for place in waiting if place != len(folder.names) - 1]
        folder.forced = frozenset(taken)
        if old is not None:
            folder.blob = old.blob
            for name, known_database in old.databases.items():
                place = folder.names.index(name) if name in entries and name in folder.names else -1
                if place >= 0 and folder.codes[place] == DATABASE:
                    folder.databases[name] = known_database
                    if log_mark(directory, name) != known_database[1] and place not in waiting:
                        waiting.append(place)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        return folder, fresh, ruled

    def _row(
        self,
        folder: Folder,
        name: bytes,
        looks: os.stat_result,
        old: Folder | None,
        was: int,
        waiting: list[int],
    ) -> None:
        if not stat.S_ISREG(looks.st_mode) and not stat.S_ISLNK(looks.st_mode):
            folder.hidden[name] = ("special", 0)
            return
        base = sidecar_of(name)
        if base is not None and old is not None and base in old.databases:
            folder.append(name, CODE_OF["sidecar"], looks)
            return
        if old is None or was < 0:
            code = SYMLINK if stat.S_ISLNK(looks.st_mode) else PLAIN
            if code == PLAIN and self._limit and looks.st_size > self._limit:
                code = CODE_OF["oversize"]
            place = folder.append(name, code, looks)
            if code in STORED:
                waiting.append(place)
            return
        place = folder.append(name, PLAIN, looks)
        if was >= 0:
            code = old.codes[was]
            same = folder.marks[WIDTH * place :] == old.marks[WIDTH * was : WIDTH * was + WIDTH]
            folder.codes[place] = code
            if same and code in STORED and not (self._limit and looks.st_size > self._limit):
                folder.set_oid(place, old.oid(was))
                return
            if code not in (PLAIN, DATABASE):
                folder.codes[place] = PLAIN
        self._look(folder, place, looks, waiting)

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
            except OSError:
                if folder.codes[place] != ABSENT:
                    folder.codes[place] = ABSENT
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
                    self._look(folder, place, looks, waiting)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        unchanged = folder.dump() == old.dump()
        return old if unchanged else folder

    def _rules_changed(
        self,
        rules: tuple[os.DirEntry[str], bool] | None,
        old: Folder | None,
        old_places: dict[bytes, int],
    ) -> bool:
        """Whether this directory's `.gitignore` came, went or changed."""
        was = old_places.get(_RULES, -1)
        if rules is None or rules[1]:
            return was >= 0
        if was < 0 or old is None:
            return old is not None
        with contextlib.suppress(OSError):
            looks = rules[0].stat(follow_symlinks=False)
            mark = array("q", (looks.st_ctime_ns, looks.st_mtime_ns, looks.st_size, looks.st_ino))
            return mark != old.marks[WIDTH * was : WIDTH * was + WIDTH]
        return True


def names_are_told(device: int) -> bool:
    """Whether a directory's times can be trusted on the filesystem with that device number."""
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            if line.split(b" ", 3)[2] == wanted:
                return line.partition(b" - ")[2].split(b" ", 1)[0].decode() in _TELLING
    return False
