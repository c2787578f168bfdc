"""One look at what the visible half leaves out: ignored files, secrets, files over the limit.

Promise: every file that a pass hides is either kept in the hidden half or named with the reason why not.
Left out are trees that a marker proves to be remakeable, what a user's own settings leave out, and what
exceeds the budget, the largest first. A tree that was kept before stays kept, whatever marker is
put into it later. Nothing is opened but directories; no link is followed; memory and time follow the
budget and not the project: of a directory with half a million files no more than the budget is looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from array import array
from collections.abc import Collection, Iterator

from safekept.core.files.remakeable import RemakeableTrees

from .cache import View
from .content import sidecar_of
from .folder import CODE_OF
from .hidden_folders import WIDTH, HiddenFolder, HiddenFolders
from .hidden_left import (
    BUDGET,
    REMAKEABLE,
    TOO_LARGE,
    TOO_MANY,
    UNREADABLE,
    YOURS,
    HiddenLimits,
    bound_bytes,
    exposed,
    leave_largest,
    write_left,
)
from .hidden_look import HiddenLook
from .rules import Rules
from .walk import DEEPEST, DIRECTORY_FLAGS, directory_times_are_reliable

#: Reasons of the visible half for which a path belongs to the hidden half.
_DIRECTORIES = ("ignored", "secret", "excluded")
_ROWS = {CODE_OF[reason] for reason in ("oversize", "secret", "ignored", "changing")}
#: Longer than this a file that was just changed is not waited for, to be told from a later change.
_SETTLING = 0.025


class NotReady(Exception):
    """The look would take longer than the caller may wait."""


def hidden_names(view: View, rules: Rules) -> Iterator[tuple[bytes, bytes, bool, bool]]:
    """What a pass hides: directory, name, whether it is a directory, whether a user's setting says so."""
    for path, folder in view.folders():
        if folder.partial:  # it is hidden itself, and only some files of it were named
            continue
        for name, (reason, size) in folder.hidden.items():
            if reason in _DIRECTORIES and not rules.ours(name):
                by_user = reason == "excluded" and rules.by_user(path, name, size < 0)
                yield path, name, size < 0, by_user
        if folder.stored() != len(folder.names):
            for place, code in enumerate(folder.codes):
                if code in _ROWS:
                    yield path, folder.names[place], False, False


