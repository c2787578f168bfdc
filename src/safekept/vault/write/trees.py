"""Directories on their way into a snapshot: the tree mirrors absolute paths, as restic's does.

A directory is written when all below it is. One that is as it was, with everything in it, is not even
encoded: its tree is stored already and is referred to.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from safekept.core.entries import Entry, Kind

from ..format.blobs import ID, BlobKind
from ..format.go_text import format_time, json_text, quote
from ..format.tree import Node, encode_node, encode_nodes
from ..repo.saver import BlobSaver
from .memory import KnownDirectory, Mark, encode_marks

if TYPE_CHECKING:
    from .memory import Memory


# Nodes of what lies on this machine, as text: byte for byte what restic writes for the same files. The
# same text as `encode_node` gives, for the three kinds that a home has, at a third of the cost: a home
# has tens of thousands.

_DIGITS = len("2026-11-15T09:10:44")
_MOST_SECONDS = 4096


class NodeTexts:
    """Makes nodes; remembers the names of users and groups, and times."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, int], str] = {}
        self._seconds: dict[int, tuple[str, str]] = {}
        self._own = (os.getuid(), os.getgid())

    def file(
        self,
        name: str,
        mode: int,
        mtime_ns: int,
        size: int,
        content: bytes,
        status: os.stat_result | None,
        copy: bool = False,
    ) -> str:
        """A `copy` names no inode: restic, which compares them, will not take it for the file itself."""
        mtime = self._time(mtime_ns)
        ctime = mtime if status is None else self._time(status.st_ctime_ns)
        shown = f',"mode":{_mode(mode)}' if mode else ""
        amount = f',"size":{size}' if size else ""
        ids = '["' + content.hex('"', ID).replace('"', '","') + '"]' if content else "[]"
        inode = count = ""
        if copy:
            count = ',"links":1'
        elif status is not None:
            inode = f',"inode":{status.st_ino},"device_id":{status.st_dev}'
            count = f',"links":{status.st_nlink}'
        return (
            f'{{"name":{json_text(quote(name))},"type":"file"{shown},"mtime":"{mtime}","atime":"{mtime}"'
            f',"ctime":"{ctime}",{self._owner(status)}{inode}{amount}{count},"content":{ids}}}'
        )

    def directory(
        self, name: str, mode: int, mtime_ns: int, subtree: bytes, status: os.stat_result | None
    ) -> str:
        mtime = self._time(mtime_ns)
        ctime, inode = mtime, ""
        if status is not None:
            ctime = self._time(status.st_ctime_ns)
            inode = f',"inode":{status.st_ino},"device_id":{status.st_dev}'
        return (
            f'{{"name":{json_text(quote(name))},"type":"dir","mode":{_mode(mode) | 1 << 31},"mtime":"{mtime}"'
            f',"atime":"{mtime}","ctime":"{ctime}",{self._owner(status)}{inode},"content":null'
            f',"subtree":"{subtree.hex()}"}}'
        )

    def symlink(self, name: str, mode: int, mtime_ns: int, target: str, status: os.stat_result | None) -> str:
        node = Node(name, "symlink", mode, mtime_ns, target=target)
        node.uid, node.gid = self._own if status is None else (status.st_uid, status.st_gid)
        node.user, node.group = _user(node.uid), _group(node.gid)
        if status is not None:
            node.inode, node.device_id, node.ctime_ns = status.st_ino, status.st_dev, status.st_ctime_ns
            node.links = status.st_nlink
        return encode_node(node)

    def _time(self, nanoseconds: int) -> str:
        """As `format_time`. The files of a home were written in few of the seconds of its life."""
        seconds, fraction = divmod(nanoseconds, 1_000_000_000)
        found = self._seconds.get(seconds)
        if found is None:
            if len(self._seconds) >= _MOST_SECONDS:
                self._seconds.clear()
            text = format_time(seconds * 1_000_000_000)
            found = self._seconds[seconds] = text[:_DIGITS], text[_DIGITS:]
        return f"{found[0]}.{fraction:09d}".rstrip("0") + found[1] if fraction else found[0] + found[1]

    def _owner(self, status: os.stat_result | None) -> str:
        owner = self._own if status is None else (status.st_uid, status.st_gid)
        text = self._owners.get(owner)
        if text is None:
            text = f'"uid":{owner[0]},"gid":{owner[1]}'
            if user := _user(owner[0]):
                text += f',"user":{json_text(user)}'
            if group := _group(owner[1]):
                text += f',"group":{json_text(group)}'
            self._owners[owner] = text
        return text


def _mode(mode: int) -> int:
    special = 0
    if mode & 0o7000:
        special = (mode & 0o4000) << 12 | (mode & 0o2000) << 12 | (mode & 0o1000) << 11
    return mode & 0o777 | special


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


_LEAF = hashlib.sha256().digest()


class StoredItem(NamedTuple):
    """One file or link of a directory, stored."""

    entry: Entry
    mtime_ns: int
    size: int
    content: bytes
    copy: bool = False  # a database as it was captured, which is not the file on disk
    sure: bool = True  # nothing about it has to be said again


