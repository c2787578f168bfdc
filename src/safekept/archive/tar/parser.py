"""Reads tar: POSIX, PAX, GNU and the oldest, sparse members included, trusting nothing in it.

Every header's checksum is checked, no size in a header leads to an allocation, and a tar that stops
without its end marker is one that was cut short.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import field

from safekept.core.entries import CHUNK, Kind
from safekept.core.records import dataclass

from ..container.manifest import TIME_LIMIT
from ..errors import damaged, unsupported
from .records import header_sum

BLOCK = 512
#: The type flags that become entries.
KINDS = {b"0": Kind.FILE, b"5": Kind.DIRECTORY, b"2": Kind.SYMLINK}
_HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")
_ZERO = bytes(BLOCK)
_EXTENDED_LIMIT = 4 << 20
#: Of one file, and of all files of an archive together: the lists stay in memory.
_HOLES_LIMIT, _ALL_HOLES_LIMIT = 1 << 16, 1 << 18
#: What is read of an extended header; whatever else is in one is passed over.
_HEEDED = ("path", "linkpath", "size", "mtime", "comment")
_ZEROS = bytes(CHUNK)


@dataclass(slots=True)
class TarMember:
    """One member as its headers describe it."""

    name: bytes
    kind: bytes  # the type flag
    mode: int
    mtime_ns: int
    size: int  # of the file
    stored: int  # of its body in the tar
    target: bytes
    comment: str = ""
    parts: list[tuple[int, int]] | None = field(default=None)  # (offset, length) of what is not a hole


def is_header(block: bytes) -> bool:
    """Whether these bytes are a tar header."""
    if len(block) < BLOCK or block[:BLOCK] == _ZERO:
        return False
    return _sum_is_right(block[:BLOCK])


def _sum_is_right(block: bytes) -> bool:
    try:
        stated = int(block[148:156].strip(b" \0") or b"x", 8)
    except ValueError:
        return False
    total = header_sum(block) - sum(block[148:156]) + 8 * 32
    if stated == total:
        return True
    # Some old makers added up signed characters.
    return stated == total - 256 * sum(byte > 127 for byte in block)


class Feed:
    """Chunks of a stream as something to read blocks and bodies from."""

    def __init__(self, path: str, chunks: Iterator[bytes]) -> None:
        self.path = path
        self._chunks = chunks
        self._data = b""
        self._at = 0

    def block(self) -> bytes:
        """The next 512 bytes; fewer only at the end."""
        at = self._at
        if at + BLOCK <= len(self._data):
            self._at = at + BLOCK
            return self._data[at : at + BLOCK]
        return b"".join(self.some(BLOCK))

    def take(self, expected: bytes) -> bool:
        """Pass over exactly these bytes if they come next."""
        if self._at >= len(self._data):
            self._data, self._at = next(self._chunks, b""), 0
        if not self._data.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def some(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes in chunks; fewer only at the end."""
        while size > 0:
            if self._at >= len(self._data):
                self._data, self._at = next(self._chunks, b""), 0
                if not self._data:
                    return
            end = min(self._at + min(size, CHUNK), len(self._data))
            piece = self._data[self._at : end]
            self._at = end
            size -= len(piece)
            yield piece

    def read(self, size: int, member: str = "") -> bytes:
        """Exactly that many bytes; for sizes that were bounded before."""
        if self._at + size <= len(self._data):
            self._at += size
            return self._data[self._at - size : self._at]
        data = b"".join(self.some(size))
        if len(data) != size:
            raise damaged(self.path, "it ends too early", member)
        return data

    def skip(self, size: int, member: str = "") -> None:
        """Pass over bytes without copying them."""
        while size > 0:
            if self._at >= len(self._data):
                self._data, self._at = next(self._chunks, b""), 0
                if not self._data:
                    raise damaged(self.path, "it ends too early", member)
            step = min(size, len(self._data) - self._at)
            self._at += step
            size -= step

    def drain(self) -> int:
        """Read to the end, so that every checksum on the way is checked; returns how much there was."""
        total = len(self._data) - self._at
        self._data, self._at = b"", 0
        for chunk in self._chunks:
            total += len(chunk)
        return total

    def close(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class TarParser:
    """Members of a tar, one after the other."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.path = feed, feed.path
        self._left = 0  # of the body of the member last returned, padding included
        self.member = ""
        self._global: dict[str, bytes] = {}
        self._holes = 0

    def next(self) -> TarMember | None:
        """The next member, or None at the end marker; what is left of the one before is passed over."""
        if self._left:
            self.feed.skip(self._left, self.member)
            self._left = 0
        pax: dict[str, bytes] = {}
        sparse: list[tuple[str, bytes]] = []
        long_name = long_target = None
        while True:
            block = self.feed.block()
            if block == _ZERO:
                return None
            if len(block) != BLOCK:
                raise damaged(self.path, "it ends too early", self.member)
            if not _sum_is_right(block):
                raise damaged(self.path, "a header in it is broken", self.member)
            fields = _HEADER.unpack(block)
            kind, size = fields[7], self._number(fields[4])
            if kind in (b"x", b"X"):
                pax, sparse = self._pax(size)
            elif kind == b"g":
                self._global.update(self._pax(size)[0])
            elif kind == b"L":
                long_name = self._extended(size).split(b"\0", 1)[0]
            elif kind == b"K":
                long_target = self._extended(size).split(b"\0", 1)[0]
            elif kind in (b"V", b"N"):
                self.feed.skip(size + -size % BLOCK)
            elif kind == b"M":
                raise unsupported(self.path, "it is one part of a tar in several parts")
            else:
                return self._member(block, fields, {**self._global, **pax}, sparse, long_name, long_target)

    def known(self, header: bytes, name: str, size: int) -> bool:
        """Pass over a header that is known beforehand, to the byte; False if something else comes next."""
        if self._left:
            self.feed.skip(self._left, self.member)
            self._left = 0
        if not self.feed.take(header):
            return False
        self.member, self._left = name, size + -size % BLOCK
        return True

    def _member(
        self,
        block: bytes,
        fields: tuple[bytes, ...],
        pax: dict[str, bytes],
        sparse: list[tuple[str, bytes]],
        long_name: bytes | None,
        long_target: bytes | None,
    ) -> TarMember:
        name, target = fields[0].split(b"\0", 1)[0], fields[8].split(b"\0", 1)[0]
        if fields[9] == b"ustar\x0000" and fields[14][:1] != b"\0":
            name = fields[14].split(b"\0", 1)[0] + b"/" + name
        name = pax.get("path", name if long_name is None else long_name)
        target = pax.get("linkpath", target if long_target is None else long_target)
        shown = name.decode("utf-8", "replace")
        self.member = shown
        size = self._number(fields[4])
        mtime_ns = self._number(fields[5]) * 1_000_000_000
        try:
            if "size" in pax:
                size = int(pax["size"])
            if "mtime" in pax:
                mtime_ns = _nanoseconds(pax["mtime"])
        except (ValueError, OverflowError):
            raise damaged(self.path, "its extended header is broken", shown) from None
        kind = fields[7]
        if kind in (b"\0", b"7") or not b"0" <= kind <= b"7":
            kind = {b"D": b"5", b"S": b"S"}.get(kind, b"0")
        if kind == b"0" and name.endswith(b"/") and fields[7] == b"\0":
            kind = b"5"
        if size < 0:
            raise damaged(self.path, "its size is negative", shown)
        if abs(mtime_ns) >= TIME_LIMIT * 1_000_000_000:
            raise damaged(self.path, "its time is none that a file can have", shown)
        if kind in (b"1", b"2", b"3", b"4", b"6") and "size" not in pax:
            size = 0  # some makers put the size of the target here; there is no body
        member = TarMember(
            name, kind, self._number(fields[1]) & 0o7777, mtime_ns, size, size, target,
            pax.get("comment", b"").decode("utf-8", "replace"),
        )  # fmt: skip
        self._left = size + -size % BLOCK
        if kind == b"S":
            self._old_sparse(member, block)
        elif any(key.startswith("GNU.sparse.") for key in pax):
            self._pax_sparse(member, pax, sparse)
        return member

    def body(self, member: TarMember) -> Iterator[bytes]:
        """The bytes of the member last returned by `next`, holes filled."""
        if member.parts is None:
            yield from self._stored(member.stored)
            return
        at = 0
        for offset, length in member.parts:
            yield from _hole(offset - at)
            yield from self._stored(length)
            at = offset + length
        yield from _hole(member.size - at)

    def _stored(self, size: int) -> Iterator[bytes]:
        for chunk in self.feed.some(size):
            self._left -= len(chunk)
            size -= len(chunk)
            yield chunk
        if size:
            raise damaged(self.path, "it ends too early", self.member)

    # -- headers ---------------------------------------------------------------------------------

    def _number(self, field: bytes) -> int:
        if field[0] & 0x80:
            value = int.from_bytes(field[1:], "big")
            return value - (1 << 8 * (len(field) - 1)) if field[0] == 0xFF else value
        try:
            return int(field.split(b"\0", 1)[0].strip() or b"0", 8)
        except ValueError:
            raise damaged(self.path, "a header in it is broken", self.member) from None

    def _extended(self, size: int) -> bytes:
        if not 0 <= size <= _EXTENDED_LIMIT:
            raise damaged(self.path, "a header in it is larger than one can be", self.member)
        data = self.feed.read(size, self.member)
        self.feed.skip(-size % BLOCK, self.member)
        return data

    def _pax(self, size: int) -> tuple[dict[str, bytes], list[tuple[str, bytes]]]:
        data = self._extended(size)
        records: dict[str, bytes] = {}
        sparse: list[tuple[str, bytes]] = []
        at = 0
        while at < len(data) and data[at] != 0:
            space = data.find(b" ", at, at + 21)
            try:
                length = int(data[at:space]) if space > 0 else 0
            except ValueError:
                length = 0
            line = data[space + 1 : at + length]
            keyword, equals, value = line.partition(b"=")
            if length <= 0 or at + length > len(data) or not equals or not value.endswith(b"\n"):
                raise damaged(self.path, "an extended header in it is broken", self.member)
            key = keyword.decode("utf-8", "replace")
            if key in _HEEDED or key.startswith("GNU.sparse."):
                records[key] = value[:-1]
            if key in ("GNU.sparse.offset", "GNU.sparse.numbytes"):
                sparse.append((key, value[:-1]))
            at += length
        return records, sparse

    # -- sparse ----------------------------------------------------------------------------------

    def _old_sparse(self, member: TarMember, block: bytes) -> None:
        parts, area, more = [], block[386:482], block[482]
        while True:
            for at in range(0, len(area) - 23, 24):
                if area[at] == 0:
                    break
                parts.append((self._number(area[at : at + 12]), self._number(area[at + 12 : at + 24])))
            if not more:
                break
            following = self.feed.read(BLOCK, self.member)
            area, more = following[:504], following[504]
            if len(parts) > _HOLES_LIMIT:
                break
        self._set_parts(member, parts, self._number(block[483:495]))

    def _pax_sparse(self, member: TarMember, pax: dict[str, bytes], pairs: list[tuple[str, bytes]]) -> None:
        member.name = pax.get("GNU.sparse.name", member.name)
        self.member = member.name.decode("utf-8", "replace")
        try:
            size = int(pax.get("GNU.sparse.realsize", pax.get("GNU.sparse.size", b"%d" % member.size)))
            if pax.get("GNU.sparse.major") == b"1":
                numbers = self._sparse_map(member)
            elif "GNU.sparse.map" in pax:
                numbers = [int(number) for number in pax["GNU.sparse.map"].split(b",") if number]
            else:
                numbers = [int(value) for _, value in pairs]
        except ValueError:
            raise damaged(self.path, "its list of holes is broken", self.member) from None
        self._set_parts(member, list(zip(numbers[::2], numbers[1::2], strict=False)), size)

    def _sparse_map(self, member: TarMember) -> list[int]:
        """Version 1.0: the map stands in front of the body, in blocks of its own."""
        text, wanted = b"", -1
        numbers: list[int] = []
        while wanted < 0 or len(numbers) < wanted:
            if member.stored < BLOCK or len(numbers) > 2 * _HOLES_LIMIT or len(text) > BLOCK:
                raise damaged(self.path, "its list of holes is broken", self.member)
            text += self.feed.read(BLOCK, self.member)
            member.stored -= BLOCK
            self._left -= BLOCK
            *lines, text = text.split(b"\n")
            for line in lines:
                if wanted < 0:
                    wanted = 2 * int(line)
                elif len(numbers) < wanted:
                    numbers.append(int(line))
        return numbers

    def _set_parts(self, member: TarMember, parts: list[tuple[int, int]], size: int) -> None:
        at = total = 0
        for offset, length in parts:
            if offset < at or length < 0:
                raise damaged(self.path, "its list of holes is broken", self.member)
            at, total = offset + length, total + length
        self._holes += len(parts)
        many = len(parts) > _HOLES_LIMIT or self._holes > _ALL_HOLES_LIMIT
        if at > size or total != member.stored or many:
            raise damaged(self.path, "its list of holes is broken", self.member)
        member.kind, member.size, member.parts = b"0", size, parts


def _hole(size: int) -> Iterator[bytes]:
    for start in range(0, size, CHUNK):
        yield _ZEROS if size - start >= CHUNK else _ZEROS[: size - start]


def _nanoseconds(text: bytes) -> int:
    """A PAX time, exactly: floating point has no room for nanoseconds of this century."""
    whole, _, part = text.strip().partition(b".")
    nanoseconds = int(whole or b"0") * 1_000_000_000
    fraction = int((part + b"000000000")[:9]) if part else 0
    return nanoseconds - fraction if whole.startswith(b"-") else nanoseconds + fraction
