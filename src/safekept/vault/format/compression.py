"""zstd as a vault uses it: for blobs in batches, and the envelope of unpacked files.

Frames are written with their content size. Frames without one (rustic's), several frames in a row
and skippable frames are read. What comes out is bounded, so that a small hostile file cannot fill
the memory.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import Any

import zstandard

from .blobs import Buffer

#: Beyond this a decompressed unpacked file (an index, a snapshot) is refused.
LARGEST_UNPACKED = 1 << 30
_COMPRESSED = 2  # the first byte of a compressed unpacked file
_RAW = (ord("["), ord("{"))

_local = threading.local()


class BadCompression(Exception):
    """Bytes that do not decompress to what was promised."""


def compress_many(blobs: Sequence[Buffer], level: int) -> list[Buffer]:
    """One frame for each blob, in one call without the interpreter lock."""
    compressors: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("compressors", {})
    compressor = compressors.get(level)
    if compressor is None:
        compressor = compressors[level] = zstandard.ZstdCompressor(level=level, write_content_size=True)
    return _segments(compressor.multi_compress_to_buffer(list(blobs), threads=1))


def decompress_many(frames: Sequence[Buffer], sizes: Sequence[int]) -> list[Buffer]:
    """The content of each frame, exactly as long as promised; BadCompression otherwise."""
    if len(frames) == 1:  # a small file: the batch call costs more than the work
        return [_decompress_one(frames[0], sizes[0])]
    try:
        packed = struct.pack(f"={len(sizes)}Q", *sizes)
        found = _decompressor().multi_decompress_to_buffer(list(frames), decompressed_sizes=packed, threads=1)
        result = _segments(found)
    except (zstandard.ZstdError, ValueError):
        # One of them is odd (no content size, several frames) or bad: look at each by itself.
        result = [decompress(frame, size) for frame, size in zip(frames, sizes, strict=True)]
    for content, size in zip(result, sizes, strict=True):
        if memoryview(content).nbytes != size:
            raise BadCompression(f"{memoryview(content).nbytes} bytes where {size} were promised")
    return result


def _decompress_one(frame: Buffer, size: int) -> bytes:
    try:
        if zstandard.frame_content_size(frame) == size:
            content = _decompressor().decompress(frame, read_across_frames=False, allow_extra_data=False)
            if len(content) == size:
                return content
    except zstandard.ZstdError as error:
        raise BadCompression(str(error)) from error
    content = decompress(frame, size)
    if len(content) != size:
        raise BadCompression(f"{len(content)} bytes where {size} were promised")
    return content


def decompress(data: Buffer, limit: int) -> bytes:
    """Every frame in a row; BadCompression where they are torn or give more than `limit` bytes."""
    pieces: list[bytes] = []
    total, rest = 0, bytes(data)
    if not rest:
        raise BadCompression("nothing to decompress")
    while rest:
        stream = _decompressor().decompressobj()
        try:
            for start in range(0, len(rest), 1 << 17):
                piece = stream.decompress(rest[start : start + (1 << 17)])
                total += len(piece)
                if total > limit:
                    raise BadCompression(f"more than the {limit} bytes that were promised")
                pieces.append(piece)
                if stream.eof:
                    rest = stream.unused_data + rest[start + (1 << 17) :]
                    break
            else:
                raise BadCompression("the data ends in the middle of a frame")
        except zstandard.ZstdError as error:
            raise BadCompression(str(error)) from error
    return b"".join(pieces)


def pack_unpacked(text: bytes, level: int = 3) -> bytes:
    """The envelope of version 2 for index, snapshot and lock files."""
    return bytes([_COMPRESSED]) + bytes(memoryview(compress_many([text], level)[0]))


def unpack_unpacked(data: bytes) -> bytes:
    """The JSON inside; plain JSON (version 1, or uncompressed) is given back as it is."""
    if data[:1] and data[0] in _RAW:
        return data
    if data[:1] != bytes([_COMPRESSED]):
        raise BadCompression("neither JSON nor compressed JSON")
    return decompress(memoryview(data)[1:], LARGEST_UNPACKED)


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


def _segments(found: Any) -> list[Buffer]:
    # The collection is a sequence, but its type stubs do not say so.
    return [memoryview(found[number]) for number in range(len(found))]
