"""Storing blobs with both cores: hash, look, and only what is new is compressed, sealed and proven.

The caller's thread hashes and asks the index. New blobs go in batches of about a megabyte to a
few workers, each batch in calls that leave the interpreter lock alone: compress all, seal all, then
open, decompress and hash all again before a byte is stored. Batches in flight and packs in the
queue are bounded, so memory stays flat whatever the size of a home.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Collection
from types import TracebackType
from typing import TYPE_CHECKING, Self

from safekept.core.records import dataclass

from ..errors import LockLost, NotProven
from ..format.blobs import BlobKind, Buffer, PackEntry, blob_id
from ..format.compression import BadCompression, compress_many, decompress_many
from ..format.crypto import Unauthentic
from ..format.snapshot import Snapshot
from ..storage.base import FileKind
from .index import find_lost_packs
from .packer import Packer
from .sealed_files import seal_file

if TYPE_CHECKING:
    from .locks import Lock
    from .repository import Repository


_BATCH = 1 << 20  # bytes of blobs that one worker takes at once
_LITTLE = 128 << 10
_LARGEST = 1 << 31
#: Blobs up to this size are compressed at this level. Measured on blocks of 32 KiB of a chat database:
#: level 3 is 1 % smaller and takes twice as long; on large texts it is 19 % smaller.
_SMALL, _QUICK = 64 << 10, 1


@dataclass(slots=True)
class Saved:
    """What was really added."""

    data_blobs: int = 0
    tree_blobs: int = 0
    bytes_added: int = 0  # plain
    bytes_stored: int = 0  # sealed, without pack headers


class BlobSaver:
    """Stores blobs in one vault. `save` may be called from several threads.

    In a `with` block: leaving it normally flushes, leaving it by an exception keeps what already
    arrived (indexed, so that the next try builds on it) and writes no snapshot.
    """

    def __init__(self, repository: Repository, lock: Lock | None, *, level: int, workers: int) -> None:
        self._repository, self._lock, self._level = repository, lock, level
        self._index = repository.index
        #: Packs of the vault that are missing or cut: what they held is stored again.
        self._lost = find_lost_packs(repository.storage, self._index)
        self._index.doubt(self._lost)
        self._packer = Packer(repository, self._index, lock, self._arrived)
        self._mutex = threading.Lock()
        self._counting = threading.Lock()  # its own: a caller may wait for a worker with the other held
        self._pending: dict[BlobKind, set[bytes]] = {kind: set() for kind in BlobKind}
        self._batch: dict[BlobKind, list[tuple[bytes, Buffer]]] = {kind: [] for kind in BlobKind}
        self._batch_size = dict.fromkeys(BlobKind, 0)
        self._room = threading.BoundedSemaphore(2 * workers)
        self._workers = concurrent.futures.ThreadPoolExecutor(workers, "vault-saver")
        self._running: set[concurrent.futures.Future[None]] = set()
        self._error: BaseException | None = None
        self.saved = Saved()

    def has(self, kind: BlobKind, blob: bytes) -> bool:
        """Whether a blob is stored, or on its way in this saver."""
        return blob in self._pending[kind] or self._index.has(kind, blob)

    def save(self, kind: BlobKind, data: Buffer, known: bytes | None = None) -> bytes:
        """Store one blob where it is not stored yet; its id. `data` must not change afterwards.

        `known` is its id where the caller has it already. Whatever is stored is hashed again, so a
        wrong one is noticed, unless another blob of that id is stored: then that one is referred to.
        So a cache that gives ids must prove itself.
        """
        blob = known or blob_id(data)
        size = memoryview(data).nbytes
        if not 0 < size < _LARGEST:
            raise ValueError(f"a blob of {size} bytes cannot be stored")
        if self.has(kind, blob):
            return blob
        with self._mutex:
            self._raise_error()
            if self.has(kind, blob):
                return blob
            self._pending[kind].add(blob)
            self._batch[kind].append((blob, data))
            self._batch_size[kind] += size
            if self._batch_size[kind] >= _BATCH:
                self._submit(kind)
        return blob

    def gather(self) -> None:
        """Return when everything saved so far is sealed and on its way: `saved` counts all of it."""
        with self._mutex:
            for kind in BlobKind:
                if self._running or self._batch_size[kind] > _LITTLE:
                    self._submit(kind)
                else:
                    self._work_here(kind)
            running = list(self._running)
        concurrent.futures.wait(running)
        self._raise_error()

    def flush(self) -> None:
        """Return when everything saved so far is durable and in a durable index."""
        self.gather()
        self._packer.flush()
        self._raise_error()

    def finish(self, snapshot: Snapshot) -> Snapshot:
        """Flush, then write the snapshot that makes it all visible; the snapshot with its id."""
        self.gather()
        text = snapshot.to_json()
        name, sealed = seal_file(self._repository.key, FileKind.SNAPSHOT, text)
        self._packer.finish((name, sealed), lambda: self._check(snapshot))
        saved = Snapshot.from_json(name, text)
        try:
            # A lock that is there now was there when the snapshot became visible: the one that cleared it
            # away later, and pruned, has seen the snapshot first.
            if self._lock is not None:
                self._lock.prove()
        except BaseException:
            self._repository.delete_snapshot(saved.id)
            raise
        return saved

    @property
    def lost_packs(self) -> int:
        """How many packs of the vault were missing or cut at the beginning."""
        return len(self._lost)

    def _check(self, snapshot: Snapshot) -> None:
        """What a snapshot names is stored: our lock is there, and so is every pack that was counted."""
        if any(self._pending.values()):
            raise NotProven.of("snapshot")  # cannot be; it would refer to what never arrived
        if not self._index.has(BlobKind.TREE, snapshot.tree):
            raise ValueError("the tree of this snapshot was never saved")
        if self._lock is None:
            return
        self._lock.prove()
        gone = find_lost_packs(self._repository.storage, self._index) - self._lost
        if gone:
            raise LockLost.packs_gone(self._repository.storage.location, len(gone))

    def close(self, *, failed: bool = False) -> None:
        if failed:
            self._error = self._error or RuntimeError("this saver was closed")
        # Not `shutdown(wait=True)`: its joins take a running thread for ended after a Ctrl-C.
        self._workers.shutdown(wait=False, cancel_futures=failed)
        try:
            wait_through_signals(self._running)
        finally:
            self._packer.close(failed=failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = True
        try:
            if error is None:
                self.flush()
                failed = False
        finally:
            self.close(failed=failed)

    def _submit(self, kind: BlobKind) -> None:
        if not self._batch[kind]:
            return
        try:
            self._room.acquire()
            batch = self._batch[kind]
            self._batch[kind], self._batch_size[kind] = [], 0
            future = self._workers.submit(self._work, kind, batch)
            self._running.add(future)
            future.add_done_callback(self._done)
        except BaseException as error:
            # An interrupt in here may have cost the batch: nothing may be built on this saver any more.
            self._error = self._error or error
            raise

    def _work_here(self, kind: BlobKind) -> None:
        """A little is done sooner by the caller's own thread than one is started for it."""
        if not self._batch[kind]:
            return
        try:
            batch = self._batch[kind]
            self._batch[kind], self._batch_size[kind] = [], 0
            self._work(kind, batch)
        except BaseException as error:
            self._error = self._error or error
            raise

    def _done(self, future: concurrent.futures.Future[None]) -> None:
        with contextlib.suppress(ValueError):
            self._room.release()
        self._running.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            self._error = self._error or error

    def _work(self, kind: BlobKind, batch: list[tuple[bytes, Buffer]]) -> None:
        if self._error is not None or self._packer.error is not None:
            return
        sizes = [memoryview(data).nbytes for _, data in batch]
        frames = self._compressed([data for _, data in batch], sizes)
        bodies, plains = [], []
        for (_, data), frame, size in zip(batch, frames, sizes, strict=True):
            # Trees are always compressed (restic rewrites others); data only where that gains.
            smaller = kind is BlobKind.TREE or memoryview(frame).nbytes < size
            bodies.append(frame if smaller else data)
            plains.append(size if smaller else 0)
        sealed = self._repository.key.seal_many(bodies)
        ids = [blob for blob, _ in batch]
        self._prove(ids, sealed, plains)
        self._packer.add(kind, list(zip(ids, sealed, plains, strict=True)))
        with self._counting:
            if kind is BlobKind.TREE:
                self.saved.tree_blobs += len(batch)
            else:
                self.saved.data_blobs += len(batch)
            self.saved.bytes_added += sum(sizes)
            self.saved.bytes_stored += sum(map(len, sealed))

    def _compressed(self, blobs: list[Buffer], sizes: list[int]) -> list[Buffer]:
        """One frame for each. Small blobs (blocks of databases) gain next to nothing from a higher level."""
        if self._level <= _QUICK:
            return compress_many(blobs, self._level)
        frames: list[Buffer] = list(blobs)
        for level, chosen in (
            (_QUICK, [number for number, size in enumerate(sizes) if size <= _SMALL]),
            (self._level, [number for number, size in enumerate(sizes) if size > _SMALL]),
        ):
            if chosen:
                made = compress_many([blobs[number] for number in chosen], level)
                for number, frame in zip(chosen, made, strict=True):
                    frames[number] = frame
        return frames

    def _prove(self, ids: list[bytes], sealed: list[bytes], plains: list[int]) -> None:
        """Decode what was encoded, before anything is stored: bad memory must not become a backup."""
        try:
            bodies: list[Buffer] = list(self._repository.key.open_many(sealed))
            squeezed = [number for number, plain in enumerate(plains) if plain]
            if squeezed:
                contents = decompress_many(
                    [bodies[number] for number in squeezed], [plains[number] for number in squeezed]
                )
                for number, content in zip(squeezed, contents, strict=True):
                    bodies[number] = content
        except (Unauthentic, BadCompression) as error:
            raise NotProven.of("piece of data") from error
        if any(blob_id(body) != blob for blob, body in zip(ids, bodies, strict=True)):
            raise NotProven.of("piece of data")

    def _arrived(self, entries: list[PackEntry]) -> None:
        # They are in the index now; forgetting them here keeps a first snapshot's memory flat.
        for entry in entries:
            self._pending[entry.kind].discard(entry.id)

    def _raise_error(self) -> None:
        error = self._error or self._packer.error
        if error is not None:
            raise error


def wait_through_signals(running: Collection[concurrent.futures.Future[None]]) -> None:
    """Wait for the end of work through any number of signals; what the last one raised comes afterwards."""
    interrupt: BaseException | None = None
    while waiting := [future for future in tuple(running) if not future.done()]:
        try:
            concurrent.futures.wait(waiting)
        except BaseException as error:  # only a signal can raise here
            interrupt = error
    if interrupt is not None:
        raise interrupt
