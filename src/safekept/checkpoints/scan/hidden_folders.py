"""What was last seen of the hidden files of a project: one compact row per directory, in one file.

It says which files there are and what they look like, so that a look costs an lstat for each. Nothing of
their content is in it. A file that is torn, or of another version, is as good as none: then everything is
looked at again.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
from array import array
from collections.abc import Iterator
from dataclasses import field

from isal import isal_zlib

from safekept.core.files import quick_write
from safekept.core.records import dataclass

from .hidden_left import UNREADABLE, Left

NAME = "hidden"
_MAGIC = b"safekept hidden 1\n"
#: Numbers per row: change time, modification time, size.
WIDTH = 3

Row = tuple[int, int, int, int, list[bytes], bytes, bytes, list[bytes]]


@dataclass(slots=True)
class HiddenFolder:
    """One directory: its files and links that are kept, and the directories below it that are."""

    inode: int = -1  # -1: its names must be listed again
    mtime_ns: int = 0
    ctime_ns: int = 0
    mode: int = 0
    names: list[bytes] = field(default_factory=list)
    modes: array[int] = field(default_factory=lambda: array("H"))  # with the type bits
    marks: array[int] = field(default_factory=lambda: array("q"))
    folders: list[bytes] = field(default_factory=list)

    def add(self, name: bytes, status: os.stat_result) -> None:
        self.names.append(name)
        self.modes.append(status.st_mode)
        self.marks.extend((status.st_ctime_ns, status.st_mtime_ns, status.st_size))

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> array[int]:
        """Of the files, in the order of their names."""
        return self.marks[2::WIDTH]

    @property
    def changes(self) -> array[int]:
        """The times of the last changes of the files, in the order of their names."""
        return self.marks[0::WIDTH]

    def changed_at(self, place: int) -> int:
        """The time of the last change of one file."""
        return self.marks[WIDTH * place]

    def rows(self) -> Iterator[tuple[bytes, int, int, int, bool]]:
        """Name, permission bits, time, size, and whether it is a link."""
        for place, name in enumerate(self.names):
            mode, at = self.modes[place], WIDTH * place
            yield name, mode & 0o7777, self.marks[at + 1], self.marks[at + 2], stat.S_ISLNK(mode)

    def row(self) -> Row:
        inode, mtime, ctime, mode = self.inode, self.mtime_ns, self.ctime_ns, self.mode
        marks = self.marks.tobytes()
        return inode, mtime, ctime, mode, self.names, self.modes.tobytes(), marks, self.folders

    @classmethod
    def of(cls, row: Row) -> HiddenFolder:
        modes, marks = array("H"), array("q")
        modes.frombytes(row[5])
        marks.frombytes(row[6])
        return cls(row[0], row[1], row[2], row[3], row[4], modes, marks, row[7])

    def digest(self, path: bytes, without: frozenset[bytes] | set[bytes]) -> bytes:
        """The same for the same names with the same looks; `without` are names that are not kept."""
        found = hashlib.blake2b(path + b"\0%o\0" % self.mode, digest_size=16)
        if without:
            for place, name in enumerate(self.names):
                if name not in without:
                    marks = self.marks[WIDTH * place : WIDTH * place + WIDTH]
                    found.update(b"%s\0%o" % (name, self.modes[place]) + marks.tobytes())
        else:
            found.update(b"\0".join(self.names) + self.modes.tobytes() + self.marks.tobytes())
        return found.digest()


@dataclass(slots=True)
class HiddenFolders:
    """Everything hidden in one project, as it was last seen."""

    folders: dict[bytes, HiddenFolder] = field(default_factory=dict)
    #: Directories that are hidden themselves; others of `folders` are visible and hold hidden files.
    roots: list[bytes] = field(default_factory=list)
    left: dict[bytes, Left] = field(default_factory=dict)
    rules: bytes = b""  # what was left out by which limits
    id: str = ""

    def files(self) -> int:
        return sum(len(folder.names) for folder in self.folders.values())

    def size(self) -> int:
        return sum(folder.size for folder in self.folders.values())

    def has(self, path: bytes) -> bool:
        """Whether a file is among what is kept."""
        parent, _, name = path.rpartition(b"/")
        folder = self.folders.get(parent)
        return folder is not None and name in folder.names and path not in self.left

    def changed_at(self, path: bytes) -> int:
        """The time of the last change of one file; 0 where it is not among them."""
        parent, _, name = path.rpartition(b"/")
        folder = self.folders.get(parent)
        if folder is None or name not in folder.names:
            return 0
        return folder.changed_at(folder.names.index(name))

    @property
    def left_unread(self) -> bool:
        """Whether something is there that could not even be looked at."""
        return any(reason == UNREADABLE for reason, _, _ in self.left.values())

    def wanted(self) -> list[bytes]:
        """What has to be named to have all of it: the hidden directories, and files in visible ones."""
        below = tuple(root + b"/" for root in self.roots)
        roots = set(self.roots)
        found = list(self.roots)
        for path, folder in self.folders.items():
            if path in roots or path.startswith(below):
                continue
            full = (path + b"/" + name if path else name for name in folder.names)
            found += [one for one in full if one not in self.left]
        return found

    def newest(self) -> int:
        """The latest change of any file or directory that is kept: since then all is as it is."""
        latest = 0
        for folder in self.folders.values():
            latest = max(latest, folder.ctime_ns, *folder.marks[0::WIDTH], 0)
        return latest

    def save(self, directory: str, name: str = NAME) -> None:
        rows = {path: folder.row() for path, folder in self.folders.items()}
        payload = marshal.dumps((rows, self.roots, self.left, self.rules, self.id), 4)
        check = isal_zlib.crc32(payload).to_bytes(4, "big")
        with contextlib.suppress(OSError):  # it costs a longer look the next time
            quick_write(os.path.join(directory, name), _MAGIC + check + payload)

    @classmethod
    def load(cls, directory: str, name: str = NAME) -> HiddenFolders | None:
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError, IndexError):
            with open(os.path.join(directory, name), "rb") as file:
                data = file.read()
            start = len(_MAGIC) + 4
            payload = memoryview(data)[start:]
            check = isal_zlib.crc32(payload).to_bytes(4, "big")
            if data.startswith(_MAGIC) and check == data[start - 4 : start]:
                rows, roots, left, rules, look = marshal.loads(payload)  # noqa: S302 - checksummed, private
                folders = {path: HiddenFolder.of(row) for path, row in rows.items()}
                return cls(folders, roots, left, rules, look)
        return None
