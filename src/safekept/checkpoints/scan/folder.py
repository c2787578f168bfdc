"""What is known of one directory of a project: its entries, what they looked like, what they hold.

Kept compact, since a project has tens of thousands of files: one number array for the looks (`marks`),
one byte string for the hashes. Names are bytes. A row that was read too soon after its last change to
be told from a later one (git's "racily clean") has its inode struck out and is read again next time.
"""

from __future__ import annotations

import marshal
import os
from array import array
from dataclasses import field
from typing import Any

from safekept.core.records import dataclass

from ..store.metadata import Meta
from ..store.objects import DIRECTORY, EXECUTABLE, FILE, LINK, NOTHING, meta_name, stored_name

#: Numbers per row: change time, modification time, size, inode.
WIDTH = 4
UNSURE = -1

#: Codes of rows. The first three are stored; of the others only the reason is.
PLAIN, SYMLINK, DATABASE = b"f"[0], b"l"[0], b"q"[0]
STORED = frozenset((PLAIN, SYMLINK, DATABASE))
ABSENT = b"a"[0]
REASON_OF = {
    b"o"[0]: "oversize",
    b"u"[0]: "unreadable",
    b"p"[0]: "special",
    b"i"[0]: "ignored",
    b"c"[0]: "changing",
    b"b"[0]: "database",
    b"s"[0]: "secret",
    b"e"[0]: "excluded",
    b"w"[0]: "sidecar",
}
CODE_OF = {reason: code for code, reason in REASON_OF.items()}


