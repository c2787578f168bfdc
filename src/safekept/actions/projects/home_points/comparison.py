"""A home point beside the home as it is: what differs in the paths it is about.

Whatever lies in those paths now and was not there then would go; but only where the point can speak for
it: below a path that was absent, or in a directory that it holds. Databases are never touched: they belong
to a program that may be writing them, and regular snapshots hold them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from safekept.core.entries import Entry, Kind, Outcome, Remark
from safekept.core.files.small import read_start
from safekept.core.records import dataclass
from safekept.core.sqlite import HEADER, SIDECARS, is_database
from safekept.home.landing import OtherSpellings, is_area
from safekept.home.layout import Layout
from safekept.vault.read import HomeSource

from ...base.own_places import within
from .point import HomePoint

# The files of a home as they are, looked at without following a link: what a home point is compared
# with.


class LiveFiles:
    """One look at a home; what lies behind a link is not there."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._links: dict[str, bool] = {"": False}

    def full(self, path: str) -> str:
        return os.path.join(self._home, path)

    def look(self, path: str) -> os.stat_result | None:
        """What is at a path, or nothing."""
        if self._behind_link(os.path.dirname(path)):
            return None
        try:
            return os.lstat(self.full(path))
        except OSError:
            return None

    def below(self, paths: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Everything that lies at or in these paths, directories before what is in them."""
        waiting = list(reversed(paths))
        while waiting:
            path = waiting.pop()
            facts = self.look(path)
            if facts is None:
                continue
            yield path, facts
            if stat.S_ISDIR(facts.st_mode):
                try:
                    names = sorted(os.listdir(self.full(path)), reverse=True)
                except OSError:
                    continue
                waiting += [f"{path}/{name}" for name in names]

    def same(self, entry: Entry, facts: os.stat_result) -> bool:
        """Whether a file has the stored bytes and mode; equal size and time will do for the bytes."""
        if facts.st_size != entry.size or (facts.st_mode ^ entry.mode) & 0o777:
            return False
        if facts.st_mtime_ns == entry.mtime_ns:
            return True
        if entry.equals is None:
            return False
        try:
            descriptor = os.open(self.full(entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return bool(entry.equals(descriptor))
        finally:
            os.close(descriptor)

    def holds_database(self, path: str, facts: os.stat_result, whole: bool = True) -> bool:
        """Whether it is a SQLite database, a file beside one, or with `whole` a directory with one in it."""
        if stat.S_ISDIR(facts.st_mode):
            inside = self.below((path,)) if whole else ()
            return any(self._is_database(one, found) for one, found in inside)
        return self._is_database(path, facts)

    def has_log(self, path: str) -> bool:
        """Whether a database has something in its log: then its own size and time say little."""
        log = self.look(path + "-wal")
        return log is not None and log.st_size > 0

    def _is_database(self, path: str, facts: os.stat_result) -> bool:
        """By its header, where its size is one that a database can have."""
        for suffix in SIDECARS:
            if path.endswith(suffix) and self.look(path.removesuffix(suffix)) is not None:
                return True
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < 512 or facts.st_size % 512:
            return False
        try:
            return is_database(read_start(self.full(path), len(HEADER)))
        except OSError:
            return False

    def _behind_link(self, directory: str) -> bool:
        if directory not in self._links:
            above = self._behind_link(os.path.dirname(directory))
            self._links[directory] = above or os.path.islink(self.full(directory))
        return self._links[directory]


_DATABASE = "a database: it stays as it is; regular snapshots hold it"
_NOT_HELD = frozenset({"unreadable", "locked", "changed", "damaged", "outside", "excluded", "gone"})


@dataclass(slots=True)
class PointPart:
    """A Source: what a point holds of some paths, and the directories above them; no database."""

    wanted: tuple[str, ...]
    entries: list[Entry] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    ordered: bool = False

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @property
    def only(self) -> tuple[str, ...]:
        """Those of the wanted paths that it has something of."""
        return tuple(one for one in self.wanted if any(within(entry.path, one) for entry in self.entries))


@dataclass(slots=True)
class PointState:
    """What going back to a point would do to the home as it is."""

    point: HomePoint
    part: PointPart
    create: list[str] = field(default_factory=list)
    change: list[str] = field(default_factory=list)  # bytes, kind or mode differ
    remove: list[str] = field(default_factory=list)
    remove_directories: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)  # what stays although it differs, and why
    touched: list[str] = field(default_factory=list)  # directories whose time alone differs

    @property
    def differs(self) -> bool:
        return bool(self.create or self.change or self.remove)

    @property
    def paths(self) -> list[str]:
        return sorted((*self.create, *self.change, *self.remove))


def compare(
    point: HomePoint,
    source: HomeSource,
    layout: Layout,
    home: str,
    wanted: Sequence[str] = (),
    manifest: dict[str, Any] | None = None,
) -> PointState:
    """Look at the named paths of a point, or at some of what lies in them."""
    wanted = tuple(wanted or point.paths)
    state, live = PointState(point, PointPart(wanted)), LiveFiles(home)
    above: list[Entry] = []
    stored: dict[str, Entry] = {}
    for entry in source:
        if any(within(entry.path, one) for one in wanted):
            stored[entry.path] = entry
        elif entry.kind is Kind.DIRECTORY and any(one.startswith(entry.path + "/") for one in wanted):
            above.append(entry)
    stay = _staying(state, stored, live)
    going_back = [entry for path, entry in stored.items() if not any(within(path, one) for one in stay)]
    for entry in going_back:
        _compare_stored(state, entry, live)
    state.part.entries = [*above, *going_back] if going_back else []
    state.part.remarks = [one for one in source.remarks if one.outcome is Outcome.UNREADABLE]
    _compare_live(state, stored, live, layout, _not_held(manifest), stay)
    for path in point.missing:  # the landing takes away those that end up empty
        facts = live.look(path)
        concerned = any(one.startswith(path + "/") for one in wanted)
        if concerned and facts is not None and stat.S_ISDIR(facts.st_mode):
            state.remove_directories.append(path)
    return state


def _staying(state: PointState, stored: Mapping[str, Entry], live: LiveFiles) -> list[str]:
    """Stored paths that are not gone back to, because a database is there now."""
    found = []
    for path, entry in stored.items():
        facts = live.look(path)
        if facts is None:
            continue
        if entry.database:
            found.append(path)
            if (facts.st_size, facts.st_mtime_ns) != (entry.size, entry.mtime_ns) or live.has_log(path):
                state.left.append((path, _DATABASE))
        elif live.holds_database(path, facts, whole=entry.kind is not Kind.DIRECTORY):
            found.append(path)
            state.left.append((path, "a database is here now, and stays; regular snapshots hold it"))
    return found


def _compare_stored(state: PointState, entry: Entry, live: LiveFiles) -> None:
    facts = live.look(entry.path)
    directory = entry.kind is Kind.DIRECTORY
    if facts is None:
        (state.touched if directory else state.create).append(entry.path)
        return
    kind = stat.S_IFMT(facts.st_mode)
    if directory and kind == stat.S_IFDIR:
        if stat.S_IMODE(facts.st_mode) & 0o777 != entry.mode & 0o777:
            state.change.append(entry.path)
        elif facts.st_mtime_ns != entry.mtime_ns:
            state.touched.append(entry.path)
    elif directory and kind == stat.S_IFLNK:
        state.remove.append(entry.path)  # the landing writes through no link: it goes first
    elif directory:
        state.change.append(entry.path)
    elif entry.kind is Kind.SYMLINK:
        if kind != stat.S_IFLNK or os.readlink(live.full(entry.path)) != entry.target:
            state.change.append(entry.path)
    elif kind != stat.S_IFREG or not live.same(entry, facts):
        state.change.append(entry.path)


def _compare_live(
    state: PointState,
    stored: Mapping[str, Entry],
    live: LiveFiles,
    layout: Layout,
    not_held: set[str],
    stay: Sequence[str],
) -> None:
    """What lies there now and did not then."""
    directories = {path for path, entry in stored.items() if entry.kind is Kind.DIRECTORY}
    spellings = OtherSpellings(live.full(""), stored)
    not_held |= {one.path for one in state.part.remarks}
    for path, facts in live.below(state.part.wanted):
        if path in stored or any(within(path, one) for one in stay) or is_area(path):
            continue
        if spellings.of(path):
            continue  # what is stored goes into this very file
        absent = any(within(path, one) for one in state.point.absent)
        if not absent and not any(above in directories for above in _above(path)):
            continue  # the point knows no directory around it: it says nothing of what is there
        if any(within(path, one) for one in not_held):
            state.left.append((path, "the point could not hold what was here"))
        elif stat.S_ISDIR(facts.st_mode):
            state.remove_directories.append(path)
        elif layout.machine_bound(path):
            state.left.append((path, "bound to this machine"))
        elif not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
            state.left.append((path, "no file with bytes: a socket, pipe or device"))
        elif live.holds_database(path, facts):
            state.left.append((path, _DATABASE))
        else:
            state.remove.append(path)


def _above(path: str) -> Iterator[str]:
    while path := os.path.dirname(path):
        yield path


def _not_held(manifest: dict[str, Any] | None) -> set[str]:
    remarks = (manifest or {}).get("remarks")
    return {
        str(one["path"])
        for one in (remarks if isinstance(remarks, list) else [])
        if isinstance(one, dict) and one.get("outcome") in _NOT_HELD and one.get("path")
    }
