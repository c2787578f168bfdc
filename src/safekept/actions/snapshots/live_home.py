"""The live home as the other side of a comparison: what a snapshot of the same scope would find now."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable

from safekept.core.entries import Content, Entry, EntryLost, Kind
from safekept.core.files import write_all
from safekept.core.files.small import read_start
from safekept.core.sqlite import SIDECARS, CaptureOptions, is_database
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.fold import fold
from safekept.core.sqlite.format import connect
from safekept.core.sqlite.lean import LeanRequest
from safekept.home.scan import Selection, scan
from safekept.vault.format import Node
from safekept.vault.read import HomeSource, content_of
from safekept.vault.repo import Repository

from ..base.context import UserContext
from .contents import Opened, not_readable

# Copies of databases for looking into: out of a snapshot or out of the live home, and what they count. A
# copy is private and ours, so it may be opened in any way; the live database is captured as a backup
# does it, and never touched otherwise.


def stored_copy(source: HomeSource, path: str, node: Node, target: str) -> str:
    """A stored database as one file; a log that another tool stored beside it is folded in."""
    try:
        _write(source.content(path, node), target)
        for suffix in SIDECARS:
            beside = source.node(path + suffix)
            if beside is not None and beside.type == "file" and suffix != "-shm":
                _write(source.content(path + suffix, beside), target + suffix)
    except EntryLost as lost:
        raise not_readable(lost.remark.path, source, lost.remark.reason) from lost
    fold(target)
    return target


def live_copy(full: str, name: str, target: str, deadline: float, lean: LeanRequest | None = None) -> str:
    """The live database as one committed state; with `lean`, as such a snapshot would store it.

    Raises EntryLost.
    """
    options = CaptureOptions(
        scratch=os.path.dirname(target), deadline=deadline, check=False, isolated=False, lean=lean
    )
    _write(capture(full, name, options), target)
    return target


def _write(content: Content, target: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with content:
            for chunk in content.chunks():
                write_all(descriptor, chunk)
    finally:
        os.close(descriptor)


def row_counts(path: str) -> dict[str, int | None]:
    """Rows of every table; None where a table cannot be read. Indexes of a full-text search do not count."""
    import sqlite3

    counts: dict[str, int | None] = {}
    with contextlib.closing(connect(path, "mode=ro&immutable=1")) as connection:
        try:
            tables = connection.execute(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
                " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            ).fetchall()
        except sqlite3.Error:
            return {}
        for (table,) in tables:
            quoted = '"' + table.replace('"', '""') + '"'
            try:
                counts[table] = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0]
            except sqlite3.Error:
                counts[table] = None
    return counts


def looks_like_database(source: HomeSource, path: str, node: Node) -> bool:
    """By the snapshot's own account, else by its first bytes."""
    if source.database(path) is not None:
        return True
    if node.type != "file" or node.size < 512 or node.size % 512:
        return False
    try:
        with source.content(path, node) as content:
            return is_database(next(content.chunks(), b"")[:16])
    except EntryLost:
        return False


_TYPES = {Kind.FILE: "file", Kind.DIRECTORY: "dir", Kind.SYMLINK: "symlink"}


class LiveHome:
    """Entries of the home as it is, selected as the snapshot was."""

    def __init__(self, context: UserContext, opened: Opened, place: str) -> None:
        self._scratch = place
        self.home = opened.place.home
        self._layout = opened.stored.layout
        scope = (opened.stored.manifest or {}).get("scope")
        scope = scope if isinstance(scope, dict) else {}
        source = scan(
            self.home,
            opened.stored.layout,
            Selection(
                include=tuple(scope.get("include") or ()),
                exclude=tuple(scope.get("exclude") or ()),
                secrets=scope.get("secrets") is not False,
                profile=str(scope.get("profile") or ""),
                quick=scope.get("quick") is True,
            ),
            capture=CaptureOptions(scratch=place, isolated=False),
            avoid=(context.places.data_directory, context.places.vault),
            user_home=context.places.user_home,
            environment=context.caller.environment,
        )
        self.entries: dict[str, Entry] = {entry.path: entry for entry in source}
        self._external = source.external()

    def full(self, path: str) -> str:
        """Where a path of the entries lies on disk."""
        for prefix, place in self._external.items():
            if path == prefix or path.startswith(prefix + "/"):
                return place + path[len(prefix) :]
        return os.path.join(self.home, path)

    def look(self, path: str) -> Node | None:
        """What is there now, also where a rule of the layout leaves it out; None where there is nothing."""
        entry = self.entries.get(path)
        if entry is not None:
            return self.node_of(entry)
        try:
            facts = os.lstat(self.full(path))
        except OSError:
            return None
        name, mode = path.rsplit("/", 1)[-1], stat.S_IMODE(facts.st_mode)
        if stat.S_ISLNK(facts.st_mode):
            return Node(name, "symlink", mode, facts.st_mtime_ns, target=os.readlink(self.full(path)))
        if stat.S_ISDIR(facts.st_mode):
            return Node(name, "dir", mode, facts.st_mtime_ns)
        if not stat.S_ISREG(facts.st_mode):
            return None
        self.entries[path] = Entry(path, Kind.FILE, mode, facts.st_mtime_ns, facts.st_size)
        return self.node_of(self.entries[path])

    @staticmethod
    def node_of(entry: Entry) -> Node:
        return Node(
            entry.path.rsplit("/", 1)[-1],
            _TYPES[entry.kind],
            entry.mode,
            entry.mtime_ns,
            size=entry.size,
            target=entry.target,
            content=content_of(entry),
        )

    def has_log(self, path: str) -> bool:
        """A database with something in its log is not what its own size and time say."""
        entry = self.entries.get(path)
        if entry is None or not entry.database:
            return False
        try:
            return os.stat(self.full(path) + "-wal").st_size > 0
        except OSError:
            return False

    def same_bytes(
        self,
        source: HomeSource,
        path: str,
        old: Node,
        new: Node,
        compare: Callable[[Repository, bytes, int], bool | None],
    ) -> bool:
        """Whether the live file has the stored bytes; a database is captured, never opened as a file."""
        if old.type != "file" or new.type != "file" or old.content is None:
            return False
        database = self.entries[path].database
        if not database and old.size != new.size:
            return False
        full = self.full(path)
        if database:
            full = os.path.join(self._scratch, "same.db")
            stored = source.database(path)
            # What is stored lean is compared with what would be stored lean now.
            lean = LeanRequest(self._layout.recipes(path)) if stored is not None and stored.left_out else None
            try:
                live_copy(self.full(path), path, full, 30.0, lean)
            except EntryLost:
                return False
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return bool(compare(source.repository, old.content, descriptor))
        finally:
            os.close(descriptor)
            if database:
                os.unlink(full)

    def text(self, path: str, largest: int) -> str | None:
        try:
            data = read_start(self.full(path), largest + 1)
        except OSError:
            return None
        if len(data) > largest or b"\0" in data:
            return None
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return None
