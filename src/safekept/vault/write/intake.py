"""Taking in a Source: directory by directory, and only what is new is read.

A file whose status is what it was is not opened; a directory where that holds for every file is one
comparison. What cannot be read never stops the rest: it becomes a remark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from safekept.core.entries import Entry, EntryLost, Kind, Source
from safekept.core.events import Event, Listener

from ..repo.saver import BlobSaver
from .chunks import store_content
from .databases import (
    DatabaseIntake,
    Reread,
    SnapshotAccount,
    StoredDatabase,
    bytes_there,
    database_item,
    stamps,
)
from .memory import RACY_NS, KnownDatabase, KnownDirectory, Mark, Memory, all_stored, encode_marks, mark
from .trees import OpenDirectory, StoredItem, TreeWriter


class UnchangedDirectory(NamedTuple):
    """Among a source's groups: the files of a directory that `Memory.holds`. None of them is looked at."""

    path: str
    files: int
    bytes: int


class Intake:
    """Stores the entries of one snapshot and builds its tree. Close it."""

    def __init__(
        self,
        saver: BlobSaver,
        memory: Memory,
        roots: Mapping[str, str],
        reread: Reread,
        started: int,
        time_ns: int,
        listener: Listener,
    ) -> None:
        self._saver, self._memory, self._listener = saver, memory, listener
        self._roots = sorted(((prefix.strip("/"), place) for prefix, place in roots.items()), reverse=True)
        self._young = started - RACY_NS  # a status of this time or later is not trusted
        self._told = 0.0
        self.account = SnapshotAccount()
        self.trees = TreeWriter(saver, memory, time_ns)
        self.databases = DatabaseIntake(saver, memory, self.account, reread, started)

    def close(self) -> None:
        self.databases.close()

    def take(self, source: Source) -> None:
        """Every entry. A source that gives the files of a directory at once has them compared at once; one
        that is not `in_turn` may come back to a directory that it left."""
        groups = getattr(source, "groups", None)
        if groups is None:
            for entry in source:
                self._any(entry)
        else:
            for group in groups():
                if isinstance(group, UnchangedDirectory):
                    self._unchanged(group)
                else:
                    self._group(group, in_turn=getattr(source, "in_turn", True))
        self.account.remarks += source.remarks

    def _any(self, entry: Entry) -> None:
        """An entry that may come at any time: a directory is never known to be complete."""
        place, _ = self._place(entry.path)
        if entry.kind is Kind.DIRECTORY:
            self.trees.directory(place).entry = entry
        elif (item := self._file(entry, None)) is not None:
            self.trees.encode(self.trees.directory(os.path.dirname(place)), [item])
        self._show_progress(entry.path)

    def _place(self, path: str) -> tuple[str, str]:
        """Where an entry lies, and the root that it lies below."""
        for prefix, place in self._roots:
            if not prefix:
                return (f"{place}/{path}" if path else place), place
            if path == prefix or path.startswith(prefix + "/"):
                return place + path[len(prefix) :], place
        raise ValueError("no root for the home itself")

    def _unchanged(self, group: UnchangedDirectory) -> None:
        known = self._memory.directory(group.path)
        assert known is not None, "the source asked for it"
        directory = self.trees.directory(self._place(group.path)[0])
        directory.path, directory.known, directory.same = group.path, known, True
        directory.contents = list(known.contents)
        directory.stored = partial(self._memory.files_of, known.tree)
        self.account.unread(group.files, group.bytes)

    def _group(self, entries: list[Entry], *, in_turn: bool) -> None:
        """Directories that lead to one, and all its files and links."""
        first = 0
        for entry in entries:
            if entry.kind is not Kind.DIRECTORY:
                break
            place, root = self._place(entry.path)
            if in_turn:
                self.trees.leave(place, root)
            self.trees.directory(place).entry = entry
            first += 1
        if first == len(entries):
            return
        if first:
            entries = entries[first:]
        path = entries[0].path
        place, root = self._place(path)
        place = place[: place.rfind("/")] or "/"
        if in_turn:
            self.trees.leave(place, root)
        self._files(path[: path.rfind("/")] if "/" in path else "", self.trees.directory(place), entries)
        self._show_progress(path)

    def _show_progress(self, path: str, more: int = 0) -> None:
        now = time.monotonic()
        if now - self._told > 0.1:
            self._told = now
            self._say(path, more)

    def _say(self, path: str, more: int = 0) -> None:
        self._listener(Event("store", self.account.bytes + more, path=path))

    def _files(self, path: str, directory: OpenDirectory, entries: list[Entry]) -> None:
        """All files and links of a directory at once: where nothing changed, that is all there is to do."""
        cut = len(path) + 1 if path else 0
        marks: list[Mark] = []
        counted: list[int] = []
        databases: dict[int, KnownDatabase | None] = {}
        size = 0
        for number, entry in enumerate(entries):
            name, status = entry.path[cut:], entry.status
            if entry.target:
                name = f"{name}\0{entry.target}"
            assert status is not None
            marks.append(mark(name, status))
            size += entry.size
            if entry.database:
                databases[number] = self.databases.unread(entry)
            elif entry.known is not None:
                counted.append(number)
        directory.path, directory.marks = path, marks
        known = directory.known = self._memory.directory(path)
        asked: dict[int, bool] = {}
        if known is not None and known.marks == encode_marks(marks) and self._all_there(known):
            fresh = set(known.fresh)
            asked = {
                number: self._may_stay_unread(entries[number])
                for number in counted
                if marks[number][0] not in fresh
            }
            if (
                not fresh
                and all(asked.values())
                and all(
                    one is not None and one.ids == known.contents[number] for number, one in databases.items()
                )
                and known.stamps == stamps(databases.values())
            ):
                directory.same = True
                directory.late = partial(self._as_known, entries, known, databases)
                directory.contents, directory.stamps = list(known.contents), known.stamps
                self.account.unread(len(entries), size)
                return
        self._one_by_one(directory, entries, databases, asked)

    def _as_known(
        self, entries: list[Entry], known: KnownDirectory, databases: Mapping[int, KnownDatabase | None]
    ) -> list[StoredItem]:
        items = [
            StoredItem(entry, entry.mtime_ns, entry.size, content)
            for entry, content in zip(entries, known.contents, strict=True)
        ]
        for number, database in databases.items():
            if database is not None:
                items[number] = database_item(entries[number], database)
        return items

    def _all_there(self, known: KnownDirectory) -> bool:
        return self._memory.indexed or all(all_stored(self._saver, content) for content in known.contents)

    @staticmethod
    def _may_stay_unread(entry: Entry) -> bool:
        return entry.known is None or entry.known(None)

    def _one_by_one(
        self,
        directory: OpenDirectory,
        entries: list[Entry],
        databases: Mapping[int, KnownDatabase | None],
        asked: Mapping[int, bool],
    ) -> None:
        """Something here is not as it was: each file is looked at by itself."""
        known, account = directory.known, self.account
        old = known.by_name() if known is not None else {}
        found = list(zip(entries, directory.marks, strict=True))
        directory.marks = []
        stored: list[KnownDatabase] = []
        for number, (entry, one) in enumerate(found):
            before = old.get(one[0])
            item: StoredItem | None
            if (database := databases.get(number)) is not None:
                item = database_item(entry, database)
                account.unread(1, item.size)
            elif before is not None and self._is_unread(entry, one, before, asked.get(number)):
                item = StoredItem(entry, entry.mtime_ns, entry.size, before[1])
                account.unread(1, item.size)
            else:
                item = self._file(entry, before)
                database = self.databases.read.get(entry.path)
            if item is None:
                continue
            if database is not None:
                stored.append(database)
            elif entry.kind is Kind.FILE and not (
                item.sure
                and one[4] < self._young
                and one[5] < self._young
                and (item.mtime_ns, item.size) == (one[4], one[3])
            ):
                directory.fresh.append(one[0])
            directory.marks.append(one)
            directory.items.append(item)
            directory.contents.append(item.content)
        directory.stamps = stamps(stored)
        directory.same = (
            known is not None
            and known.stamps == directory.stamps
            and known.contents == tuple(directory.contents)
            and known.marks == encode_marks(directory.marks)
        )

    def _is_unread(self, entry: Entry, one: Mark, before: tuple[Mark, bytes], asked: bool | None) -> bool:
        """Whether a file that is no database is as it was, and need not be read either."""
        if before[0] != one or entry.database or asked is False:
            return False
        if not (self._memory.indexed or all_stored(self._saver, before[1])):
            return False
        return asked or self._may_stay_unread(entry)

    def _file(self, entry: Entry, before: tuple[Mark, bytes] | None) -> StoredItem | None:
        """Read and store one file; None where it could not be read, which is then a remark."""
        account = self.account
        if entry.kind is Kind.SYMLINK:
            account.files += 1
            return StoredItem(entry, entry.mtime_ns, 0, b"")
        try:
            if entry.database:
                item = self.databases.store(entry, partial(self._say, entry.path))
            else:
                item = self._plain(entry)
        except EntryLost as lost:
            account.remarks.append(lost.remark)
            return None
        account.files += 1
        account.bytes += item.size
        if before is None:
            account.new += 1
        elif before[1] != item.content:
            account.changed += 1
        return item

    def _plain(self, entry: Entry) -> StoredItem:
        with entry.open() as content:
            ids, size = store_content(self._saver, content, partial(self._show_progress, entry.path))
            self.account.remarks += content.remarks
            if content.database is not None:  # its size and name did not tell, its first bytes did
                checked = time.time_ns() if content.database.state != "unverified" else 0
                self.account.databases[entry.path] = StoredDatabase(
                    content.database, checked, True, bytes_there(entry)
                )
            # What was remarked must be remarked again, so it is read again.
            sure = not content.remarks and content.database is None
            return StoredItem(entry, content.mtime_ns, size, ids, sure=sure)
