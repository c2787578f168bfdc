"""What earlier snapshots of a home left to be known: so that what did not change costs a look.

Kept in a cache beside the vault and never trusted over it. A file counts as unchanged when its status
is what it was and that status was old enough when the file was read: a clock ticks in steps, so a file
that was written a moment before it was read may have been written again within the same step. Every id
that comes from here is stored: either all index files that named it then are still there (they never
change) and all packs too, or it is looked up.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from safekept.core.entries import DatabaseFacts, Entry, Outcome, Remark
from safekept.core.files import sweep_temporaries
from safekept.core.records import dataclass

from ..format.blobs import ID, BlobKind
from .cache_file import CacheFile, derived

if TYPE_CHECKING:
    from ..format.tree import Node
    from ..repo.repository import Repository
    from ..repo.saver import BlobSaver

#: How much older than the moment of reading a status must be. Some filesystems keep whole seconds,
#: FAT two of them.
RACY_NS = 2_000_000_000

#: So many manifests are remembered.
_ABOUTS = 8

Mark = tuple[str, int, int, int, int, int]


def mark(name: str, status: os.stat_result) -> Mark:
    """What must be as it was; whatever changes a file or its metadata changes the last of these too."""
    return (name, status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def encode_marks(marks: list[Mark]) -> bytes:
    """Equal marks give equal bytes (which version 2 promises and later ones do not)."""
    return marshal.dumps(marks, 2)


class EarlierManifest(NamedTuple):
    """The manifest that an earlier snapshot carried."""

    digest: bytes  # of what it says, its time left aside
    content: bytes
    size: int
    time_ns: int


class KnownDirectory(NamedTuple):
    """The files of one directory as they were stored."""

    marks: bytes
    fresh: tuple[str, ...]  # names whose status was too young to be trusted
    contents: tuple[bytes, ...]  # ids of their blobs in a row
    stamps: tuple[int, ...]  # times and sizes of its databases as captured
    children: bytes  # hash of the nodes of its directories
    tree: bytes

    def by_name(self) -> dict[str, tuple[Mark, bytes]]:
        """Mark and content by name; without what cannot be trusted."""
        marks: list[Mark] = marshal.loads(self.marks)  # noqa: S302  (authenticated)
        fresh = set(self.fresh)
        return {
            one[0]: (one, content)
            for one, content in zip(marks, self.contents, strict=True)
            if one[0] not in fresh
        }


def marks_in(record: bytes) -> tuple[list[Mark], tuple[str, ...]]:
    """The marks of a directory's files out of its record, and the names whose mark cannot be trusted."""
    known = KnownDirectory(*marshal.loads(record))  # noqa: S302  (our own, or authenticated)
    return marshal.loads(known.marks), known.fresh  # noqa: S302


@dataclass(slots=True)
class KnownDatabase:
    """One database as it was captured last."""

    #: Its marks and those of its log and its journal; empty where they were too young to be trusted.
    identity: tuple[Mark | None, ...] = ()
    size: int = 0
    mtime_ns: int = 0
    block: int = 0
    ids: bytes = b""
    prints: bytes = b""  # fingerprints of its blocks
    segments: bytes = b""  # fingerprints of runs of blocks
    facts: DatabaseFacts = field(default_factory=lambda: DatabaseFacts("unverified", ""))
    remarks: list[Remark] = field(default_factory=list)
    checked_ns: int = 0  # when these very bytes were checked; 0: never
    last_check_ns: int = 0  # when any state of it was checked last


def identity_of(entry: Entry) -> tuple[Mark | None, ...]:
    """The marks of a database, its log and its journal; empty where they are not known."""
    if entry.status is None or not entry.beside:
        return ()
    return _identity(entry.status, entry.beside)


def identity_at(path: str) -> tuple[Mark | None, ...]:
    """The same of a database on disk; empty where there is none."""
    found: list[os.stat_result | None] = []
    for suffix in ("", "-wal", "-journal"):
        try:
            found.append(os.lstat(path + suffix))
        except OSError:
            found.append(None)
    return () if found[0] is None else _identity(found[0], found[1:])


def _identity(status: os.stat_result, others: Iterable[os.stat_result | None]) -> tuple[Mark | None, ...]:
    main, *beside = (None if one is None else mark("", one) for one in (status, *others))
    if os.geteuid() == 0:
        # SQLite gives a log that root opens the owner of its database, each time, our own reading
        # included: the time of that says nothing. The time of the last write still does.
        beside = [None if one is None else (*one[:5], 0) for one in beside]
    return main, *beside


def old_enough(identity: Iterable[Mark | None], now_ns: int) -> bool:
    """Whether any later change must show in the times."""
    limit = now_ns - RACY_NS
    return all(one is None or (one[4] < limit and one[5] < limit) for one in identity)


