"""Entry and Source: the one shape of data that passes between rooms.

A scan makes entries out of a live home, an archive or a vault gives them back, and a landing puts
them on disk. Paths are relative, `/`-separated, and decoded with `surrogateescape`, so a name of
any bytes survives. Content is opened late and read once, so nothing is held open and memory stays
flat whatever the size of a home.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import field
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from .records import dataclass

if TYPE_CHECKING:
    import os

#: How much content is handed over at once. Large enough that threads gain from it (hashing and
#: compression release the interpreter lock), small enough that a dozen of them are no memory.
CHUNK = 1 << 20
#: The one chunk of nothing but zeros. Holes of sparse files come as this object, which costs no reading.
ZEROS = bytes(CHUNK)


class Kind(StrEnum):
    """What an entry is. Anything else on disk (sockets, pipes, devices) never becomes an entry."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"


class Outcome(StrEnum):
    """What became of something that is not simply stored."""

    EXCLUDED = "excluded"  # a rule left it out; the reason says which
    PASSED_OVER = "passed-over"  # a socket, pipe or device: there are no bytes to keep
    GONE = "gone"  # vanished between the scan and the read; not an error
    UNREADABLE = "unreadable"  # could not be read; the result is incomplete
    LOCKED = "locked"  # a database that made no progress before its deadline; incomplete
    CHANGED = "changed"  # kept changing while it was read; stored, may be torn; incomplete
    OUTSIDE = "outside"  # behind a link that leads out of the home: only the link is stored; incomplete
    DAMAGED = "damaged"  # a database stored exactly as it is, and it is not sound
    NOTED = "noted"  # stored whole; worth a line (an early date, a link that points outside)


_INCOMPLETE = frozenset(
    {Outcome.UNREADABLE, Outcome.LOCKED, Outcome.CHANGED, Outcome.OUTSIDE, Outcome.DAMAGED}
)


#: What became of each that makes a result incomplete, in few words after its name.
_IN_WORDS = {
    Outcome.UNREADABLE: "could not be read",
    Outcome.LOCKED: "was locked",
    Outcome.CHANGED: "changed while it was read",
    Outcome.OUTSIDE: "leads out of the home",
    Outcome.DAMAGED: "is damaged",
}


def lacking_text(path: str, outcome: str, count: int = 1) -> str:
    """`state.db is damaged, and 2 more`: why a snapshot is incomplete, by the first of `count` remarks."""
    words = next((words for one, words in _IN_WORDS.items() if one == outcome), "is not whole")
    return f"{path or 'the home'} {words}" + (f", and {count - 1:,} more" if count > 1 else "")


#: Ends the reason of what was left out without counting it to the end: its count is the least that there is.
NOT_ALL_COUNTED = "(at least so many files: not all were counted)"


@dataclass(frozen=True, slots=True)
class Remark:
    """One line of the full account: nothing is ever left out without one of these."""

    path: str
    outcome: Outcome
    reason: str
    files: int = 1
    bytes: int = 0

    @property
    def incomplete(self) -> bool:
        """True where something selected is missing, torn or unsound: exit code 3, not 0."""
        return self.outcome in _INCOMPLETE

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "files": self.files,
            "bytes": self.bytes,
        }


class EntryLost(Exception):
    """Raised when one entry cannot be read; the work goes on and the remark is kept."""

    def __init__(self, remark: Remark) -> None:
        super().__init__(f"{remark.path}: {remark.reason}")
        self.remark = remark


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What is known of a captured database."""

    state: str  # "sound", "damaged" or "unverified"
    method: str  # "pages", "backup", "at-rest" or "raw"
    detail: str = ""  # the first lines of what the check said, when damaged
    page_size: int = 0
    counts: dict[str, int | None] = field(default_factory=dict)  # answers to the caller's queries
    #: What a lean capture left out and how it is rebuilt, or why it kept it; None: it was not asked for.
    lean: dict[str, Any] | None = None

    @property
    def left_out(self) -> int:
        """How many bytes are not stored and have to be rebuilt; 0 only where nothing has to."""
        if self.lean is None or not self.lean.get("tables"):
            return 0
        size = self.lean.get("bytes")
        return max(size, 1) if type(size) is int else 1

    def as_dict(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "state": self.state,
            "method": self.method,
            "detail": self.detail,
            "page_size": self.page_size,
        }
        if self.lean is not None and (self.lean.get("tables") or self.lean.get("kept")):
            fields["lean"] = self.lean
        return fields


class Content(ABC):
    """The open bytes of one entry: iterate `chunks()` once, then look at what was found.

    `size` is exact: `chunks()` yields that many bytes or raises EntryLost. `remarks` and
    `database` are final once the last chunk was taken.
    """

    size: int
    mtime_ns: int
    holes: int = 0  # bytes that the filesystem keeps nothing for; they come as ZEROS

    def __init__(self) -> None:
        self.remarks: list[Remark] = []
        self.database: DatabaseFacts | None = None

    @abstractmethod
    def chunks(self) -> Iterator[bytes]:
        """Every byte in order, in pieces of at most CHUNK."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def no_content() -> Content:
    """The opener of entries that have no bytes: directories and links."""
    raise TypeError("directories and links have no content")


@dataclass(slots=True)
class Entry:
    """One file, directory or symlink: its name, its metadata, and a way to read its bytes.

    To be read, not changed. It is not frozen because that triples the price of making one, and a
    home has tens of thousands.
    """

    path: str
    kind: Kind
    mode: int  # permission bits only
    mtime_ns: int
    size: int = 0  # as seen by the scan or recorded in the store; `Content.size` is the exact one
    target: str = ""  # of a symlink
    sha256: str = ""  # where the store recorded it
    database: bool = False  # a SQLite file, known by its header
    open: Callable[[], Content] = no_content
    status: os.stat_result | None = None  # as the scan saw it, where it lies on this machine
    beside: tuple[os.stat_result | None, ...] = ()  # of a database: its `-wal` and its `-journal`
    left_out: int = 0  # of a stored database: bytes that a restore rebuilds; 0: it is all there
    #: Called in place of `open` by a consumer who has the content from before and finds its status as
    #: it was then; with the facts of a database. False: this content has to be read. None: no matter.
    known: Callable[[DatabaseFacts | None], bool] | None = None
    #: Whether an open file holds exactly these bytes, where the store can tell without giving them; None
    #: where it cannot tell.
    equals: Callable[[int], bool | None] | None = None
    holes: int = 0  # of a stored sparse file: bytes of it that take no room when it lands

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "kind": self.kind.value,
            "mode": f"{self.mode:04o}",
            "mtime_ns": self.mtime_ns,
            "size": self.size,
        }


class Source(Protocol):
    """An iterable of entries. Parents come before their children.

    `ordered` is true where content must be read in the order of the entries (a tar stream); where
    it is false, several entries may be open at once, from several threads.
    """

    @property
    def ordered(self) -> bool: ...

    @property
    def remarks(self) -> list[Remark]:
        """What the producer left out or noticed; final once the iteration ended."""

    def __iter__(self) -> Iterator[Entry]: ...


class BytesContent(Content):
    """Content that is already in memory."""

    def __init__(self, data: bytes, mtime_ns: int = 0) -> None:
        super().__init__()
        self.data, self.size, self.mtime_ns = data, len(data), mtime_ns

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), CHUNK):
            yield self.data[start : start + CHUNK]

    def close(self) -> None:
        pass