@dataclass(slots=True)
class Folder:
    """One directory. Rows are files, links, and files that are looked at but not stored."""

    inode: int = UNSURE  # UNSURE: its list of names must be read again
    mtime_ns: int = 0
    ctime_ns: int = 0
    mode: int = 0o755
    partial: bool = False  # only named files are known; never listed
    names: list[bytes] = field(default_factory=list)
    codes: bytearray = field(default_factory=bytearray)
    modes: array[int] = field(default_factory=lambda: array("H"))
    marks: array[int] = field(default_factory=lambda: array("q"))
    oids: bytearray = field(default_factory=bytearray)
    folders: list[bytes] = field(default_factory=list)
    trees: bytearray = field(default_factory=bytearray)  # of the folders: twenty bytes each, or NOTHING
    metas: bytearray = field(default_factory=bytearray)
    hidden: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # decided by name; never looked at
    forced: frozenset[bytes] = frozenset()  # taken because they were named, whatever the rules say
    databases: dict[bytes, tuple[int, tuple[int, ...]]] = field(default_factory=dict)  # size, log's mark
    blob: bytes = NOTHING  # its own `.meta`
    stale: bool = False  # times changed and nothing else: described again with the next checkpoint

    def copy(self) -> Folder:
        """One that can be changed without changing this one."""
        return Folder.load(self.dump())

    def dump(self) -> bytes:
        return marshal.dumps(
            (
                self.inode,
                self.mtime_ns,
                self.ctime_ns,
                self.mode,
                self.partial,
                b"\0".join(self.names),
                bytes(self.codes),
                self.modes.tobytes(),
                self.marks.tobytes(),
                bytes(self.oids),
                b"\0".join(self.folders),
                bytes(self.trees),
                bytes(self.metas),
                self.hidden,
                tuple(self.forced),
                self.databases,
                self.blob,
                self.stale,
            ),
            4,
        )

    @classmethod
    def load(cls, data: bytes) -> Folder:
        """The folder that `dump` wrote. The data must be known to be ours (see `cache`)."""
        row: tuple[Any, ...] = marshal.loads(data)  # noqa: S302 - checksummed, private to the user
        modes, marks = array("H"), array("q")
        modes.frombytes(row[7])
        marks.frombytes(row[8])
        return cls(
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            row[5].split(b"\0") if row[6] else [],
            bytearray(row[6]),
            modes,
            marks,
            bytearray(row[9]),
            row[10].split(b"\0") if row[10] else [],
            bytearray(row[11]),
            bytearray(row[12]),
            row[13],
            frozenset(row[14]),
            row[15],
            row[16],
            row[17],
        )

    def append(self, name: bytes, code: int, status: os.stat_result | None, oid: bytes = NOTHING) -> int:
        """Add a row; returns its place."""
        self.names.append(name)
        self.codes.append(code)
        self.oids += oid
        if status is None:
            self.modes.append(0)
            self.marks.extend((UNSURE, 0, 0, UNSURE))
        else:
            self.modes.append(status.st_mode & 0o7777)
            self.marks.extend((status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino))
        return len(self.names) - 1

    def remove(self, place: int) -> None:
        """Take a row out."""
        self.databases.pop(self.names[place], None)
        del self.names[place], self.codes[place], self.modes[place]
        del self.marks[WIDTH * place : WIDTH * place + WIDTH]
        del self.oids[20 * place : 20 * place + 20]

    def oid(self, place: int) -> bytes:
        return bytes(self.oids[20 * place : 20 * place + 20])

    def set_oid(self, place: int, oid: bytes) -> None:
        self.oids[20 * place : 20 * place + 20] = oid

    def set_status(self, place: int, status: os.stat_result) -> None:
        self.modes[place] = status.st_mode & 0o7777
        marks, start = self.marks, WIDTH * place
        marks[start] = status.st_ctime_ns
        marks[start + 1] = status.st_mtime_ns
        marks[start + 2] = status.st_size
        marks[start + 3] = status.st_ino

    def doubt(self, place: int) -> None:
        """Have a row read again next time."""
        self.marks[WIDTH * place] = self.marks[WIDTH * place + 3] = UNSURE

    def set_folder(self, name: bytes, tree: bytes, meta: bytes) -> bool:
        """Record the objects of a subdirectory; True when that changed something."""
        try:
            at = 20 * self.folders.index(name)
        except ValueError:
            self.folders.append(name)
            self.trees += tree
            self.metas += meta
            return True
        if self.trees[at : at + 20] == tree and self.metas[at : at + 20] == meta:
            return False
        self.trees[at : at + 20] = tree
        self.metas[at : at + 20] = meta
        return True

    def remove_folder(self, name: bytes) -> None:
        at = self.folders.index(name)
        del self.folders[at], self.trees[20 * at : 20 * at + 20], self.metas[20 * at : 20 * at + 20]

    def objects(self) -> set[bytes]:
        """Every object that this folder counts on being in the store."""
        found = {bytes(self.oids[start : start + 20]) for start in range(0, len(self.oids), 20)}
        found |= {bytes(self.trees[start : start + 20]) for start in range(0, len(self.trees), 20)}
        found |= {bytes(self.metas[start : start + 20]) for start in range(0, len(self.metas), 20)}
        found.add(self.blob)
        found.discard(NOTHING)
        return found

    def stored(self) -> int:
        """How many files and links of this directory itself are in the checkpoint."""
        codes = self.codes
        return codes.count(PLAIN) + codes.count(SYMLINK) + codes.count(DATABASE)

    def size(self) -> int:
        """How many bytes those have."""
        sizes = self.marks[2::WIDTH]
        return sum(size for size, code in zip(sizes, self.codes, strict=True) if code in STORED)

    def tree_entries(self) -> list[tuple[bytes, bytes, bytes]]:
        """The entries of `files/<directory>`."""
        entries, oids = [], bytes(self.oids)
        for place, name in enumerate(self.names):
            code = self.codes[place]
            if code in STORED:
                link = code == SYMLINK
                mode = LINK if link else EXECUTABLE if self.modes[place] & 0o100 else FILE
                entries.append((mode, stored_name(name, link), oids[20 * place : 20 * place + 20]))
        trees = bytes(self.trees)
        for place, name in enumerate(self.folders):
            tree = trees[20 * place : 20 * place + 20]
            if tree != NOTHING:
                entries.append((DIRECTORY, stored_name(name), tree))
        return entries

    def meta_entries(self) -> list[tuple[bytes, bytes, bytes]]:
        """The subdirectories in `meta/<directory>`; its own blob is to be added."""
        metas = bytes(self.metas)
        return [
            (DIRECTORY, meta_name(name), metas[20 * place : 20 * place + 20])
            for place, name in enumerate(self.folders)
        ]

    def reasons(self) -> dict[bytes, tuple[str, int]]:
        """What the rules hide, by name. A directory gone into for a named file is not hidden."""
        inside = set(self.folders)
        return {
            name: (reason, max(size, 0)) for name, (reason, size) in self.hidden.items() if name not in inside
        }

    def meta(self) -> Meta:
        """What git cannot hold of this directory."""
        found = Meta(self.mode, self.mtime_ns, self.partial, skipped=self.reasons())
        for place, name in enumerate(self.names):
            code = self.codes[place]
            mtime_ns, size = self.marks[WIDTH * place + 1], self.marks[WIDTH * place + 2]
            if code == DATABASE:
                size = self.databases.get(name, (size, ()))[0]
            if code in STORED:
                found.entries[name] = (self.modes[place], mtime_ns, size)
            elif code == ABSENT:
                found.absent.add(name)
            else:
                found.skipped[name] = (REASON_OF.get(code, "excluded"), size)
        return found
