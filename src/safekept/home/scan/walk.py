"""The one scanner: a live directory tree becomes entries, and everything else becomes a remark.

It goes down by directory descriptors and never follows a link, so nothing outside the tree can be
reached, also not by someone who swaps a directory for a link meanwhile. Parents come before
children, names are sorted within a directory. What a rule leaves out is reported once, at its top,
with a count; sockets, pipes and devices have no bytes and are passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from safekept.core.entries import DatabaseFacts, Entry, Kind, Outcome, Remark
from safekept.core.events import Event, Listener

from ..census import Census
from ..layout.layout import Layout
from ..layout.rules import Count
from .databases import ORPHAN_REASON, SUFFIXES, HeaderReader, is_sidecar, main_of, sidecars_of
from .frame import Frame, Tally, close, directory_entry, holds, owed, stands
from .opener import HEADER, Opener, Opening
from .outside import Link
from .selection import KEPT_HERE, Judge, Standing, Verdict

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = attrgetter("name")
#: So many directories stay open on the way down; those above them are opened again when needed.
_OPEN_DIRECTORIES = 64
#: How the names of databases mostly end. Others are known by their first bytes when they are read.
_DATABASE_ENDS = (".db", ".sqlite", ".sqlite3")
_ARCHIVE_ENDS = (".zip", ".tar.zst", ".zip.age", ".tar.zst.age", ".zip.gpg", ".tar.zst.gpg")
_OLDER_ARCHIVE = "an older archive that safekept made"
#: The last three characters of names that deserve a second look: databases, sidecars, archives.
_TELLING_ENDS = frozenset(end[-3:] for end in (*SUFFIXES, *_DATABASE_ENDS, *_ARCHIVE_ENDS))
_CLUSTER = "PG_VERSION"
_SPECIAL = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Setting(NamedTuple):
    """What all walks of one pass share."""

    layout: Layout
    judge: Judge
    census: Census
    headers: HeaderReader
    avoid: frozenset[tuple[int, int]]  # device and inode of what must never be inside
    covered: tuple[str, ...]  # the places that this pass takes, links resolved
    own_archive: Callable[[str], bool]  # whether a file is an archive of our own making
    remarks: list[Remark]
    listener: Listener


class Walk:
    """One pass over one tree."""

    def __init__(self, root: str, prefix: str, opener: Opener, setting: Setting, only: str = "") -> None:
        self.root = root
        self.prefix = prefix  # "" or "_external/.honcho/"
        self.only = only  # one file of the root's, and nothing else
        self.opener = opener
        self.layout, self.judge, self.census, self.headers = setting[:4]
        self.avoid, self.covered, self.own_archive, self.remarks, self.listener = setting[4:]
        self.avoid_inodes = frozenset(inode for _, inode in self.avoid)
        self.sidecars = Tally()
        self.dropped: list[Tally] = []
        self.seen = 0
        self.contains = {proven.contains: proven for proven in self.layout.proven if proven.contains}
        self.beside = {proven.name: proven for proven in self.layout.proven if proven.name}
        self.markers = frozenset({_CLUSTER, *self.contains})

    def groups(self) -> Iterator[list[Entry]]:
        """Every selected entry below the root, one directory after the other.

        A group is what one directory holds beside its directories, and in front of it the directories
        that lead there and were not given out yet; the root's own only where it has a prefix.
        """
        stack = self._start()
        try:
            if stack:
                yield self._list(stack)
            while stack:
                frame = stack[-1]
                if frame.waiting:
                    below = self._enter(stack, *frame.waiting.pop())
                    if below is not None:
                        stack.append(below)
                        yield self._list(stack)
                else:
                    stack.pop()
                    close(frame)
        finally:
            for frame in stack:
                close(frame)
        self.remarks.extend(tally.remark() for tally in self.dropped)

    def _start(self) -> list[Frame]:
        facts, wishes = self.judge.facts.root, self.judge.wishes.root
        for name in self.prefix.split("/")[:-1]:
            facts, wishes = facts.below(name), wishes.below(name)
        try:
            # The root may be a link or a mount point: whoever named it meant what is there.
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._unreadable(self.prefix.rstrip("/") or ".", error)
            return []
        status = os.fstat(descriptor)
        frame = Frame(
            descriptor, self.prefix, facts, wishes, Standing(in_profile=bool(self.prefix)), status.st_dev
        )
        if self.prefix and not self.only:
            frame.entry = directory_entry(self.prefix.rstrip("/"), status)
        return [frame]

    def _enter(self, stack: list[Frame], name: str, status: os.stat_result, verdict: Verdict) -> Frame | None:
        """Go into a directory that a listing found, or account for it from outside."""
        parent = stack[-1]
        path = parent.path + name
        wishes = parent.wishes.below(name) if parent.wishes.alive else parent.wishes
        dropped = None if verdict.standing.included else parent.dropped
        if verdict.reason:
            if verdict.own_wish:
                self._blind(path)
            dropped = self._drop(path, verdict.reason)
        if verdict.final or (not verdict.selected and not wishes.alive):
            if dropped is not None:
                dropped.add_tree(self._full(path))
            return None
        entry = directory_entry(path, status)
        facts = parent.facts.below(name)
        frame = Frame(-1, path + "/", facts, wishes, verdict.standing, status.st_dev, dropped, entry)
        try:
            frame.descriptor = self._open(stack, name)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                self._say(path, Outcome.GONE, "vanished during the scan")
                return None
            if dropped is None:
                self._unreadable(path, error)
            return frame
        if status.st_dev != parent.device and verdict.selected:
            self._say(path, Outcome.NOTED, "another filesystem is mounted here; what is on it is included")
        if verdict.selected and not self.prefix and parent.path == f"{self.layout.profiles}/":
            self.census.profile(path)
        return frame

    def _open(self, stack: list[Frame], name: str) -> int:
        parent = stack[-1]
        if len(stack) >= _OPEN_DIRECTORIES:
            close(stack[-_OPEN_DIRECTORIES])
        if parent.descriptor < 0:
            parent.descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for above in parent.path[len(self.prefix) :].split("/")[:-1]:
                below = os.open(above, _DIRECTORY, dir_fd=parent.descriptor)
                os.close(parent.descriptor)
                parent.descriptor = below
        return os.open(name, _DIRECTORY, dir_fd=parent.descriptor)

    def _list(self, stack: list[Frame]) -> list[Entry]:
        """What one directory holds; its subdirectories wait for their turn."""
        frame, given = stack[-1], list[Entry]()
        items = self._items(frame)
        marks = [item.name for item in items if item.name in self.markers]
        if marks and frame.path and self._is_proven(frame, marks):
            return given
        judge, path, standing = self.judge, frame.path, frame.standing
        whole = standing.included or (frame.dropped is None and judge.wanted(standing))
        if whole:
            given.extend(owed(stack))
        usual = Verdict(whole, standing)
        plain = self.opener.plain
        match, avoid, headers = frame.facts.match, self.avoid_inodes, self.headers
        wishes = frame.wishes.match if frame.wishes.alive else None
        databases: set[str] = set()
        fallen: dict[str, Verdict] = {}
        for item in items:
            name = item.name
            try:
                status = item.stat(follow_symlinks=False)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):  # else: vanished since the listing
                    self._unreadable(path + name, error)
                continue
            kind = status.st_mode & 0o170000
            found = match(name)
            wished = wishes(name) if wishes else ()
            size = status.st_size
            if (  # most files: no rule, no wish, no database, no sidecar
                kind == stat.S_IFREG
                and whole
                and not (found or wished)
                and size & 511
                and status.st_ino not in avoid
                and name[-3:] not in _TELLING_ENDS
            ):
                full = path + name
                opening: Opening = partial(plain, full, status.st_ino)
                mode, mtime_ns = status.st_mode & 0o7777, status.st_mtime_ns
                given.append(Entry(full, Kind.FILE, mode, mtime_ns, size, "", "", False, opening, status))
                continue
            verdict = usual
            if found or wished:
                directory = kind == stat.S_IFDIR
                verdict = judge.decide(wished, found, directory, standing, frame.dropped is not None)
                if verdict.proof and not stands(self._full(path + name), verdict.proof):
                    verdict = Verdict(whole, verdict.standing)
            if status.st_ino in avoid and (status.st_dev, status.st_ino) in self.avoid:
                reason = KEPT_HERE if judge.within_profile(verdict.standing) else ""
                verdict = Verdict(False, standing, reason, final=True)
            if kind == stat.S_IFDIR:
                if name in self.beside and verdict.selected and not verdict.standing.included:
                    proven = self.beside[name]
                    if any(item.name == proven.beside for item in items):
                        verdict = verdict._replace(selected=False, reason=proven.reason)
                frame.waiting.append((name, status, verdict))
                continue
            if name[-3:] in _TELLING_ENDS and (main := main_of(name)):
                if kind == stat.S_IFREG and (main in databases or self._is_cut(frame, main, verdict, fallen)):
                    self.sidecars.add(size)
                    continue
                verdict = self._sidecar(frame, name, main, verdict, fallen, items)
            if (
                kind == stat.S_IFREG
                and name.endswith(_ARCHIVE_ENDS)
                and verdict.selected
                and not verdict.standing.included
                and self.own_archive(self._full(path + name))
            ):
                verdict = Verdict(False, verdict.standing, _OLDER_ARCHIVE)
            if not verdict.selected:
                if verdict.reason:
                    fallen[name] = verdict
                self._left_out(frame, path + name, size, verdict)
                continue
            if kind == stat.S_IFREG:
                opening, known = partial(plain, path + name, status.st_ino), None
                database = False
                if size and (not size & 511 or verdict.database or name.endswith(_DATABASE_ENDS)):
                    database = headers.read(frame.descriptor, name, self._full(path + name)) == HEADER
                    if database:
                        databases.add(name)
                if database or verdict.database or verdict.counts:
                    opening, known = self._noticed(path + name, status.st_ino, verdict, database)
                mode, mtime_ns = status.st_mode & 0o7777, status.st_mtime_ns
                entry = Entry(path + name, Kind.FILE, mode, mtime_ns, size, open=opening, status=status)
                if database:
                    entry.database, entry.beside = True, sidecars_of(frame.descriptor, name)
                entry.known = known
            elif kind == stat.S_IFLNK:
                link = self._link(frame, name, status, verdict.counts)
                if link is None:
                    continue
                entry = link
            else:
                what = _SPECIAL.get(kind, "neither a file nor a directory")
                self._say(path + name, Outcome.PASSED_OVER, f"{what}: there are no bytes to keep")
                continue
            if not whole:
                given.extend(owed(stack))
            given.append(entry)
        frame.waiting.reverse()
        self._progress(len(items))
        return given

    def _items(self, frame: Frame) -> list[os.DirEntry[str]]:
        if frame.descriptor < 0:
            return []  # could not be opened, and that was said
        try:
            with os.scandir(frame.descriptor) as listing:
                items = sorted(listing, key=_NAME)
        except OSError as error:
            self._unreadable(frame.path.rstrip("/") or ".", error)
            return []
        return [item for item in items if item.name == self.only] if self.only else items

    def _is_proven(self, frame: Frame, marks: list[str]) -> bool:
        """Whether a directory proves to be a tree that is left out; then it is accounted for."""
        if _CLUSTER in marks and frame.dropped is None:
            reason = "a PostgreSQL database kept as files; if its server runs, this copy of it may not start"
            self._say(frame.path.rstrip("/"), Outcome.NOTED, reason)
        if frame.standing.included or frame.dropped is not None:
            return False
        path = frame.path.rstrip("/")
        for mark in marks:
            proven = self.contains.get(mark)
            if proven is None or not holds(proven, self.layout, path, frame.descriptor):
                continue
            frame.dropped = self._drop(path, proven.reason)
            if frame.wishes.alive:
                return False
            frame.dropped.add_tree(self._full(path))
            return True
        return False

    def _is_cut(self, frame: Frame, main: str, verdict: Verdict, fallen: dict[str, Verdict]) -> bool:
        """Whether a file beside its sidecar is a database that its size and name do not tell."""
        if not verdict.selected or main in fallen:
            return False
        return self.headers.read(frame.descriptor, main, self._full(frame.path + main)) == HEADER

    @staticmethod
    def _sidecar(
        frame: Frame,
        name: str,
        main: str,
        verdict: Verdict,
        fallen: dict[str, Verdict],
        items: list[os.DirEntry[str]],
    ) -> Verdict:
        """A sidecar shares the fate of its database; without one it may do harm."""
        if main in fallen:
            return fallen[main]
        if (
            verdict.selected
            and not any(item.name == main for item in items)
            and is_sidecar(frame.descriptor, name)
        ):
            return Verdict(False, verdict.standing, ORPHAN_REASON.format(main=main))
        return verdict

    def _left_out(self, frame: Frame, path: str, size: int, verdict: Verdict) -> None:
        if verdict.reason:
            self._say(path, Outcome.EXCLUDED, verdict.reason, size)
            if verdict.own_wish:
                self._blind(path, directory=False)
        elif frame.dropped is not None:
            frame.dropped.add(size)

    def _noticed(
        self, path: str, inode: int, verdict: Verdict, database: bool
    ) -> tuple[Opening, Callable[[DatabaseFacts | None], bool]]:
        """How a file that is a database, should be one, or is counted is opened, or left unread."""
        profile, counts = self.layout.profile_of(path), verdict.counts
        if counts:
            self.census.expect(profile, counts)
        if database:
            return (
                partial(self.opener.database, path, profile, counts),
                partial(self.opener.known_database, profile, counts),
            )
        return (
            partial(self.opener.noticed, path, inode, profile, counts, verdict.database),
            partial(self.opener.known_plain, profile, counts, verdict.database),
        )

    def _link(
        self, frame: Frame, name: str, status: os.stat_result, counts: tuple[Count, ...]
    ) -> Entry | None:
        try:
            target = os.readlink(name, dir_fd=frame.descriptor)
        except OSError:
            return None  # vanished, or became something else: the next scan will see it
        path = frame.path + name
        link = Link(path, self._full(path), target)
        if link.within(self.covered):
            # What it leads to is stored under its own name, and not counted under this one.
            for count in counts:
                if count.kind != "files":
                    self.census.broken(self.layout.profile_of(path), count)
        else:
            self.remarks.append(link.remark(self.layout))
            self._blind(path, link.directory)
            for profile in link.names() if path == self.layout.profiles else ():
                self._blind(f"{path}/{profile}")
        mode = status.st_mode & 0o7777
        return Entry(path, Kind.SYMLINK, mode, status.st_mtime_ns, target=target, status=status)

    def _drop(self, path: str, reason: str) -> Tally:
        tally = Tally(path, reason)
        self.dropped.append(tally)
        return tally

    def _blind(self, path: str, directory: bool = True) -> None:
        """What the census would count here is not seen, so it is not known."""
        if path == self.layout.profiles:
            return  # what the home itself holds is seen
        for count, matcher in self.judge.count_matchers:
            node, names = matcher.root, path.split("/")
            for name in names[:-1]:
                node = node.below(name)
            if node.match(names[-1]) or (directory and node.below(names[-1]).alive):
                self.census.broken(self.layout.profile_of(path), count)

    def _unreadable(self, path: str, error: OSError) -> None:
        self._say(path, Outcome.UNREADABLE, f"cannot be read: {error.strerror or error}")
        self._blind(path)

    def _say(self, path: str, outcome: Outcome, reason: str, size: int = 0) -> None:
        self.remarks.append(Remark(path, outcome, reason, 1, size))

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path[len(self.prefix) :])

    def _progress(self, count: int) -> None:
        before, self.seen = self.seen, self.seen + count
        if before // 1000 != self.seen // 1000:
            self.listener(Event("scan", self.seen, unit="files"))
