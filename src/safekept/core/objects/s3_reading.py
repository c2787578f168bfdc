"""The bytes of one object out of S3, whole, in part, or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from safekept.core.objects.base import CHUNK

if TYPE_CHECKING:
    from obstore.store import S3Store


def fetch(store: S3Store, name: str, offset: int, length: int | None) -> bytes | None:
    """The bytes of a part, or of the whole (0, None); None where fewer came than were announced."""
    import obstore

    span: Any = None
    if length is not None:
        span = {"range": (offset, offset + length)}
    elif offset:
        span = {"range": {"offset": offset}}
    answer = obstore.get(store, name, options=span)
    start, end = answer.range
    data = bytes(answer.bytes())
    return data if len(data) == end - start else None


def begin(store: S3Store, name: str, offset: int) -> Iterator[Any]:
    """A stream from somewhere to the end; its pieces are buffers."""
    import obstore

    span: Any = {"range": {"offset": offset}} if offset else None
    return iter(obstore.get(store, name, options=span).stream(min_chunk_size=CHUNK))


def skipping(pieces: Iterator[Any], count: int) -> Iterator[Any]:
    """The rest of a stream after so many bytes."""
    for piece in pieces:
        if count >= len(piece):
            count -= len(piece)
        else:
            yield memoryview(piece)[count:] if count else piece
            count = 0
