"""Small files read in a row: their blobs are opened in batches, the next batch on the other core.

Opening one small blob costs more in calls than in work. A home has tens of thousands of files that
are one blob each and lie in a pack in the order of their paths; who reads them in that order gets them
from a batch that was opened together, while the next one is being opened. Who picks single files pays
for those only.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ..format.blobs import ID, BlobKind, Buffer, Location

if TYPE_CHECKING:
    from ..repo.repository import Repository

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
