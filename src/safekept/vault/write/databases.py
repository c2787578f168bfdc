"""Databases on their way into a snapshot: left unread, or captured and stored block by block.

One whose file, log and journal are what they were is not opened: what was known about it is reported
again, the check of those very bytes included.
"""

from __future__ import annotations

import collections
import concurrent.futures
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from typing import NamedTuple

from blake3 import blake3

from safekept.core.entries import CHUNK, Content, DatabaseFacts, Entry, Outcome, Remark
from safekept.core.records import dataclass

from ..format.blobs import ID, BlobKind, blob_id
from ..format.go_text import format_time
from ..repo.saver import BlobSaver
from .memory import KnownDatabase, Memory, all_stored, identity_of, old_enough
from .trees import StoredItem

# What a snapshot holds, what it does not, and what is known of the databases in it.


@dataclass(frozen=True, slots=True)
class StoredDatabase:
    """What is known of a database in the snapshot."""

    facts: DatabaseFacts
    checked_ns: int  # when these bytes were checked; 0: never
    read: bool  # False: it was as it had been, and was not read
    lay: int = 0  # its bytes where it lay, what was beside it included; what is stored may be less

    def as_dict(self) -> dict[str, object]:
        checked = format_time(self.checked_ns, 0) if self.checked_ns else None
        return {**self.facts.as_dict(), "counts": dict(self.facts.counts), "checked": checked}


def bytes_there(entry: Entry) -> int:
    """What a database and what lies beside it took when it was looked at."""
    found = (entry.status, *entry.beside)
    return sum(one.st_size for one in found if one is not None)


@dataclass(slots=True)
class SnapshotAccount:
    """What a snapshot holds and what it does not."""

    files: int = 0  # links included
    bytes: int = 0
    reused: int = 0  # files whose content was known and not read
    new: int = 0
    changed: int = 0
    remarks: list[Remark] = field(default_factory=list)
    databases: dict[str, StoredDatabase] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not any(remark.incomplete for remark in self.remarks)

    @property
    def lacks(self) -> dict[str, object]:
        """Why it is incomplete, for a list; the manifest has all of it."""
        found = [remark for remark in self.remarks if remark.incomplete]
        return {"path": found[0].path, "outcome": found[0].outcome.value, "count": len(found)}

    def unread(self, files: int, size: int) -> None:
        """Files that are what they were, and were not read."""
        self.files += files
        self.reused += files
        self.bytes += size

    def name_what_is_no_database(self, now_ns: int) -> None:
        """A file that should be a database and is none is a damaged one, wherever databases are asked for."""
        for remark in self.remarks:
            if remark.outcome is Outcome.DAMAGED and remark.path not in self.databases:
                facts = DatabaseFacts("damaged", "raw", remark.reason)
                self.databases[remark.path] = StoredDatabase(facts, now_ns, True)


# Databases in page-aligned blocks of one size, so that a day of change costs what changed. SQLite never
# moves bytes, so a block that did not change is the same block at the same place. Blocks are not even
# hashed for that: a keyed fingerprint tells whether a run of blocks is what it was, then each block of a
# run that is not, and only what is new is named by SHA-256 and stored. Reading, fingerprints and storing
# overlap: each leaves the interpreter to the others.

#: Bytes under one fingerprint at the first look: large enough that calls cost nothing, small enough
#: that one changed page does not make a megabyte be looked at twice.
SEGMENT = 1 << 17
_PRINT = 32
_AHEAD = 6  # pieces of a megabyte that are read before the oldest of them is done


def block_size(size: int) -> int:
    """How large the blocks of a database are: by its size alone, so that it is the same every time.

    Small blocks store less of a change; but each snapshot stores the list of all blocks again. Pages
    are powers of two, so a page is a part of a block, or a few whole blocks.
    """
    block = 16 << 10
    for limit in (128 << 20, 2 << 30):
        if size > limit:
            block *= 2
    return block


@dataclass(frozen=True, slots=True)
class Blocks:
    """A database as it was stored."""

    size: int
    block: int
    ids: bytes
    prints: bytes
    segments: bytes


class _Done(NamedTuple):
    ids: bytes
    prints: bytes
    segments: bytes


