"""The bytes of one zip member, checked while they pass.

Inflating stops at the size the member claims; size, CRC and, where our manifest has it and the caller
does not do so itself, SHA-256 are checked with the last byte. Large members of ours are inflated piece
by piece on several threads.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from isal import igzip_lib, isal_zlib

from safekept.core.entries import CHUNK, Content
from safekept.core.worker import in_order

from ..container.handle import Handle
from ..container.limits import Delivered
from ..container.manifest import PIECE, Record
from ..errors import damaged, unsupported
from .directory import Member
from .records import BZIP2, DEFLATED, DESCRIBED, LIMIT32, LOCAL, LOCAL_SIGNATURE, LZMA, STORED

_READ = 256 << 10
#: The stubs of isal call it an instance.
DeflateError: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]
_IN_FLIGHT = 6
#: Pieces that deflate to so little are likely to come again.
_TWIN_LIMIT = 4 << 10


class MemberContent(Content):
    """The bytes of one member, checked while they pass."""

    def __init__(
        self,
        handle: Handle,
        member: Member,
        pool: ThreadPoolExecutor | None = None,
        record: Record | None = None,
        hash_it: bool | None = None,
        delivered: Delivered | None = None,
    ) -> None:
        super().__init__()
        self._delivered = delivered
        self.handle, self.member, self.pool, self.record = handle, member, pool, record
        self.size = member.size
        self.mtime_ns = record.mtime_ns if record else seconds_of(member) * 1_000_000_000
        self.database = record.database_facts if record else None
        self.digest = ""
        self._hash_it = record is not None if hash_it is None else hash_it
        self._twin = (b"", False, b"")  # the last small piece: deflated, whether it ends, inflated

    def close(self) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        if self._delivered is None:
            return self._checked()
        return self._delivered.counted(self.member.name, self._checked())

    def _checked(self) -> Iterator[bytes]:
        member, path = self.member, self.handle.path
        if member.deflated <= CHUNK and member.size <= CHUNK and member.method in (STORED, DEFLATED):
            data = self._whole()
            digest = hashlib.sha256(data).hexdigest() if self._hash_it else ""
            self._check(len(data), isal_zlib.crc32(data), digest)
            if data:
                yield data
            return
        crc = total = 0
        sha = hashlib.sha256()
        for chunk in self._inflated(self._data_offset()):
            total += len(chunk)
            if total > member.size:
                raise damaged(path, "it unpacks to more than it claims", member.name)
            crc = isal_zlib.crc32(chunk, crc)
            if self._hash_it:
                sha.update(chunk)
            yield chunk
        self._check(total, crc, sha.hexdigest() if self._hash_it else "")

    def _check(self, total: int, crc: int, digest: str) -> None:
        member = self.member
        if total != member.size:
            raise damaged(self.handle.path, "it unpacks to less than it claims", member.name)
        if crc != member.crc:
            raise damaged(self.handle.path, "its checksum is wrong", member.name)
        self.digest = digest
        if self.record is not None and self._hash_it and digest != self.record.sha256:
            raise damaged(self.handle.path, "its SHA-256 is not the one in the manifest", member.name)

    def _whole(self) -> bytes:
        """A small member: header and data in one read."""
        member, handle = self.member, self.handle
        header = LOCAL.size + len(member.raw)
        data = handle.some(member.offset, header + 64 + member.deflated)
        skip = header + self._check_local(data)
        body = data[skip : skip + member.deflated]
        if len(body) != member.deflated:
            body = handle.read(member.offset + skip, member.deflated)
        if member.method == STORED:
            return body
        if not member.size and body == b"":
            return body
        try:
            inflater = isal_zlib.decompressobj(-15)
            data = inflater.decompress(body, member.size + 1)
        except DeflateError as error:
            raise damaged(handle.path, f"its data is broken ({error})", member.name) from None
        if len(data) > member.size:
            raise damaged(handle.path, "it unpacks to more than it claims", member.name)
        if not inflater.eof or inflater.unused_data:
            raise damaged(handle.path, "its data is broken", member.name)
        return data

    def _data_offset(self) -> int:
        member = self.member
        header = LOCAL.size + len(member.raw)
        extra = self._check_local(self.handle.read(member.offset, header))
        offset = member.offset + header + extra
        if offset + member.deflated > self.handle.size:
            raise damaged(self.handle.path, "it lies outside the archive", member.name)
        return offset

    def _check_local(self, data: bytes) -> int:
        """The header in front of the data says the same as the directory; returns the length of its extra."""
        member = self.member
        if len(data) < LOCAL.size:
            raise damaged(self.handle.path, "it ends too early", member.name)
        signature, _, flags, method, _, _, crc, deflated, size, name, extra = LOCAL.unpack_from(data)
        same = (
            signature == LOCAL_SIGNATURE
            and flags == member.flags
            and method == member.method
            and data[LOCAL.size : LOCAL.size + name] == member.raw
        )
        if same and not flags & DESCRIBED:
            same = (
                crc == member.crc
                and deflated in (member.deflated, LIMIT32)
                and size
                in (
                    member.size,
                    LIMIT32,
                )
            )
        if not same:
            raise damaged(self.handle.path, "its header contradicts the list of members", member.name)
        return int(extra)

    def _inflated(self, offset: int) -> Iterator[bytes]:
        member = self.member
        if self.pool is not None and self.record is not None and self.record.pieces is not None:
            yield from self._pieces(offset, self.record.pieces, self.pool)
        elif member.method == STORED:
            if member.size != member.deflated:
                raise damaged(self.handle.path, "its sizes disagree", member.name)
            for start in range(0, member.size, CHUNK):
                yield self.handle.read(offset + start, min(CHUNK, member.size - start))
        else:
            yield from self._stream(offset)

    def _stream(self, offset: int) -> Iterator[bytes]:
        """One decompressor from the first byte to the last."""
        member, handle = self.member, self.handle
        end = offset + member.deflated
        if member.method == LZMA:
            unpacker, offset = self._lzma(offset)
        elif member.method == BZIP2:
            unpacker = bz2.BZ2Decompressor()
        else:
            unpacker = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        try:
            while not unpacker.eof:
                data = b""
                if unpacker.needs_input:
                    data = handle.read(offset, min(_READ, end - offset)) if offset < end else b""
                    offset += len(data)
                chunk = unpacker.decompress(data, CHUNK)
                if chunk:
                    yield chunk
                elif not data and offset >= end:
                    break  # igzip may hold output back while it asks for input, so this is the only end
        except (DeflateError, OSError, ValueError, EOFError, lzma.LZMAError) as error:
            raise damaged(handle.path, f"its data is broken ({error})", member.name) from None
        if (not unpacker.eof and member.method != LZMA) or offset != end or unpacker.unused_data:
            raise damaged(handle.path, "its data is broken", member.name)

    def _lzma(self, offset: int) -> tuple[Any, int]:
        head = self.handle.read(offset, 9)
        if struct.unpack_from("<H", head, 2)[0] != 5:
            raise damaged(self.handle.path, "its data is broken", self.member.name)
        properties, dictionary = head[4], struct.unpack_from("<I", head, 5)[0]
        if properties >= 9 * 5 * 5 or dictionary > 128 << 20:
            raise unsupported(self.handle.path, f"`{self.member.name}` needs too much memory to unpack")
        chain: dict[str, object] = {
            "id": lzma.FILTER_LZMA1,
            "lc": properties % 9,
            "lp": properties // 9 % 5,
            "pb": properties // 45,
            "dict_size": max(dictionary, 4096),
        }
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[chain]), offset + 9

    def _pieces(self, offset: int, sizes: list[int], pool: ThreadPoolExecutor) -> Iterator[bytes]:
        """Pieces inflated on several threads, handed on in order."""
        last = len(sizes) - 1

        def work() -> Iterator[Future[bytes]]:
            start, rest = offset, self.size
            for number, deflated in enumerate(sizes):
                size = min(PIECE, rest)
                yield pool.submit(self._piece, start, deflated, size, number == last)
                start, rest = start + deflated, rest - size

        return in_order(work(), _IN_FLIGHT)

    def _piece(self, offset: int, deflated: int, size: int, last: bool) -> bytes:
        if deflated > PIECE + (PIECE >> 4):
            raise damaged(self.handle.path, "a piece of it is larger than one can be", self.member.name)
        body = self.handle.read(offset, deflated)
        # The holes of a sparse file are thousands of pieces that are equal to the byte.
        twin, twin_last, data = self._twin
        if twin == body and twin_last is last and len(data) == size:
            return data
        try:
            inflater = isal_zlib.decompressobj(-15)
            data = inflater.decompress(body, size + 1)
        except DeflateError as error:
            raise damaged(self.handle.path, f"its data is broken ({error})", self.member.name) from None
        if len(data) != size or inflater.eof is not last or inflater.unused_data or inflater.unconsumed_tail:
            raise damaged(self.handle.path, "its data is broken", self.member.name)
        if deflated <= _TWIN_LIMIT:
            self._twin = (body, last, data)
        return data


def seconds_of(member: Member) -> int:
    """When a member was changed: in UTC if it says so, else to two seconds of local time."""
    if member.seconds is not None:
        return member.seconds
    date, clock = member.date, member.time
    when = (
        (date >> 9) + 1980, date >> 5 & 15 or 1, date & 31 or 1,
        clock >> 11, clock >> 5 & 63, (clock & 31) * 2, 0, 0, -1,
    )  # fmt: skip
    try:
        return int(time.mktime(when))
    except (OverflowError, ValueError):
        return 0
