"""Databases in page-aligned blocks of one size, so that a day of change costs what changed.

SQLite never moves bytes, so a block that did not change is the same block at the same place. Blocks are
not even hashed for that: a keyed fingerprint tells whether a run of blocks is what it was, then each
block of a run that is not, and only what is new is named by SHA-256 and stored. Reading, fingerprints
and storing overlap: each leaves the interpreter to the others.
"""

from __future__ import annotations

import collections
import concurrent.futures
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from blake3 import blake3

from safekept.core.entries import CHUNK, Content
from safekept.vault.blobs import ID, BlobKind, blob_id
from safekept.vault.memory import KnownDatabase
from safekept.vault.saver import BlobSaver

#: Bytes under one fingerprint at the first look: large enough that calls cost nothing, small enough
#: that one changed page does not make a megabyte be looked at twice.
SEGMENT = 1 << 17
_PRINT = 32
_AHEAD = 6  # pieces of a megabyte that are read before the oldest of them is done


def block_size(size: int) -> int:
    """How large the blocks of a database are: by its size alone, so that it is the same every time.

    Small blocks store less of a change; but each snapshot stores the list of all blocks anew. Pages
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
        """Let the threads go. Whatever they still hold is bytes, and nobody waits for it."""
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
