"""Open packs and the thread that stores them: pack, then its index entry, then the next.

Sealed blobs are gathered into one open pack for trees and one for data (never mixed). A full pack
goes through a short queue to one thread that writes it durably and only then adds it to the index
in memory. An index file is written every 50,000 blobs or every minute, so that a first snapshot
that is killed resumes where its last index file ends.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from safekept.core.worker import Worker

from ..format.blobs import BlobKind, PackEntry
from ..format.pack import PackBuilder
from ..storage.base import FileKind
from .index import LONGEST_WAIT, MOST_BLOBS, Index, encode_index
from .sealed_files import save_file, seal_file

if TYPE_CHECKING:
    from .locks import Lock
    from .repository import Repository

_WAITING = 2  # full packs in memory, beside the one that is being written


class Packer:
    """Takes sealed blobs, makes packs and index files of them."""

    def __init__(
        self,
        repository: Repository,
        index: Index,
        lock: Lock | None,
        stored: Callable[[list[PackEntry]], None],
    ) -> None:
        self._repository, self._index, self._lock, self._stored = repository, index, lock, stored
        self._open: dict[BlobKind, PackBuilder] = {}
        self._mutex = threading.Lock()
        self._full: queue.Queue[PackBuilder | None] = queue.Queue(_WAITING)
        self._unsaved: list[tuple[bytes, list[PackEntry]]] = []
        self._since = 0.0
        self._worker: Worker | None = None
        self._stored_one = threading.Condition()
        self._under_way = 0  # full packs that were handed over and are not stored yet
        self.error: BaseException | None = None
        self.bytes_stored = 0

    def add(self, kind: BlobKind, blobs: list[tuple[bytes, bytes, int]]) -> None:
        """Blobs as id, sealed bytes and plain length (0: not compressed). Waits while the queue is full."""
        full = []
        with self._mutex:
            for blob, sealed, plain in blobs:
                builder = self._open.get(kind)
                if builder is None:
                    builder = self._open[kind] = PackBuilder(kind)
                builder.append(blob, sealed, plain)
                if builder.full:
                    full.append(self._open.pop(kind))
        for builder in full:
            self._hand_over(builder)

    def flush(self) -> None:
        """Every blob in a stored pack, every pack in a stored index; or the error that stopped it."""
        with self._mutex:
            rest = [self._open.pop(kind) for kind in list(self._open)]
        for builder in rest:
            self._hand_over(builder)
        self._wait_until_stored()
        if self.error is not None:
            raise self.error
        self._save_index()

    def finish(self, snapshot: tuple[str, bytes], ready: Callable[[], None]) -> None:
        """`flush`, and then a sealed snapshot, all in one batch: the disk is waited for once for their bytes.

        `ready` is asked when the packs are stored, and raises where the snapshot must not be seen.
        """
        with self._mutex:
            rest = [self._open.pop(kind) for kind in list(self._open)]
        self._wait_until_stored()
        if self.error is not None:
            raise self.error
        if self._lock is not None:
            self._lock.check()
        storage, key = self._repository.storage, self._repository.key
        with storage.batch() as batch:
            packs = [(bytes.fromhex(builder.finish(key)), builder.entries) for builder in rest]
            for (pack, _), builder in zip(packs, rest, strict=True):
                batch.add(FileKind.PACK, pack.hex(), builder.data)
            index, sealed = "", b""
            if unsaved := [*self._unsaved, *packs]:
                index, sealed = seal_file(key, FileKind.INDEX, encode_index(unsaved))
                batch.add(FileKind.INDEX, index, sealed)
            batch.add(FileKind.SNAPSHOT, *snapshot)
            batch.publish(FileKind.PACK)
            self._unsaved = unsaved
            for (pack, entries), builder in zip(packs, rest, strict=True):
                self._has_stored(pack, entries, len(builder.data))
            if index:
                self._prove_lock()
                batch.publish(FileKind.INDEX)
                self._repository.index_written(self._index, index)
                self._unsaved = []
            ready()
            batch.publish(FileKind.SNAPSHOT)

    def close(self, *, failed: bool = False) -> None:
        """End the thread. After a failure or an interrupt, the packs that did arrive are named afterwards.

        A second Ctrl-C does not cut that short: it is raised at the end. Only the thread's own end is waited
        for: a signal may have come between a pack and its count, and the count is wrong then for ever.
        """
        try:
            if self._worker is not None:
                self._end(self._worker)
                self._worker = None
        finally:
            if failed:
                self._name_what_is_stored()

    def _end(self, worker: Worker) -> None:
        interrupt: BaseException | None = None
        while worker.running:
            try:
                with contextlib.suppress(queue.Full):
                    self._full.put(None, timeout=1.0)
                worker.wait(timeout=1.0)
            except BaseException as error:  # only a signal can raise here
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _name_what_is_stored(self) -> None:
        try:
            self._save_index()
        except Exception as error:  # the first error is the one to report
            self.error = self.error or error

    def _hand_over(self, builder: PackBuilder) -> None:
        try:
            with self._stored_one:
                self._under_way += 1
                if self._worker is None:
                    self._worker = Worker(self._run, "vault-packer")
            self._full.put(builder)
        except BaseException as error:
            # Interrupted: whether this pack is on its way is not known, so nothing may be built on it.
            self.error = self.error or error
            raise

    def _wait_until_stored(self) -> None:
        with self._stored_one:
            while self._under_way > 0 and self.error is None:
                self._stored_one.wait()

    def _one_less(self) -> None:
        with self._stored_one:
            self._under_way -= 1
            self._stored_one.notify_all()

    def _run(self) -> None:
        while (builder := self._full.get()) is not None:
            try:
                if self.error is None:
                    self._store(builder)
            except BaseException as error:
                self.error = error
            finally:
                self._one_less()

    def _store(self, builder: PackBuilder) -> None:
        if self._lock is not None:
            self._lock.check()
        name = builder.finish(self._repository.key)
        self._repository.storage.write(FileKind.PACK, name, builder.data)
        size, builder.data = len(builder.data), bytearray()
        if not self._unsaved:
            self._since = time.monotonic()
        pack = bytes.fromhex(name)
        self._unsaved.append((pack, builder.entries))
        self._has_stored(pack, builder.entries, size)
        waited = time.monotonic() - self._since
        if waited >= LONGEST_WAIT or sum(len(entries) for _, entries in self._unsaved) >= MOST_BLOBS:
            self._save_index()

    def _has_stored(self, pack: bytes, entries: list[PackEntry], size: int) -> None:
        self.bytes_stored += size
        self._index.add(pack, entries)
        self._stored(entries)

    def _prove_lock(self) -> None:
        if self._lock is not None:
            self._lock.prove()

    def _save_index(self) -> None:
        if not self._unsaved:
            return
        self._prove_lock()
        text = encode_index(self._unsaved)
        name = save_file(self._repository.storage, self._repository.key, FileKind.INDEX, text)
        self._repository.index_written(self._index, name)
        self._unsaved = []
