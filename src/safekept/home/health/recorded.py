"""A home as a snapshot saw it, and what of it is not so any more: a look at each file, none is opened.

Only what the snapshot holds is looked at, so nothing has to be judged by rules again and what is new costs
nothing. A file whose status is what it was is what it was, unless it was so young when it was read that
it may have been written again within the same tick of the clock: then it counts as changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from safekept.core.entries import DatabaseFacts
from safekept.core.platform.descriptors import WALK
from safekept.core.records import dataclass

from .loss_rules import Counts

#: Name (and after a NUL the target of a link), mode, inode, size, time of the last write, of the last change.
Mark = tuple[str, int, int, int, int, int]
#: A directory's path among the entries, the marks of its files, and the names that cannot be trusted.
Directory = tuple[str, list[Mark], Iterable[str]]

_LOOK = WALK
#: What a database may have beside it, and what must not change there without it having changed.
_BESIDE = ("-wal", "-journal")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a snapshot saw."""

    roots: Mapping[str, str]  # prefix of entries -> absolute directory; "" is the home
    directories: Callable[[], Iterator[Directory]]
    census: Counts
    databases: Mapping[str, DatabaseFacts]
    owner: tuple[int, int] = (0, 0)  # of the home's own directory: user and group
    beside: Mapping[str, object] = field(default_factory=dict)  # of databases: what `beside` said

    @property
    def home(self) -> str:
        return self.roots[""]

    def full(self, path: str) -> str:
        """Where a path of the entries lies on disk."""
        for prefix, place in self.roots.items():
            if prefix and (path == prefix or path.startswith(prefix + "/")):
                return place + path[len(prefix) :]
        return os.path.join(self.home, path)


@dataclass(slots=True)
class Since:
    """What is not as it was recorded."""

    files: int = 0  # looked at
    changed: dict[str, os.stat_result] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of what changed or is gone: as recorded
    links: set[str] = field(default_factory=set)  # of what changed or is gone: was a link
    gone: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)  # directories that cannot be entered, and why
    per_directory: dict[str, int] = field(default_factory=dict)  # recorded files, where some are gone
    databases: set[str] = field(default_factory=set)  # changed, in themselves or by what lies beside them


def owner_of(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_uid, status.st_gid


def beside(full: str) -> object:
    """What the log and the journal of a database are like; equal where nothing was written to them."""
    found: list[tuple[int, int, int] | None] = []
    for suffix in _BESIDE:
        try:
            status = os.lstat(full + suffix)
        except OSError:
            found.append(None)
        else:
            # An empty log says what none says. The time of the last change says nothing: SQLite gives a log
            # that root opens the owner of its database, each time, our own reading included.
            found.append((status.st_ino, status.st_size, status.st_mtime_ns) if status.st_size else None)
    return tuple(found)


def since(recorded: Recorded) -> Since:
    """Look at all that was recorded. What cannot be looked at is reported, and never counts as gone."""
    found = Since()
    for path, marks, fresh in recorded.directories():
        found.files += len(marks)
        # A root may be a link, and is then looked at where it leads.
        full = os.path.join(recorded.roots[path], ".") if path in recorded.roots else recorded.full(path)
        _directory(found, full, path, marks, frozenset(fresh))
    for path in recorded.databases:
        if path in found.changed or beside(recorded.full(path)) != recorded.beside.get(path):
            found.databases.add(path)
    found.databases.update(path for path in found.gone if path in recorded.databases)
    return found


def _directory(found: Since, full: str, path: str, marks: list[Mark], fresh: frozenset[str]) -> None:
    prefix = path + "/" if path else ""
    try:
        # What lies behind a link that took the place of a directory is in no later snapshot: it is gone.
        directory = os.open(full, _LOOK)
    except FileNotFoundError:
        _gone(found, path, prefix, marks)
        return
    except NotADirectoryError:
        _gone(found, path, prefix, marks)
        return
    except OSError as error:
        found.closed[path] = error.strerror or str(error)
        return
    look = os.stat
    try:
        for mark in marks:
            name, mode, inode, size, written, touched = mark
            if "\0" in name:
                name = name.partition("\0")[0]
            try:
                now = look(name, dir_fd=directory, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                _gone(found, path, prefix, [mark])
                found.per_directory[path] = len(marks)
                continue
            except OSError as error:
                found.closed[path] = error.strerror or str(error)
                return
            if (
                now.st_ctime_ns == touched
                and now.st_mtime_ns == written
                and now.st_size == size
                and now.st_ino == inode
                and now.st_mode == mode
                and mark[0] not in fresh
            ):
                continue
            found.changed[prefix + name] = now
            found.sizes[prefix + name] = size
            if stat.S_ISLNK(mode):
                found.links.add(prefix + name)
    finally:
        os.close(directory)


def _gone(found: Since, path: str, prefix: str, marks: list[Mark]) -> None:
    found.per_directory[path] = len(marks)
    for mark in marks:
        name = prefix + mark[0].partition("\0")[0]
        found.gone.append(name)
        found.sizes[name] = mark[3]
        if stat.S_ISLNK(mark[1]):
            found.links.add(name)