class HiddenWalk:
    """One look. `old` is what the last one saw; `root` is the project's directory, open."""

    def __init__(
        self, root: int, view: View, rules: Rules, limits: HiddenLimits, old: HiddenFolders | None
    ) -> None:
        self._root, self._view, self._rules, self._limits = root, view, rules, limits
        self._began = time.monotonic()
        self._trees: RemakeableTrees | None = None
        self._avoid = set(_identities(limits.avoid))
        fingerprint = repr((limits.bytes, limits.files, limits.largest, limits.remakeable)).encode()
        self._old = old if old is not None and old.rules == fingerprint else HiddenFolders()
        self.new = HiddenFolders(rules=fingerprint)
        status = os.fstat(root)
        self._device = status.st_dev
        self._telling = status.st_dev if directory_times_are_reliable(status.st_dev) else None
        self._fresh: list[tuple[bytes, int]] = []  # rows that may change again and look the same
        self._now = time.time_ns()

    def run(self) -> HiddenLook:
        """Raises NotReady, and OSError where the project itself is gone."""
        counts: dict[bytes, int] = {}
        loose: dict[bytes, list[bytes]] = {}
        for path, name, is_directory, by_user in hidden_names(self._view, self._rules):
            full = path + b"/" + name if path else name
            if by_user:
                self.new.left[full] = (YOURS, 0, 0)
            elif is_directory:
                found = self._below(full, path, name)
                if found is not None:
                    self.new.roots.append(full)
                    counts[full] = found
                    leave_largest(self.new, counts, self._limits.files)
            else:
                loose.setdefault(path, []).append(name)
        for path, names in loose.items():
            folder = self._files(path, names)
            if folder is not None and folder.names:
                self.new.folders[path] = folder
                counts[path] = len(folder.names)
                leave_largest(self.new, counts, self._limits.files)
        self.new.roots = [root for root in self.new.roots if root not in self.new.left]
        self._settle()
        bound_bytes(self.new, self._limits)
        self.new.id = self._identity()
        changed = self.new.id != self._old.id
        since = max((folder.ctime_ns for _, folder in self._view.folders()), default=0)
        return HiddenLook(self.new.id, self.new, self._began, max(since, self.new.newest()), changed)

    @property
    def touched(self) -> bool:
        """Whether anything looks different from what was last seen."""
        new, old = self.new.folders, self._old.folders
        return new.keys() != old.keys() or any(folder is not old[path] for path, folder in new.items())

    def _in_time(self) -> None:
        if self._limits.wait and time.monotonic() - self._began > self._limits.wait:
            raise NotReady

    # ── directories ────────────────────────────────────────────────────────────────────────────────

    def _below(self, full: bytes, path: bytes, name: bytes) -> int | None:
        """A directory that the visible half hides: how many files of it are kept; None: it is left out."""
        with contextlib.ExitStack() as opened:
            try:
                parent = _open_below(self._root, path)
                opened.callback(os.close, parent)
                folder = self._view.get(path)
                beside = {*folder.names, *folder.hidden, *folder.folders} if folder is not None else set()
                return self._enter(full, name, parent, beside, 0)
            except OSError as error:
                if not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self.new.left[full] = (UNREADABLE, 0, 0)
                return None

    def _enter(
        self, full: bytes, name: bytes, parent: int, beside: Collection[bytes], depth: int
    ) -> int | None:
        self._in_time()
        if name.lower() == b".git":
            self.new.left[full] = ("git", 0, 0)
            return None
        was = self._old.left.get(full)
        if was is not None and was[0] in (BUDGET, TOO_MANY) and self._limits.wait:
            self.new.left[full] = was  # until a look without a deadline counts again
            return None
        if depth >= DEEPEST:
            self.new.left[full] = ("limit", 0, 0)
            return None
        child = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            status = os.fstat(child)
            if (status.st_dev, status.st_ino) in self._avoid:
                return None
            if status.st_dev != self._device and not os.listdir(child):
                return None  # a sandbox laid it over a name; see `walk.py`
            if full not in self._old.folders and (reason := self._remakeable(name, beside, child)):
                self.new.left[full] = (f"{REMAKEABLE}: {reason}", 0, 0)
                return None
            return self._visit(full, child, status, depth)
        finally:
            os.close(child)

    def _remakeable(self, name: bytes, beside: Collection[bytes], child: int) -> str:
        if self._trees is None:
            self._trees = RemakeableTrees(self._limits.remakeable)
        return self._trees.by_name(name, beside) or self._trees.by_content(child)

    def _visit(self, path: bytes, directory: int, status: os.stat_result, depth: int) -> int | None:
        old = self._old.folders.get(path)
        folder = None
        if (
            old is not None
            and self._telling == status.st_dev
            and (old.inode, old.mtime_ns, old.ctime_ns)
            == (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        ):
            folder = self._unlisted(path, directory, old)
        if folder is None:
            folder = self._listed(path, directory, status)
        if len(folder.names) > self._limits.files:
            self.new.left[path] = (TOO_MANY, len(folder.names), folder.size)
            return None
        self.new.folders[path] = folder
        counts = {path: len(folder.names)}
        beside: Collection[bytes] | None = None
        for name in folder.folders:
            below = path + b"/" + name
            if beside is None:
                beside = {*folder.names, *folder.folders}
            try:
                found = self._enter(below, name, directory, beside, depth + 1)
            except OSError as error:
                if not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self.new.left[below] = (UNREADABLE, 0, 0)
                continue
            if found:
                counts[below] = found
                leave_largest(self.new, counts, self._limits.files)
                if path not in self.new.folders:
                    return None
        return sum(counts.values())

    def _unlisted(self, path: bytes, directory: int, old: HiddenFolder) -> HiddenFolder | None:
        """A directory with the names it had; None where one of them is gone after all."""
        self._in_time()
        lstat = os.lstat
        try:
            looks = [lstat(name, dir_fd=directory) for name in old.names]
        except OSError:
            return None
        if array("q", [one.st_ctime_ns for one in looks]) == old.marks[0::WIDTH]:
            return old
        folder = HiddenFolder(old.inode, old.mtime_ns, old.ctime_ns, old.mode, folders=list(old.folders))
        for name, status in zip(old.names, looks, strict=True):
            self._row(path, folder, name, status)
        return folder

    def _listed(self, path: bytes, directory: int, status: os.stat_result) -> HiddenFolder:
        folder = HiddenFolder(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_mode & 0o7777)
        if max(status.st_mtime_ns, status.st_ctime_ns) > self._now - 2_100_000_000:
            folder.inode = -1  # its names may change again and its time not: listed again the next time
        most = self._limits.files
        with os.scandir(directory) as listing:
            entries = []
            for number, entry in enumerate(listing):
                entries.append(entry)
                if number > 2 * most:
                    break  # far beyond the budget, whatever else is there
                if not number % 1000:
                    self._in_time()
        present = {os.fsencode(entry.name) for entry in entries}
        for entry in sorted(entries, key=lambda one: one.name):
            name = os.fsencode(entry.name)
            if self._rules.ours(name) or _is_index(name, present):
                continue
            if entry.is_dir(follow_symlinks=False):
                folder.folders.append(name)
                continue
            with self._named(path, name):
                self._row(path, folder, name, entry.stat(follow_symlinks=False))
        return folder

    @contextlib.contextmanager
    def _named(self, path: bytes, name: bytes) -> Iterator[None]:
        """What is gone since it was listed is no loss; what cannot be looked at is one."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            self.new.left[path + b"/" + name if path else name] = (UNREADABLE, 0, 0)

    def _files(self, path: bytes, names: list[bytes]) -> HiddenFolder | None:
        """Hidden files of a directory that is visible."""
        self._in_time()
        directory = -1
        for name in names[:1]:
            with self._named(path, name):
                directory = _open_below(self._root, path)
        if directory < 0:
            return None
        try:
            folder = HiddenFolder()
            for name in sorted(names):
                if not _is_index(name, names):
                    with self._named(path, name):
                        self._row(path, folder, name, os.lstat(name, dir_fd=directory))
            old = self._old.folders.get(path)
            return old if old is not None and old.row() == folder.row() else folder
        finally:
            os.close(directory)

    def _row(self, path: bytes, folder: HiddenFolder, name: bytes, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            if status.st_ctime_ns > self._now - int(_SETTLING * 1e9):
                self._fresh.append((path, len(folder.names)))
            folder.add(name, status)
        elif not stat.S_ISDIR(status.st_mode):
            self.new.left[path + b"/" + name if path else name] = ("special", 0, 0)

    # ── what it comes to ───────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        """A file that was changed a moment ago is looked at again when a later change would show."""
        if not self._fresh:
            return
        time.sleep(_SETTLING)
        for path, place in self._fresh:
            folder = self.new.folders.get(path)
            if folder is None or place >= len(folder.names):
                continue
            with contextlib.suppress(OSError):
                directory = _open_below(self._root, path)
                try:
                    status = os.lstat(folder.names[place], dir_fd=directory)
                finally:
                    os.close(directory)
                folder.modes[place] = status.st_mode
                folder.marks[WIDTH * place] = status.st_ctime_ns
                folder.marks[WIDTH * place + 1] = status.st_mtime_ns
                folder.marks[WIDTH * place + 2] = status.st_size

    def _identity(self) -> str:
        without: dict[bytes, set[bytes]] = {}
        for path, (reason, _, _) in self.new.left.items():
            if reason in (TOO_LARGE, BUDGET):
                parent, _, name = path.rpartition(b"/")
                without.setdefault(parent, set()).add(name)
        if self.new.left == self._old.left and not self.touched:
            return self._old.id
        found = hashlib.blake2b(digest_size=12)
        for path in sorted(self.new.folders):
            found.update(self.new.folders[path].digest(path, without.get(path, set())))
        # What comes under the budget, or over it, is another state, though nothing that is kept changed.
        for one in sorted(exposed(self.new.left), key=lambda one: one.path):
            found.update(os.fsencode(f"{one.reason}\0{one.path}\0"))
        return found.hexdigest()


def _is_index(name: bytes, present: Collection[bytes]) -> bool:
    """Whether it is the index of a database's log, which changes whenever the database is read."""
    return name.endswith(b"-shm") and sidecar_of(name) in present


def _open_below(root: int, path: bytes) -> int:
    """A directory of the project, open; no link is followed on the way. Raises OSError."""
    directory = os.dup(root)
    for part in path.split(b"/") if path else ():
        try:
            below = os.open(part, DIRECTORY_FLAGS, dir_fd=directory)
        finally:
            os.close(directory)
        directory = below
    return directory


def _identities(paths: Collection[str]) -> Iterator[tuple[int, int]]:
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            yield status.st_dev, status.st_ino


def look_at_hidden(
    root: int, directory: str, view: View, rules: Rules, limits: HiddenLimits
) -> HiddenLook | None:
    """What is hidden in a project now; None where that takes longer than may be waited.

    `view` is a full pass that was just made, `directory` ours for the project.
    """
    old = HiddenFolders.load(directory)
    walk = HiddenWalk(root, view, rules, limits, old)
    try:
        look = walk.run()
    except NotReady:
        return None
    if look.changed or walk.touched or old is None or look.left != old.left:
        look.folders.save(directory)
        write_left(directory, look.exposed)
    return look