class BlockStore:
    """Stores the databases of one snapshot. Close it, or use it in a `with`."""

    def __init__(self, saver: BlobSaver, key: bytes) -> None:
        self._saver, self._key = saver, key
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None

    def store(
        self,
        content: Content,
        known: KnownDatabase | None,
        indexed: bool,
        progress: Callable[[int], None] = lambda size: None,
    ) -> Blocks:
        """Take every byte of a capture. `indexed`: the blobs of `known` need not be looked up."""
        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(2, "vault-blocks")
        block = block_size(content.size)
        old = known if known is not None and known.block == block else None
        done: list[_Done] = []
        waiting: collections.deque[concurrent.futures.Future[_Done]] = collections.deque()
        size = 0
        try:
            for piece in pieces(content.chunks()):
                waiting.append(self._threads.submit(self._take, piece, size, block, old, indexed))
                size += len(piece)
                if len(waiting) > _AHEAD:
                    done.append(waiting.popleft().result())
                    progress(size)
            while waiting:
                done.append(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()
        parts = (b"".join(part) for part in zip(*done, strict=True)) if done else (b"", b"", b"")
        return Blocks(size, block, *parts)

    def _take(
        self, piece: bytes, start: int, block: int, known: KnownDatabase | None, indexed: bool
    ) -> _Done:
        key, view = self._key, memoryview(piece)
        ids, prints, segments = [], [], []
        for at in range(0, len(piece), SEGMENT):
            segment = view[at : at + SEGMENT]
            fingerprint = blake3(segment, key=key).digest()
            segments.append(fingerprint)
            first = (start + at) // block * ID
            last = first + -(-len(segment) // block) * ID
            number = (start + at) // SEGMENT * _PRINT
            if known is not None and known.segments[number : number + _PRINT] == fingerprint:
                found = known.ids[first:last]
                # The last run of an older state may be shorter than the same bytes of a longer one.
                if len(found) == last - first and (indexed or self._stored(found)):
                    ids.append(found)
                    prints.append(known.prints[first:last])
                    continue
            for offset in range(0, len(segment), block):
                data = segment[offset : offset + block]
                fingerprint = blake3(data, key=key).digest()
                prints.append(fingerprint)
                place = first + offset // block * ID
                if known is not None and known.prints[place : place + _PRINT] == fingerprint:
                    blob = known.ids[place : place + ID]
                    if indexed or self._saver.has(BlobKind.DATA, blob):
                        ids.append(blob)
                        continue
                blob = blob_id(data)
                ids.append(self._saver.save(BlobKind.DATA, data, known=blob))
        return _Done(b"".join(ids), b"".join(prints), b"".join(segments))

    def _stored(self, ids: bytes) -> bool:
        return all(
            self._saver.has(BlobKind.DATA, ids[place : place + ID]) for place in range(0, len(ids), ID)
        )

    def close(self) -> None:
        """Let the threads go. What they still hold is bytes, and is not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of exactly CHUNK, but for the last."""
    rest = b""
    for chunk in chunks:
        if not rest and len(chunk) == CHUNK:
            yield chunk
            continue
        rest += chunk
        while len(rest) >= CHUNK:
            yield rest[:CHUNK]
            rest = rest[CHUNK:]
    if rest:
        yield rest


Reread = Callable[[str, KnownDatabase], bool]


class DatabaseIntake:
    """The databases of one snapshot. Close it."""

    def __init__(
        self, saver: BlobSaver, memory: Memory, account: SnapshotAccount, reread: Reread, started: int
    ) -> None:
        self._saver, self._memory, self._account, self._reread = saver, memory, account, reread
        self._started = started
        self._blocks = BlockStore(saver, memory.print_key)
        #: Those that were read, for the next snapshot to know.
        self.read: dict[str, KnownDatabase] = {}

    def close(self) -> None:
        self._blocks.close()

    def unread(self, entry: Entry) -> KnownDatabase | None:
        """What is known of a database that is as it was; None: it must be read."""
        known, identity = self._memory.database(entry.path), identity_of(entry)
        if known is None or not identity or identity != known.identity or self._reread(entry.path, known):
            return None
        if not self._memory.database_indexed(entry.path) and not all_stored(self._saver, known.ids):
            return None
        if entry.known is not None and not entry.known(known.facts):
            return None
        self._account.databases[entry.path] = StoredDatabase(
            known.facts, known.checked_ns, False, bytes_there(entry)
        )
        self._account.remarks += known.remarks
        return known

    def store(self, entry: Entry, progress: Callable[[int], None]) -> StoredItem:
        """Capture a database and store what is new of it."""
        known = self._memory.database(entry.path)
        indexed = self._memory.database_indexed(entry.path)
        now = time.time_ns()
        with entry.open() as content:
            blocks = self._blocks.store(content, known, indexed, progress)
            facts, remarks = content.database, list(content.remarks)
            mtime_ns = content.mtime_ns
        facts = facts or DatabaseFacts("unverified", "")
        checked_ns = 0 if facts.state == "unverified" else now
        last_check_ns = checked_ns or (known.last_check_ns if known else 0)
        unchanged = known is not None and known.ids == blocks.ids and known.size == blocks.size
        if unchanged and known is not None and not checked_ns and known.checked_ns:
            # The very bytes that were checked before.
            old = known.facts
            facts = replace(facts, state=old.state, detail=old.detail)
            checked_ns = known.checked_ns
            remarks += [remark for remark in known.remarks if remark.outcome is Outcome.DAMAGED]
        identity = identity_of(entry)
        new = KnownDatabase(
            identity if old_enough(identity, self._started) else (),
            blocks.size,
            mtime_ns,
            blocks.block,
            blocks.ids,
            blocks.prints,
            blocks.segments,
            facts,
            remarks,
            checked_ns,
            last_check_ns,
        )
        self.read[entry.path] = new
        self._account.databases[entry.path] = StoredDatabase(facts, checked_ns, True, bytes_there(entry))
        self._account.remarks += remarks
        return database_item(entry, new)


def database_item(entry: Entry, known: KnownDatabase) -> StoredItem:
    return StoredItem(entry, known.mtime_ns, known.size, known.ids, copy=True)


def stamps(databases: Iterable[KnownDatabase | None]) -> tuple[int, ...]:
    """What a node of a database says beside its content and the status of its file."""
    return tuple(number for one in databases if one is not None for number in (one.mtime_ns, one.size))
