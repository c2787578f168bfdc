"""What both formats share while an archive is written.

A container packs small entries into batches on the caller's thread and writes large ones piece by
piece on the other lane. Pieces are compressed on a small pool of threads and written in order.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from safekept.core.entries import CHUNK, Content, Entry, EntryLost, Kind, Outcome, Remark
from safekept.core.events import Event, Listener
from safekept.core.worker import Digest

from .account import ArchiveAccount, Spool
from .lanes import Batch, Job, Sink
from .manifest import Record
from .output import Target

#: Up to this size an entry is read whole and batched with others.
SMALL = CHUNK
#: Pieces being compressed or waiting to be written, of one large entry.
IN_FLIGHT = 6
#: Up to here an entry of the large lane is packed in one go, so that the next can be read meanwhile.
WHOLE = 4 << 20


#: An archive holds every byte of a file, and its hash: a hole costs time like anything else.
_MOST_HOLES = 64 << 30


def _too_many_holes(entry: Entry, content: Content) -> Remark:
    reason = (
        f"not stored: {content.holes:,} of its {content.size:,} bytes are holes, which an archive would have "
        "to hold one by one; a snapshot keeps it"
    )
    return Remark(entry.path, Outcome.UNREADABLE, reason, bytes=content.size)


class Container(ABC):
    """One archive being written."""

    form: str

    def __init__(self, output: Target, threads: int, listener: Listener) -> None:
        self.output, self.listener = output, listener
        self.sink = Sink()
        self.account = ArchiveAccount()
        self.lines = Spool(output.directory, veiled=output.sealed)
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="safekept-pack")
        self._said = 0

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
        self.lines.close()

    # -- the caller's thread ---------------------------------------------------------------------

    @abstractmethod
    def add_plain(self, record: Record) -> None:
        """A directory or a link."""

    @abstractmethod
    def add_small(self, record: Record, data: bytes) -> None:
        """A file that is in memory; goes into the batch under way."""

    @abstractmethod
    def flush(self) -> None:
        """Hand the batch under way to the sink."""

    # -- the lane of large entries ---------------------------------------------------------------

    def add_large(self, job: Job) -> None:
        """One entry of any size, from opening to its last byte."""
        entry, content = job
        try:
            if content is None:
                content = entry.open()
        except EntryLost as lost:
            self.account.remark(lost.remark)
            return
        except OSError as error:
            self.account.remark(unreadable(entry.path, error))
            return
        with content:
            if content.holes > _MOST_HOLES:
                self.account.remark(_too_many_holes(entry, content))
                return
            record = record_of(entry, content)
            if content.size <= WHOLE:
                self._add_whole(record, content)
                return
            self.sink.begin()
            try:
                self._stream(record, content)
            finally:
                self.sink.end()

    def _add_whole(self, record: Record, content: Content) -> None:
        data = read_whole(record, content, self.account)
        if data is not None:
            self.sink.offer(self._batch_of_one(record, data))
            self.account.stored(record, content.remarks)
            self.progress(record.path)

    @abstractmethod
    def _batch_of_one(self, record: Record, data: bytes) -> Batch:
        """A batch for the other lane, which must not touch the one under way."""

    @abstractmethod
    def _stream(self, record: Record, content: Content) -> None:
        """Write one large entry; the output is ours until this returns."""

    # -- the end ---------------------------------------------------------------------------------

    @abstractmethod
    def finish(self, head: bytes, readme: bytes, identity: dict[str, object]) -> None:
        """Write the manifest and whatever ends the format."""

    # -- shared ----------------------------------------------------------------------------------

    def progress(self, path: str) -> None:
        """Say how far we are, at most once every few megabytes."""
        done = self.account.bytes
        if done - self._said >= 4 << 20:
            self._said = done
            self.listener(Event("store", done=done, path=path))

    def pieces(self, record: Record, content: Content, size: int, digest: Digest) -> Iterator[bytes]:
        """Content in pieces of exactly `size` but the last; hashes on the way, stops when abandoned."""
        total = reported = 0
        rest: list[bytes] = []
        held = 0
        for chunk in content.chunks():
            if self.sink.failed.is_set():
                raise RuntimeError("abandoned")
            digest.update(chunk)
            total += len(chunk)
            if total > content.size:
                break
            if total - reported >= 8 << 20:
                reported = total
                self.listener(Event("store", done=self.account.bytes + total, path=record.path))
            if not held and len(chunk) == size:
                yield chunk
                continue
            rest.append(chunk)
            held += len(chunk)
            if held >= size:
                joined = b"".join(rest)
                for start in range(0, held - size + 1, size):
                    yield joined[start : start + size]
                joined = joined[held - held % size :]
                rest, held = ([joined], len(joined)) if joined else ([], 0)
        if total != content.size:
            raise EntryLost(
                Remark(record.path, Outcome.UNREADABLE, f"{total} bytes came out of {content.size}")
            )
        if held:
            yield b"".join(rest)


def record_of(entry: Entry, content: Content) -> Record:
    return Record(
        entry.path, Kind.FILE, entry.mode & 0o7777, content.mtime_ns or entry.mtime_ns, content.size
    )


def read_whole(record: Record, content: Content, account: ArchiveAccount) -> bytes | None:
    """The bytes of a small entry with its record completed; None, and a remark, if it cannot be read."""
    try:
        chunks = list(content.chunks())
    except EntryLost as lost:
        account.remark(lost.remark)
        return None
    except OSError as error:
        account.remark(unreadable(record.path, error))
        return None
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if len(data) != content.size:
        account.remark(
            Remark(record.path, Outcome.UNREADABLE, f"{len(data)} bytes came out of {content.size}")
        )
        return None
    record.sha256 = hashlib.sha256(data).hexdigest()
    if content.database is not None:
        record.database = content.database.as_dict()
    return data


def unreadable(path: str, error: OSError) -> Remark:
    return Remark(path, Outcome.UNREADABLE, error.strerror or str(error))