class Memory:
    """What is known of one selection of one home in one vault. An empty directory: nothing, for ever.

    `scope` says which selection, `questions` what databases are asked: other answers do not count.
    """

    def __init__(
        self, repository: Repository, directory: str, home: str, scope: str = "", questions: str = ""
    ) -> None:
        self._repository, self._directory = repository, directory
        self._asked = f"{home}\0{questions}"
        self._file = self._cache("files", f"{home}\0{scope}")
        self._databases: dict[str, tuple[KnownDatabase, bytes] | None] = {}
        self.print_key = derived(repository.key, "fingerprints")
        found = self._file.load()
        self._names: bytes = found["indexes"] if found else b""
        self._known: dict[str, bytes] = found["directories"] if found else {}
        #: The manifests of the last snapshots, newest first: each kind of snapshot has words of its own.
        self.abouts = tuple(EarlierManifest(*one) for one in found["abouts"]) if found else ()
        #: Whatever the caller wants to know again next time; plain values only.
        self.notes: dict[str, Any] = found["notes"] if found else {}
        self._there: dict[bytes, bool] = {}

    def _cache(self, kind: str, text: str) -> CacheFile:
        name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        repository = self._repository
        return CacheFile(self._directory, f"{kind}-{name}", repository.key, repository.id)

    def directory(self, path: str) -> KnownDirectory | None:
        found = self._known.get(path)
        # The file that it came from is authenticated.
        return None if found is None else KnownDirectory(*marshal.loads(found))  # noqa: S302

    def holds(self, path: str, names: list[str], changes: list[int]) -> bool:
        """Whether just these plain files of a directory are known, each with this time of its last change and
        each to be trusted. Where one is a database or a link: no."""
        known = self.directory(path)
        if known is None or known.fresh or known.stamps:
            return False
        marks: list[Mark] = marshal.loads(known.marks)  # noqa: S302  (authenticated)
        return [one[0] for one in marks] == names and [one[5] for one in marks] == changes

    def files_of(self, tree: bytes) -> list[Node]:
        """The files and links of a directory as they are stored."""
        return [node for node in self._repository.load_tree(tree).nodes if node.type != "dir"]

    def record(self, path: str) -> bytes:
        """What `directory` was made of."""
        return self._known[path]

    def encoded(self, path: str, new: KnownDirectory, known: KnownDirectory | None) -> bytes:
        """A record as it is kept; where nothing is new, the very one that was kept."""
        return self._known[path] if new == known else marshal.dumps(tuple(new))

    @property
    def indexed(self) -> bool:
        """Whether every blob named in `directory` is stored, without looking at each."""
        return self._still_there(self._names)

    def database(self, path: str) -> KnownDatabase | None:
        """What is known of a database, by its path in the home."""
        if path not in self._databases:
            self._databases[path] = self._load_database(path)
        found = self._databases[path]
        return found[0] if found else None

    def database_indexed(self, path: str) -> bool:
        """Whether every blob of that database is stored, without looking at each."""
        found = self._databases.get(path)
        return found is not None and self._still_there(found[1])

    def save(self, directories: dict[str, bytes], about: EarlierManifest, notes: dict[str, Any]) -> None:
        """Keep what a finished snapshot found; nothing is written where nothing is new."""
        abouts = self.abouts if about in self.abouts else (about, *self.abouts)[:_ABOUTS]
        if (directories, abouts, notes) == (self._known, self.abouts, self.notes) and self.indexed:
            return
        with contextlib.suppress(OSError):  # a cache that cannot be used is no error
            sweep_temporaries(self._directory)
        names = b"".join(sorted(self._sound_names()))
        self._file.save(
            {
                "indexes": names,
                "directories": directories,
                "abouts": [tuple(one) for one in abouts],
                "notes": notes,
            }
        )

    def save_database(self, path: str, known: KnownDatabase) -> None:
        facts = known.facts
        self._cache("database", f"{self._asked}\0{path}").save(
            {
                "indexes": b"".join(sorted(self._sound_names())),
                "identity": known.identity,
                "size": known.size,
                "mtime": known.mtime_ns,
                "block": known.block,
                "ids": known.ids,
                "prints": known.prints,
                "segments": known.segments,
                "facts": (
                    facts.state,
                    facts.method,
                    facts.detail,
                    facts.page_size,
                    facts.counts,
                    facts.lean,
                ),
                "remarks": [(one.outcome.value, one.reason, one.files, one.bytes) for one in known.remarks],
                "checked": known.checked_ns,
                "last check": known.last_check_ns,
            }
        )

    def _load_database(self, path: str) -> tuple[KnownDatabase, bytes] | None:
        found: Any = self._cache("database", f"{self._asked}\0{path}").load()
        if found is None:
            return None
        known = KnownDatabase(
            found["identity"],
            found["size"],
            found["mtime"],
            found["block"],
            found["ids"],
            found["prints"],
            found["segments"],
            DatabaseFacts(*found["facts"]),
            [Remark(path, Outcome(one[0]), one[1], one[2], one[3]) for one in found["remarks"]],
            found["checked"],
            found["last check"],
        )
        return known, found["indexes"]

    def _still_there(self, names: bytes) -> bool:
        if self._repository.index.doubted:
            return False
        if names not in self._there:
            sound = self._sound_names()
            self._there[names] = all(names[at : at + ID] in sound for at in range(0, len(names), ID))
        return self._there[names]

    def _sound_names(self) -> set[bytes]:
        return {bytes.fromhex(name) for name in self._repository.sound_indexes()}


def all_stored(saver: BlobSaver, ids: bytes) -> bool:
    """Whether every blob of a content is stored."""
    has, kind = saver.has, BlobKind.DATA
    return all(has(kind, ids[at : at + ID]) for at in range(0, len(ids), ID))
