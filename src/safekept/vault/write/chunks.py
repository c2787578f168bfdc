"""Plain files in pieces: a small one whole, a larger one where its content says so.

Cutting by content (FastCDC) finds the same pieces again when something was put in or taken out in
front of them. Any way to cut is legal in restic's format; this one is native code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from safekept.core.entries import ZEROS, Content

from ..format.blobs import HOLE, HOLE_ID, BlobKind
from ..repo.saver import BlobSaver

if TYPE_CHECKING:
    from pyfastcdc import FastCDC

_HOLE = bytes(HOLE)
#: Up to this size a file is one blob.
WHOLE = 512 << 10
_SMALLEST, _AVERAGE, _LARGEST = 128 << 10, 512 << 10, 4 << 20
#: So much is looked at together; the last cut in it waits for what follows.
_WINDOW = 16 << 20


def store_content(
    saver: BlobSaver, content: Content, progress: Callable[[int], None] = lambda size: None
) -> tuple[bytes, int]:
    """Store every byte of an open file; the ids of its blobs in a row, and its size.

    `progress` hears of each piece how much was stored by then.
    """
    if content.size <= WHOLE:
        parts = list(content.chunks())
        if not parts:
            return b"", 0
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return saver.save(BlobKind.DATA, data), len(data)
    ids, size = [], 0
    for chunk in cut(content.chunks()) if not content.holes else _with_holes(content.chunks()):
        if chunk is _HOLE:
            ids.append(saver.save(BlobKind.DATA, _HOLE, HOLE_ID))
        else:
            ids.append(saver.save(BlobKind.DATA, chunk))
        size += len(chunk)
        progress(size)
    return b"".join(ids), size


def _with_holes(chunks: Iterator[bytes]) -> Iterator[memoryview | bytes]:
    """The same bytes: holes in pieces of one size that is known beforehand, all between them cut as ever.

    A terabyte of nothing is then neither read nor hashed.
    """
    together = HOLE // len(ZEROS)
    zeros, ended = 0, False

    def solid() -> Iterator[bytes]:
        """Until enough of a hole has come, which ends this run."""
        nonlocal zeros, ended
        for chunk in chunks:
            if chunk is ZEROS:
                zeros += 1
                if zeros == together:
                    return
                continue
            yield from (ZEROS for _ in range(zeros))
            zeros = 0
            yield chunk
        ended = True

    while not ended:
        zeros = 0
        yield from cut(solid())
        if not ended:
            yield _HOLE
        else:
            yield from cut(ZEROS for _ in range(zeros))


def cut(chunks: Iterator[bytes]) -> Iterator[memoryview | bytes]:
    """The same bytes, cut by their content."""
    cutter = _cutter()
    waiting: list[memoryview | bytes] = []
    length = 0
    for chunk in chunks:
        waiting.append(chunk)
        length += len(chunk)
        if length >= _WINDOW:
            found = list(cutter.cut_buf(b"".join(waiting)))
            for piece in found[:-1]:
                yield piece.data
            # Where the window ends is no place to cut; what is left begins the next one.
            waiting, length = [found[-1].data], found[-1].length
    if length:
        for piece in cutter.cut_buf(b"".join(waiting)):
            yield piece.data


def _cutter() -> FastCDC:
    from pyfastcdc import FastCDC

    return FastCDC(_AVERAGE, min_size=_SMALLEST, max_size=_LARGEST)
