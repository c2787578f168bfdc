"""What a tar may be packed with, known by its first bytes, unpacked in bounded chunks."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any

from safekept.core.entries import CHUNK
from safekept.core.worker import in_order

from ..container.handle import Handle
from ..errors import damaged, unsupported
from .parser import is_header

_READ = 256 << 10
_IN_FLIGHT = 4
#: More memory than this is not spent on one stream, whatever it asks for.
MEMORY = 128 << 20
_LARGEST_FRAME = 16 << 20
#: Frames that hold much in so few bytes are likely to come again.
_TWIN_LIMIT = 4 << 10


def recognise(handle: Handle) -> str | None:
    """Which codec it is ("zstd", "gzip", "bzip2", "xz", "plain"), or None."""
    head = handle.some(0, 512)
    if head[:4] == b"\x28\xb5\x2f\xfd" or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return "zstd"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:3] == b"BZh":
        return "bzip2"
    if head[:6] == b"\xfd7zXZ\x00":
        return "xz"
    return "plain" if is_header(head) else None


def unpacked(handle: Handle, codec: str) -> Iterator[bytes]:
    """The bytes inside, from front to back."""
    if codec == "plain":
        for offset in range(0, handle.size, CHUNK):
            yield handle.some(offset, CHUNK)
    elif codec == "zstd":
        yield from _zstd(handle)
    else:
        yield from _members(handle, codec)


def _new(codec: str) -> Any:
    if codec == "gzip":
        from isal import igzip_lib

        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    if codec == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)


def _members(handle: Handle, codec: str) -> Iterator[bytes]:
    """gzip, bzip2 and xz: one or more streams, one after the other, perhaps padded with zeros."""
    from isal import igzip_lib

    broken: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # as its stubs have it
    unpacker, offset, pending = _new(codec), 0, b""
    try:
        while True:
            if unpacker.eof:
                pending = unpacker.unused_data
                while not pending.strip(b"\0") and offset < handle.size:
                    pending = handle.some(offset, _READ)
                    offset += len(pending)
                pending = pending.lstrip(b"\0")
                if not pending:
                    return
                unpacker = _new(codec)
            data, pending = pending, b""
            if not data and unpacker.needs_input:
                data = handle.some(offset, _READ)
                offset += len(data)
            chunk = unpacker.decompress(data, CHUNK)
            if chunk:
                yield chunk
            elif not data and not unpacker.eof and offset >= handle.size:
                # igzip may hold output back while it asks for input, so only now it is sure.
                raise damaged(handle.path, "it ends too early")
    except lzma.LZMAError as error:
        if "emory" in str(error):
            raise unsupported(handle.path, "it needs too much memory to unpack") from None
        raise damaged(handle.path, f"its data is broken ({error})") from None
    except (broken, OSError, ValueError, EOFError) as error:
        raise damaged(handle.path, f"its data is broken ({error})") from None


def _zstd(handle: Handle) -> Iterator[bytes]:
    import zstandard

    try:
        for offset, size in zstd_frames(handle):
            unpacker = zstandard.ZstdDecompressor(max_window_size=MEMORY)
            with unpacker.stream_reader(_Slice(handle, offset, size)) as reader:  # type: ignore[arg-type]
                while chunk := reader.read(CHUNK):
                    yield chunk
    except zstandard.ZstdError as error:
        if "memory" in str(error):
            raise unsupported(handle.path, "it needs too much memory to unpack") from None
        raise damaged(handle.path, f"its data is broken ({error})") from None


class _Slice:
    """A part of the file as something to read from."""

    def __init__(self, handle: Handle, offset: int, size: int) -> None:
        self.handle, self.offset, self.end = handle, offset, offset + size

    def read(self, size: int = -1) -> bytes:
        size = self.end - self.offset if size < 0 else min(size, self.end - self.offset)
        data = self.handle.some(self.offset, size) if size else b""
        self.offset += len(data)
        return data


def zstd_frames(handle: Handle) -> Iterator[tuple[int, int]]:
    """Offset and size of every frame that holds data, found by walking over the blocks.

    The library takes a stream that stops in the middle for one that ended, so we look ourselves.
    """
    offset = 0
    while offset < handle.size:
        head = handle.some(offset, 18)
        if len(head) < 8:
            raise damaged(handle.path, "it ends too early")
        if head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50:
            offset += 8 + int.from_bytes(head[4:8], "little")
            if offset > handle.size:
                raise damaged(handle.path, "it ends too early")
            continue
        if head[:4] != b"\x28\xb5\x2f\xfd":
            raise damaged(handle.path, "something that is not zstd follows")
        described = head[4]
        alone = described >> 5 & 1
        position = offset + 5 + (not alone) + (0, 1, 2, 4)[described & 3]
        position += (alone, 2, 4, 8)[described >> 6]
        last = False
        while not last:
            block = int.from_bytes(handle.read(position, 3), "little")
            last, kind = bool(block & 1), block >> 1 & 3
            if kind == 3:
                raise damaged(handle.path, "its data is broken")
            position += 3 + (1 if kind == 1 else block >> 3)
        position += 4 * (described >> 2 & 1)
        if position > handle.size:
            raise damaged(handle.path, "it ends too early")
        yield offset, position - offset
        offset = position


def frames(handle: Handle, offset: int, sizes: list[int], pool: ThreadPoolExecutor) -> Iterator[bytes]:
    """The content of our own frames, unpacked ahead on several threads."""
    twins = _Twins()
    starts = accumulate(sizes, initial=offset)
    work = (
        pool.submit(twins.unpack, handle, start, size) for start, size in zip(starts, sizes, strict=False)
    )
    return in_order(work, _IN_FLIGHT)


class _Twins:
    """Remembers the last frame: the holes of a sparse file are thousands that are equal to the byte."""

    def __init__(self) -> None:
        self._last = (b"", b"")

    def unpack(self, handle: Handle, offset: int, size: int) -> bytes:
        packed, data = self._last  # together, since several threads are here
        if size > _TWIN_LIMIT:
            return frame(handle, offset, size)
        found = handle.read(offset, size)
        if found != packed:
            data = _unpack(handle, found)
            self._last = found, data
        return data


def frame(handle: Handle, offset: int, size: int) -> bytes:
    """The content of one frame."""
    if size > _LARGEST_FRAME:
        raise damaged(handle.path, "a frame of it is larger than one can be")
    return _unpack(handle, handle.read(offset, size))


def _unpack(handle: Handle, data: bytes) -> bytes:
    import zstandard

    try:
        facts = zstandard.get_frame_parameters(data)
        if not 0 < facts.content_size <= _LARGEST_FRAME:
            raise damaged(handle.path, "a frame of it is larger than one can be")
        return zstandard.ZstdDecompressor(max_window_size=MEMORY).decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise damaged(handle.path, f"its data is broken ({error})") from None