class OpenDirectory:
    """One directory of the snapshot, open until everything below it came."""

    __slots__ = (
        "children", "contents", "entry", "fresh", "items", "known", "late", "marks", "path", "place", "same",
        "stamps", "stored", "texts",
    )  # fmt: skip

    def __init__(self, place: str) -> None:
        self.place = place  # absolute
        self.path: str | None = None  # among the entries of the source, where it is one of them
        self.entry: Entry | None = None
        self.items: list[StoredItem] = []
        self.late: Callable[[], list[StoredItem]] | None = (
            None  # gives the items, where they are needed at all
        )
        #: Gives its files out of an earlier tree, where they are those and were not looked at.
        self.stored: Callable[[], list[Node]] | None = None
        self.texts: list[tuple[bytes, str]] = []  # nodes that are encoded already
        self.children: list[tuple[bytes, str]] = []
        self.known: KnownDirectory | None = None
        self.same = False  # its files are what is known
        self.marks: list[Mark] = []
        self.fresh: list[str] = []
        self.contents: list[bytes] = []
        self.stamps: tuple[int, ...] = ()


class TreeWriter:
    """Builds the tree of one snapshot."""

    def __init__(self, saver: BlobSaver, memory: Memory, time_ns: int) -> None:
        self._saver, self._memory, self._time_ns = saver, memory, time_ns
        self._texts = NodeTexts()
        self._open: dict[str, OpenDirectory] = {"/": OpenDirectory("/")}
        #: What the next snapshot will know of each directory, by its path among the entries.
        self.records: dict[str, bytes] = {}

    def directory(self, place: str) -> OpenDirectory:
        """The directory of an absolute path; those above it are made too."""
        found = self._open.get(place)
        if found is None:
            above = place[: place.rfind("/")] or "/"
            if above not in self._open:
                self.directory(above)
            found = self._open[place] = OpenDirectory(place)
        return found

    def leave(self, place: str, root: str) -> None:
        """Write the directories below `root` that lie neither at nor above `place`: they are complete."""
        below = root + "/"
        while True:
            path = next(reversed(self._open))  # the deepest was opened last
            if not path.startswith(below) or path == place or place.startswith(path + "/"):
                return
            self._finish(path)

    def encode(self, directory: OpenDirectory, items: Iterable[StoredItem]) -> None:
        """Put nodes into a directory whose rest may come at any time."""
        directory.texts.extend(self._encoded(items))

    def generated_directory(self, directory: str, name: str, content: bytes, size: int, time_ns: int) -> None:
        """A directory at the root, with one file in it, that lie on no disk."""
        text = self._texts.file(name, 0o600, time_ns, size, content, None)
        tree = self._save([(os.fsencode(name), text)])
        text = self._texts.directory(directory, 0o700, time_ns, tree, None)
        self._open["/"].children.append((os.fsencode(directory), text))

    def finish(self) -> bytes:
        """Write all that is open; the id of the root."""
        for path in sorted(self._open, key=lambda path: path.count("/"), reverse=True):
            if path != "/":
                self._finish(path)
        return self._tree(self._open.pop("/"))

    def _finish(self, path: str) -> None:
        directory = self._open.pop(path)
        tree = self._tree(directory)
        above, _, name = path.rpartition("/")
        entry = directory.entry
        if entry is not None:
            text = self._texts.directory(name, entry.mode, entry.mtime_ns, tree, entry.status)
        else:
            text = self._undescribed(path, name, tree)
        self._open[above or "/"].children.append((os.fsencode(name), text))

    def _undescribed(self, path: str, name: str, tree: bytes) -> str:
        """A directory above the home: as it is on this machine, else made up."""
        try:
            status = os.lstat(path)
        except OSError:
            return self._texts.directory(name, 0o755, self._time_ns, tree, None)
        return self._texts.directory(name, status.st_mode & 0o7777, status.st_mtime_ns, tree, status)

    def _tree(self, directory: OpenDirectory) -> bytes:
        digest = _LEAF
        if directory.children:
            directory.children.sort()
            digest = hashlib.sha256("\n".join(text for _, text in directory.children).encode()).digest()
        known = directory.known
        if directory.same and known is not None and known.children == digest and self._stored(known.tree):
            tree = known.tree
            if (directory.late or directory.stored) and directory.path is not None:
                # Nothing here is new: what is known of it stays known.
                self.records[directory.path] = self._memory.record(directory.path)
                return tree
        else:
            items = directory.late() if directory.late is not None else directory.items
            texts = [*directory.texts, *self._encoded(items), *directory.children]
            for node in directory.stored() if directory.stored is not None else ():
                texts.append((os.fsencode(node.name), encode_node(node)))
            tree = self._save(texts)
        if directory.path is not None:
            self._remember(directory, digest, tree)
        return tree

    def _remember(self, directory: OpenDirectory, children: bytes, tree: bytes) -> None:
        assert directory.path is not None
        known = directory.known
        marks = known.marks if directory.same and known else encode_marks(directory.marks)
        new = KnownDirectory(
            marks, tuple(directory.fresh), tuple(directory.contents), directory.stamps, children, tree
        )
        self.records[directory.path] = self._memory.encoded(directory.path, new, known)

    def _save(self, texts: list[tuple[bytes, str]]) -> bytes:
        texts.sort()
        return self._saver.save(BlobKind.TREE, encode_nodes([text for _, text in texts]))

    def _stored(self, tree: bytes) -> bool:
        return self._memory.indexed or self._saver.has(BlobKind.TREE, tree)

    def _encoded(self, items: Iterable[StoredItem]) -> Iterator[tuple[bytes, str]]:
        texts = self._texts
        for item in items:
            entry = item.entry
            name = entry.path[entry.path.rfind("/") + 1 :]
            if entry.kind is Kind.SYMLINK:
                text = texts.symlink(name, entry.mode, entry.mtime_ns, entry.target, entry.status)
            else:
                text = texts.file(
                    name, entry.mode, item.mtime_ns, item.size, item.content, entry.status, item.copy
                )
            yield os.fsencode(name), text
