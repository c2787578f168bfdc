"""Reading blobs fast: neighbours in one read, decoding ahead on the other core, every hash proven.

A file's blobs mostly lie side by side in a pack, in the file's order. They are read together, a few
megabytes at a time. Small files are served from a window of the pack that was read for the first
of them, since their neighbours follow. Where a place turns out damaged, another one is tried.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

from safekept.core.entries import CHUNK, ZEROS

from ..errors import VaultDamaged
from ..format.blobs import HOLE, HOLE_ID, ID, BlobKind, Buffer, Location, blob_id
from ..format.compression import BadCompression, decompress_many
from ..format.crypto import Unauthentic
from ..storage.base import FileKind, NotStored

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from .repository import Repository

_RUN = 4 << 20  # plain bytes that are decoded in one go
_GAP = 64 << 10  # stored bytes that are cheaper to read and drop than to skip
_WINDOW = 512 << 10
_WINDOWS = 16
_AHEAD = 2

_Wanted = tuple[bytes, Location]


class BlobLoader:
    """Gives blobs back. Safe from several threads."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._windows: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._mutex = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def load(self, kind: BlobKind, blob: bytes) -> bytes:
        """One blob, from whichever of its places is sound; VaultDamaged where none is."""
        reason = "it is in no pack of this vault"
        for location in self._repository.locations(kind, blob):
            try:
                return bytes(memoryview(self._decode([(blob, location)])[0]))
            except _Unsound as unsound:
                reason = str(unsound)
        raise VaultDamaged.blob("data" if kind is BlobKind.DATA else "directory", blob.hex(), reason)

    def stream(self, content: bytes) -> Iterator[bytes]:
        """The bytes of a file from the ids of its blobs in a row, in pieces of at most CHUNK."""
        start = at = 0
        while (at := content.find(HOLE_ID, at)) >= 0:
            if at % ID:
                at += 1
                continue
            yield from self._stored(content[start:at])
            # By its name it is nothing but zeros: there is nothing to read and nothing to prove.
            yield from repeat(ZEROS, HOLE // len(ZEROS))
            start = at = at + ID
        yield from self._stored(content[start:])

    def _stored(self, content: bytes) -> Iterator[bytes]:
        tasks = _tasks(self._runs(content))
        first = next(tasks, None)
        second = next(tasks, None)
        if first is None:
            return
        if second is None:
            yield from _pieces(self._decode_all(first))
            return
        pool = self._executor()
        ahead = deque(pool.submit(self._decode_all, task) for task in (first, second))
        try:
            while ahead:
                if len(ahead) < _AHEAD and (task := next(tasks, None)) is not None:
                    ahead.append(pool.submit(self._decode_all, task))
                decoded = ahead.popleft().result()
                if (task := next(tasks, None)) is not None:
                    ahead.append(pool.submit(self._decode_all, task))
                yield from _pieces(decoded)
        finally:
            for future in ahead:
                future.cancel()

    def open_run(self, run: list[_Wanted]) -> Future[list[Buffer] | None]:
        """Open neighbouring blobs of one pack on another core; None where one of them is not sound."""
        return self._executor().submit(self._decode_if_sound, run)

    def _decode_if_sound(self, run: list[_Wanted]) -> list[Buffer] | None:
        try:
            return self._decode(run)
        except _Unsound:
            return None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._windows.clear()

    def _executor(self) -> ThreadPoolExecutor:
        with self._mutex:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(2, "vault-loader")
            return self._pool

    def _runs(self, content: bytes) -> Iterator[list[_Wanted]]:
        """Neighbouring blobs of one pack, up to _RUN plain bytes."""
        run: list[_Wanted] = []
        plain = 0
        for at in range(0, len(content), ID):
            blob = content[at : at + ID]
            found = self._repository.index.lookup(BlobKind.DATA, blob)
            if found is None:
                found = next(iter(self._repository.locations(BlobKind.DATA, blob)), None)
            if found is None:
                if run:
                    yield run
                raise VaultDamaged.blob("data", blob.hex(), "it is in no pack of this vault")
            size = found.plain or found.length
            if run:
                last = run[-1][1]
                gap = found.offset - last.offset - last.length
                if last.pack != found.pack or not 0 <= gap <= _GAP or plain + size > _RUN:
                    yield run
                    run, plain = [], 0
            run.append((blob, found))
            plain += size
        if run:
            yield run

    def _decode_all(self, task: list[list[_Wanted]]) -> list[Buffer]:
        return [body for run in task for body in self._decode_or_search(run)]

    def _decode_or_search(self, run: list[_Wanted]) -> list[Buffer]:
        try:
            return self._decode(run)
        except _Unsound:
            # Something in here is damaged: one by one, so that every other place is tried.
            return [self.load(BlobKind.DATA, blob) for blob, _ in run]

    def _decode(self, run: list[_Wanted]) -> list[Buffer]:
        start = run[0][1].offset
        end = run[-1][1].offset + run[-1][1].length
        stored = memoryview(self._read(run[0][1].pack, start, end - start))
        if len(stored) < end - start:
            raise _Unsound(f"pack {run[0][1].pack.hex()[:12]} ends before it")
        envelopes = [stored[place.offset - start :][: place.length] for _, place in run]
        try:
            bodies: list[Buffer] = list(self._repository.key.open_many(envelopes))
            squeezed = [number for number, (_, place) in enumerate(run) if place.plain]
            if squeezed:
                frames, sizes = [bodies[n] for n in squeezed], [run[n][1].plain for n in squeezed]
                for number, content in zip(squeezed, decompress_many(frames, sizes), strict=True):
                    bodies[number] = content
        except (Unauthentic, BadCompression) as error:
            raise _Unsound(f"{error} (pack {run[0][1].pack.hex()[:12]})") from error
        for (blob, place), body in zip(run, bodies, strict=True):
            if blob_id(body) != blob:
                raise _Unsound(f"its content has another hash (pack {place.pack.hex()[:12]})")
        return bodies

    def _read(self, pack: bytes, offset: int, length: int) -> bytes:
        name, storage = pack.hex(), self._repository.storage
        try:
            if length >= _WINDOW // 2:
                return storage.read(FileKind.PACK, name, offset, length)
            with self._mutex:
                start, window = self._windows.get(pack, (0, b""))
            if not start <= offset <= offset + length <= start + len(window):
                start, window = offset, storage.read(FileKind.PACK, name, offset, _WINDOW)
                with self._mutex:
                    self._windows[pack] = (start, window)
                    self._windows.move_to_end(pack)
                    while len(self._windows) > _WINDOWS:
                        self._windows.popitem(last=False)
            return window[offset - start : offset - start + length]
        except NotStored:
            raise _Unsound(f"pack {name[:12]} is missing") from None
        except VaultDamaged as error:
            raise _Unsound(f"pack {name[:12]}: {error.facts['reason']}") from error


class _Unsound(Exception):
    """This place of a blob does not give its bytes."""


def _tasks(runs: Iterator[list[_Wanted]]) -> Iterator[list[list[_Wanted]]]:
    """Runs that are worth handing to another thread together, up to _RUN plain bytes."""
    task: list[list[_Wanted]] = []
    plain = 0
    try:
        for run in runs:
            size = sum(place.plain or place.length for _, place in run)
            if task and plain + size > _RUN:
                yield task
                task, plain = [], 0
            task.append(run)
            plain += size
    except VaultDamaged:
        if task:
            yield task  # what lies before the loss
        raise
    if task:
        yield task


def _pieces(bodies: list[Buffer]) -> Iterator[bytes]:
    """Blobs joined and cut to pieces of at most CHUNK."""
    parts: list[Buffer] = []
    size = 0
    for body in bodies:
        view = memoryview(body)
        while len(view) > CHUNK - size:
            parts.append(view[: CHUNK - size])
            yield b"".join(parts)
            view, parts, size = view[CHUNK - size :], [], 0
        if len(view):
            parts.append(view)
            size += len(view)
    if parts:
        yield b"".join(parts)
