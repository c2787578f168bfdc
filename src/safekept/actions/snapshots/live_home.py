"""The live home as the other side of a comparison: what a snapshot of the same scope would find now."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from safekept.core.entries import Entry, EntryLost, Kind
from safekept.core.regular import read_start
from safekept.core.sqlite import CaptureOptions
from safekept.core.sqlite.lean import LeanWish
from safekept.home.scan import Selection, scan
from safekept.vault.format import Node
from safekept.vault.read import HomeSource, content_of
from safekept.vault.repo import Repository

from ..base.context import UserContext
from .contents import Opened
from .database_copies import live_copy

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
            lean = LeanWish(self._layout.recipes(path)) if stored is not None and stored.left_out else None
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
