"""A snapshot as a Source: its entries, parents first, with content that streams out of the packs.

Damage stays local: a directory that cannot be read becomes a remark and everything beside it goes
on; a file that cannot be read raises EntryLost when its bytes are asked for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from safekept.core.entries import Content, DatabaseFacts, EntryLost, Outcome, Remark

from ..errors import VaultDamaged
from ..format.blobs import HOLE, HOLE_ID, ID, BlobKind, Buffer, Location, blob_id
from ..format.tree import Node

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..repo.repository import Repository


def holes_of(node: Node) -> int:
    """Bytes of a stored file that are holes of a sparse one."""
    return node.content.count(HOLE_ID) * HOLE if node.content and node.size > HOLE else 0


def walk(
    repository: Repository, tree: bytes, remarks: list[Remark], prefix: str = ""
) -> Iterator[tuple[str, Node]]:
    """Every node below a tree with its path, parents first, in the order of the names' bytes."""
    stack: list[tuple[str, Iterator[Node]]] = []
    _enter(repository, tree, prefix, remarks, stack)
    while stack:
        path, nodes = stack[-1]
        node = next(nodes, None)
        if node is None:
            stack.pop()
            continue
        below = path + node.name
        yield below, node
        if node.subtree is not None:
            _enter(repository, node.subtree, below + "/", remarks, stack)


def _enter(
    repository: Repository,
    tree: bytes,
    prefix: str,
    remarks: list[Remark],
    stack: list[tuple[str, Iterator[Node]]],
) -> None:
    try:
        stack.append((prefix, iter(repository.load_tree(tree).nodes)))
    except VaultDamaged as error:
        reason = str(error.facts.get("reason", error.what))
        remarks.append(Remark(prefix.rstrip("/"), Outcome.UNREADABLE, f"this directory is damaged: {reason}"))


class StoredContent(Content):
    """The bytes of one stored file, streaming."""

    def __init__(
        self, repository: Repository, path: str, node: Node, database: DatabaseFacts | None = None
    ) -> None:
        super().__init__()
        self._repository, self._path, self._content = repository, path, node.content or b""
        self.mtime_ns = node.mtime_ns
        self.database = database
        self.size = self._size(node)

    def _size(self, node: Node) -> int:
        """The exact size: of its blobs, since rustic and damaged writers may have put down another."""
        total = 0
        for at in range(0, len(self._content), ID):
            blob = self._content[at : at + ID]
            found = self._repository.index.lookup(BlobKind.DATA, blob)
            if found is None:
                return node.size  # lost or not indexed; reading it will tell
            total += found.plain or found.length - 32
        return total

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._repository.loader.stream(self._content)
        except VaultDamaged as error:
            reason = str(error.facts.get("reason", error.what))
            raise EntryLost(
                Remark(self._path, Outcome.UNREADABLE, f"damaged in the vault: {reason}")
            ) from error

    def close(self) -> None:
        pass


def has_bytes(repository: Repository, content: bytes, descriptor: int) -> bool | None:
    """Whether an open file holds exactly the bytes of a stored one; None where the index cannot tell.

    The ids of its blobs are the hashes of its parts, so nothing stored has to be read.
    """
    offset = 0
    for at in range(0, len(content), ID):
        blob = content[at : at + ID]
        found = repository.index.lookup(BlobKind.DATA, blob)
        if found is None:
            return None
        size = found.plain or found.length - 32
        data = os.pread(descriptor, size, offset)
        if len(data) != size or blob_id(data) != blob:
            return False
        offset += size
    return not os.pread(descriptor, 1, offset)


# Small files read in a row: their blobs are opened in batches, the next batch on the other core. Opening
# one small blob costs more in calls than in work. A home has tens of thousands of files that are one
# blob each and lie in a pack in the order of their paths; who reads them in that order gets them from a
# batch that was opened together, while the next one is being opened. Who picks single files pays for
# those only.

_BATCH = 1 << 20  # plain bytes opened together
_MOST = 256  # files
_GAP = 64 << 10  # stored bytes between neighbours that are cheaper to read than to skip
_NEAR = 64  # files that a reader may have passed over and still count as reading in a row
_KEPT = 6  # batches: of two readers the one being read, the next, and one behind

_Batch = tuple[int, int, "Future[list[Buffer] | None]"]  # first position, the one after the last, bytes


class SmallFiles:
    """The contents of files by their position in the order of a source; safe from several threads."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._contents: list[bytes] = []
        self._batches: list[_Batch] = []
        #: By thread, since each reads in a row of its own: the last position, and the batch it was in.
        self._last: dict[int, tuple[int, _Batch | None]] = {}
        self._mutex = threading.Lock()

    def add(self, content: bytes) -> int:
        """The next file in order; its position."""
        self._contents.append(content)
        return len(self._contents) - 1

    def read(self, position: int) -> bytes | None:
        """The bytes of one file; None where it is not one blob, or something in its batch is damaged."""
        content = self._contents[position]
        if len(content) != ID:
            return None
        reader = threading.get_ident()
        last, batch = self._last.get(reader, (-_NEAR - 1, None))
        if batch is None or not batch[0] <= position < batch[1]:
            with self._mutex:
                in_a_row = 0 <= position - last <= _NEAR
                batch = self._holding(position) or (self._begin(position) if in_a_row else None)
                if batch is not None and self._holding(batch[1]) is None:
                    self._begin(batch[1])  # opened while this one is being used
        self._last[reader] = position, batch
        if batch is None:
            return None
        opened = batch[2].result()
        return None if opened is None else bytes(memoryview(opened[position - batch[0]]))

    def _holding(self, position: int) -> _Batch | None:
        return next((batch for batch in self._batches if batch[0] <= position < batch[1]), None)

    def _begin(self, position: int) -> _Batch | None:
        """Start opening the files from a position on that lie beside each other in one pack."""
        run: list[tuple[bytes, Location]] = []
        plain = 0
        for blob in self._contents[position : position + _MOST]:
            found = self._repository.index.lookup(BlobKind.DATA, blob) if len(blob) == ID else None
            if found is None:
                break
            size = found.plain or found.length
            if run:
                last = run[-1][1]
                gap = found.offset - last.offset - last.length
                if last.pack != found.pack or not 0 <= gap <= _GAP or plain + size > _BATCH:
                    break
            run.append((blob, found))
            plain += size
        if not run:
            return None
        future = self._repository.loader.open_run(run)
        batch = (position, position + len(run), future)
        self._batches = [*self._batches[1 - _KEPT :], batch]
        return batch
