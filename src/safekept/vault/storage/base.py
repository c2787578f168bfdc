"""The contract of a storage: list, read, write once, delete, size.

What every storage promises, and `tests/contract` proves:

* A write is whole and durable when it returns, or it did not happen: no reader ever sees part of a
  file under its name. A name that is taken is refused with AlreadyStored and never replaced.
* A read gives exactly the bytes asked for, fewer only where the file ends.
* A delete is done when it returns; deleting what is not there is no error, so that an interrupted
  clean-up can simply be run again.
* A listing shows names of the vault's own shape only (64 hex digits): temporary files and whatever
  else lies about is passed over.
* Every method may be called from several threads at once.

Failures of the place itself (permission, a full disk, a network that is gone) are SafekeptErrors; a
single file that the place cannot give back any more is VaultDamaged.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batch import FileBatch


class FileKind(StrEnum):
    """The classes of files; the value is the directory's name."""

    CONFIG = "config"  # the one file without a directory; its name is always ""
    KEY = "keys"
    LOCK = "locks"
    SNAPSHOT = "snapshots"
    INDEX = "index"
    PACK = "data"
    #: Ours alone: what is said of a snapshot after it was made. restic passes the directory over.
    MARK = "safekept/marks"

    @property
    def plain(self) -> str:
        """What such files are called in a document: `snapshots`, `marks`."""
        return self.value.rpartition("/")[2]


#: Where a vault's files lie; that of marks is made with the first of them.
DIRECTORIES = (
    FileKind.KEY,
    FileKind.LOCK,
    FileKind.SNAPSHOT,
    FileKind.INDEX,
    FileKind.PACK,
    FileKind.MARK,
)

_NAME = re.compile(r"[0-9a-f]{64}")


class NotStored(Exception):
    """There is no such file."""

    def __init__(self, kind: FileKind, name: str) -> None:
        super().__init__(stored_name(kind, name))
        self.kind, self.name = kind, name


class AlreadyStored(Exception):
    """The name is taken; what is there was not touched."""

    def __init__(self, kind: FileKind, name: str) -> None:
        super().__init__(stored_name(kind, name))
        self.kind, self.name = kind, name


def is_name(name: str) -> bool:
    """Whether a file's name has the shape that every file but `config` has."""
    return _NAME.fullmatch(name) is not None


def stored_name(kind: FileKind, name: str) -> str:
    """A file's place below the root of the vault, on every storage: `data/ab/ab12…`."""
    if kind is FileKind.CONFIG:
        return "config"
    if not is_name(name):
        raise ValueError(f"not a name of a file in a vault: {name!r}")
    return f"data/{name[:2]}/{name}" if kind is FileKind.PACK else f"{kind.value}/{name}"


class Storage(ABC):
    """A place for the files of one vault."""

    #: Seconds until everybody sees what was written: 0 where a listing is never behind.
    settle: float = 0.0

    @property
    def only_here(self) -> bool:
        """Whether only processes of this machine can reach the place: a disk of its own, no share."""
        return False

    @property
    @abstractmethod
    def location(self) -> str:
        """The place as a person would name it; never with a secret in it."""

    @abstractmethod
    def create(self) -> None:
        """Make the empty directories; nothing happens where they are already."""

    @abstractmethod
    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        """Every file of a kind: its name and its size. A kind without a directory has no files."""

    def names(self, kind: FileKind) -> frozenset[str]:
        """The names alone, as cheaply as the place can say."""
        return frozenset(name for name, _ in self.list(kind))

    @abstractmethod
    def size(self, kind: FileKind, name: str = "") -> int:
        """The size of one file; NotStored where there is none."""

    @abstractmethod
    def read(self, kind: FileKind, name: str = "", offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of one file, or a part of them; NotStored where there is none."""

    def read_into(self, buffer: bytearray, kind: FileKind, name: str) -> memoryview:
        """The bytes of one file, in `buffer` where they fit and the place can put them there."""
        return memoryview(self.read(kind, name))

    @abstractmethod
    def write(self, kind: FileKind, name: str, data: bytes | bytearray | memoryview) -> None:
        """Store one new file, whole and durable; AlreadyStored where the name is taken."""

    def batch(self) -> FileBatch:
        """For several new files of which each names the ones before it."""
        from .batch import FileBatch

        return FileBatch(self)

    @abstractmethod
    def delete(self, kind: FileKind, name: str) -> None:
        """Remove one file for good."""

    def sizes(self, kind: FileKind, names: Iterable[str]) -> dict[str, int]:
        """The sizes of those of these files that are there, as cheaply as the place can say."""
        listed = dict(self.list(kind))
        return {name: listed[name] for name in names if name in listed}

    def exists(self, kind: FileKind, name: str = "") -> bool:
        try:
            self.size(kind, name)
        except NotStored:
            return False
        return True

    def written(self, kind: FileKind, name: str) -> float | None:
        """When a file was written, in seconds by the clock of the place; None where it does not tell."""
        return None

    def room(self) -> tuple[int, int] | None:
        """Bytes free and bytes in all where the vault lies; None where that is unknown."""
        return None

    def keep_reserve(self) -> None:  # noqa: B027 - most places need none
        """Hold a little room back where it is missing, for the work that gives room back; never an error."""

    def give_up_reserve(self) -> bool:
        """Let that room go, for a lock or an index on a full disk; whether there was any."""
        return False

    def sweep(self) -> Sequence[str]:
        """Remove what dead writers left under temporary names; what was removed."""
        return ()

    def close(self) -> None:  # noqa: B027 - most places hold nothing open
        """Let go of connections; may be called twice."""
