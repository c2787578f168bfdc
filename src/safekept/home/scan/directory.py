"""The names in one directory: which of them become entries, and what is said about the others.

Most files meet no rule and are no database; for them the loop does as little as it can. The rest is
judged by the selection, by what proves a tree to be rebuildable, and by what a file itself is: a
database, something beside one, an archive of ours, a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from safekept.core.archive_names import OWN_ENDINGS
from safekept.core.entries import DatabaseFacts, Entry, Kind, Outcome

from ..layout.rules import Count
from .databases import ORPHAN_REASON, SUFFIXES, is_sidecar, main_of, sidecars_of
from .frame import Frame, any_exists, is_really, undelivered
from .opener import HEADER, Opener, Opening
from .outside import Link
from .report import Setting, WalkReport
from .selection import KEPT_HERE, PathDecision

_NAME = attrgetter("name")
#: How the names of databases mostly end. Others are known by their first bytes when they are read.
_DATABASE_ENDS = (".db", ".sqlite", ".sqlite3")
_OLDER_ARCHIVE = "an older archive that safekept made"
#: The last three characters of names that deserve a second look: databases, sidecars, archives.
_TELLING_ENDS = frozenset(end[-3:] for end in (*SUFFIXES, *_DATABASE_ENDS, *OWN_ENDINGS))
_CLUSTER = "PG_VERSION"
_SPECIAL = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class DirectoryScan:
    """Lists the directories of one walk, one after the other."""

    def __init__(self, setting: Setting, report: WalkReport, opener: Opener, only: str = "") -> None:
        self.only = only  # one file of the root's, and nothing else
        self.opener, self.report = opener, report
        self.layout, self.judge, self.census, self.headers = setting[:4]
        self.avoid, self.covered, self.own_archive = setting.avoid, setting.covered, setting.own_archive
        self.avoid_inodes = frozenset(inode for _, inode in self.avoid)
        self.contains = {proven.contains: proven for proven in self.layout.proven if proven.contains}
        self.beside = {proven.name: proven for proven in self.layout.proven if proven.name}
        self.markers = frozenset({_CLUSTER, *self.contains})

    def entries(self, stack: list[Frame]) -> list[Entry]:
        """What the last directory of the stack holds; its subdirectories wait for their turn."""
        frame, given = stack[-1], list[Entry]()
        items = self._items(frame)
        marks = [item.name for item in items if item.name in self.markers]
        if marks and frame.path and self._is_rebuildable(frame, marks):
            return given
        judge, path, standing = self.judge, frame.path, frame.standing
        whole = standing.included or (frame.dropped is None and judge.wanted(standing))
        if whole:
            given.extend(undelivered(stack))
        usual = PathDecision(whole, standing)
        plain, report = self.opener.plain, self.report
        match, avoid = frame.facts.match, self.avoid_inodes
        includes = frame.includes.match if frame.includes.alive else None
        databases: set[str] = set()
        excluded: dict[str, PathDecision] = {}
        for item in items:
            name = item.name
            try:
                status = item.stat(follow_symlinks=False)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):  # else: vanished since the listing
                    report.unreadable(path + name, error)
                continue
            kind = status.st_mode & 0o170000
            found = match(name)
            wished = includes(name) if includes else ()
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
            decision = usual
            if found or wished:
                directory = kind == stat.S_IFDIR
                decision = judge.decide(wished, found, directory, standing, frame.dropped is not None)
                if decision.proof and not any_exists(report.full(path + name), decision.proof):
                    decision = PathDecision(whole, decision.standing)
            if status.st_ino in avoid and (status.st_dev, status.st_ino) in self.avoid:
                reason = KEPT_HERE if judge.within_profile(decision.standing) else ""
                decision = PathDecision(False, standing, reason, final=True)
            if kind == stat.S_IFDIR:
                frame.waiting.append((name, status, self._of_directory(name, decision, items)))
                continue
            if name[-3:] in _TELLING_ENDS:
                if main := main_of(name):
                    is_file = kind == stat.S_IFREG
                    if is_file and (main in databases or self._is_database(frame, main, decision, excluded)):
                        report.sidecars.add(size)
                        continue
                    decision = self._of_sidecar(frame, name, main, decision, excluded, items)
                if kind == stat.S_IFREG and self._is_own_archive(path + name, decision):
                    decision = PathDecision(False, decision.standing, _OLDER_ARCHIVE)
            if not decision.selected:
                if decision.reason:
                    excluded[name] = decision
                report.exclude_file(frame, path + name, size, decision)
                continue
            if kind == stat.S_IFREG:
                entry = self._file(frame, name, status, decision, databases)
            elif kind == stat.S_IFLNK:
                link = self._link(frame, name, status, decision.counts)
                if link is None:
                    continue
                entry = link
            else:
                what = _SPECIAL.get(kind, "neither a file nor a directory")
                report.say(path + name, Outcome.PASSED_OVER, f"{what}: there are no bytes to keep")
                continue
            if not whole:
                given.extend(undelivered(stack))
            given.append(entry)
        frame.waiting.reverse()
        report.progress(len(items))
        return given

    def _items(self, frame: Frame) -> list[os.DirEntry[str]]:
        if frame.descriptor < 0:
            return []  # could not be opened, and that was said
        try:
            with os.scandir(frame.descriptor) as listing:
                items = sorted(listing, key=_NAME)
        except OSError as error:
            self.report.unreadable(frame.path.rstrip("/") or ".", error)
            return []
        return [item for item in items if item.name == self.only] if self.only else items

    def _is_rebuildable(self, frame: Frame, marks: list[str]) -> bool:
        """Whether a directory proves to be a tree that is left out; then it is accounted for."""
        path, report = frame.path.rstrip("/"), self.report
        if _CLUSTER in marks and frame.dropped is None:
            reason = "a PostgreSQL database kept as files; if its server runs, this copy of it may not start"
            report.say(path, Outcome.NOTED, reason)
        if frame.standing.included or frame.dropped is not None:
            return False
        for mark in marks:
            proven = self.contains.get(mark)
            if proven is None or not is_really(proven, self.layout, path, frame.descriptor):
                continue
            frame.dropped = report.exclude_tree(path, proven.reason)
            if frame.includes.alive:
                return False
            frame.dropped.add_tree(report.full(path))
            return True
        return False

    def _of_directory(self, name: str, decision: PathDecision, items: list[os.DirEntry[str]]) -> PathDecision:
        """A directory that a file beside it proves to be rebuildable is left out (`node_modules`)."""
        proven = self.beside.get(name)
        if proven is None or not decision.selected or decision.standing.included:
            return decision
        if any(item.name == proven.beside for item in items):
            return decision._replace(selected=False, reason=proven.reason)
        return decision

    def _is_database(
        self, frame: Frame, main: str, decision: PathDecision, excluded: dict[str, PathDecision]
    ) -> bool:
        """Whether a file beside its sidecar is a database that its size and name do not tell."""
        if not decision.selected or main in excluded:
            return False
        return self.headers.read(frame.descriptor, main, self.report.full(frame.path + main)) == HEADER

    @staticmethod
    def _of_sidecar(
        frame: Frame,
        name: str,
        main: str,
        decision: PathDecision,
        excluded: dict[str, PathDecision],
        items: list[os.DirEntry[str]],
    ) -> PathDecision:
        """A sidecar is left out with its database; without a database it may do harm."""
        if main in excluded:
            return excluded[main]
        if (
            decision.selected
            and not any(item.name == main for item in items)
            and is_sidecar(frame.descriptor, name)
        ):
            return PathDecision(False, decision.standing, ORPHAN_REASON.format(main=main))
        return decision

    def _is_own_archive(self, path: str, decision: PathDecision) -> bool:
        return (
            path.endswith(OWN_ENDINGS)
            and decision.selected
            and not decision.standing.included
            and self.own_archive(self.report.full(path))
        )

    def _file(
        self, frame: Frame, name: str, status: os.stat_result, decision: PathDecision, databases: set[str]
    ) -> Entry:
        path, size = frame.path + name, status.st_size
        database = False
        if size and (not size & 511 or decision.database or name.endswith(_DATABASE_ENDS)):
            database = self.headers.read(frame.descriptor, name, self.report.full(path)) == HEADER
        opening: Opening = partial(self.opener.plain, path, status.st_ino)
        known = None
        if database or decision.database or decision.counts:
            opening, known = self._counted(path, status, decision, database)
        mode, mtime_ns = status.st_mode & 0o7777, status.st_mtime_ns
        entry = Entry(path, Kind.FILE, mode, mtime_ns, size, open=opening, status=status)
        if database:
            databases.add(name)
            entry.database, entry.beside = True, sidecars_of(frame.descriptor, name)
        entry.known = known
        return entry

    def _counted(
        self, path: str, status: os.stat_result, decision: PathDecision, database: bool
    ) -> tuple[Opening, Callable[[DatabaseFacts | None], bool]]:
        """How a file that is a database, should be one, or is counted is opened, or left unread."""
        profile, counts = self.layout.profile_of(path), decision.counts
        if counts:
            self.census.expect(profile, counts)
        if database:
            return (
                partial(self.opener.database, path, profile, counts),
                partial(self.opener.known_database, profile, counts),
            )
        return (
            partial(self.opener.noticed, path, status.st_ino, profile, counts, decision.database),
            partial(self.opener.known_plain, path, status.st_size, profile, counts, decision.database),
        )

    def _link(
        self, frame: Frame, name: str, status: os.stat_result, counts: tuple[Count, ...]
    ) -> Entry | None:
        path, report = frame.path + name, self.report
        try:
            target = os.readlink(name, dir_fd=frame.descriptor)
        except FileNotFoundError:
            report.say(path, Outcome.GONE, "vanished during the scan")
            return None
        except OSError:
            report.say(path, Outcome.UNREADABLE, "a link that became something else during the scan")
            return None
        link = Link(path, report.full(path), target)
        if link.within(self.covered):
            # What it leads to is stored under its own name, and not counted under this one.
            for count in counts:
                if count.kind != "files":
                    self.census.broken(self.layout.profile_of(path), count)
        else:
            report.add(link.remark(self.layout))
            report.not_counted(path, link.directory)
            for profile in link.names() if path == self.layout.profiles else ():
                report.not_counted(f"{path}/{profile}")
        mode = status.st_mode & 0o7777
        return Entry(path, Kind.SYMLINK, mode, status.st_mtime_ns, target=target, status=status)
