"""Reads the central directory of a zip, trusting nothing in it.

Every number is checked against the size of the file before it is used; members may not overlap (the
trick of the densest bombs), and what the directory says is compared with each local header later.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

from ..container.handle import Handle
from ..errors import ArchiveDamaged, damaged, unsupported
from .records import (
    CENTRAL,
    CENTRAL_SIGNATURE,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    LIMIT16,
    LIMIT32,
    LOCAL,
    LOCATOR64,
    LOCATOR64_SIGNATURE,
    OWN_ID,
    TIMES,
    TIMES_ID,
    UNIX,
    UTF8,
    ZIP64_ID,
)

_READ = 4 << 20
_FIXED = CENTRAL.size
_LONGEST = _FIXED + 3 * LIMIT16
_ONLY_TIMES = TIMES.pack(TIMES_ID, 5, 1, 0)[:5]


class Member:
    """One line of the central directory."""

    __slots__ = (
        "attributes", "crc", "date", "deflated", "flags", "method", "name", "offset", "own", "raw", "seconds",
        "size", "system", "time",
    )  # fmt: skip

    def __init__(self, fields: list[int], raw: bytes) -> None:
        (made_by, _, self.flags, self.method, self.time, self.date, self.crc, self.deflated, self.size,
         _, _, _, _, _, self.attributes, self.offset) = fields  # fmt: skip
        self.raw = raw
        self.system = made_by >> 8
        self.seconds: int | None = None  # UTC, from the extended timestamp
        self.own = False
        self.name = _decode(raw, self.flags, self.system)


def _decode(raw: bytes, flags: int, system: int) -> str:
    """The name. Without the flag the standard says cp437; makers on Unix put the raw bytes."""
    if raw.isascii():
        return raw.decode("ascii")
    if not flags & UTF8 and system != UNIX:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw.decode("cp437")
    return raw.decode("utf-8", "surrogateescape")


class CentralDirectory:
    """Where the central directory is, how many members it lists, and the archive's comment."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        end, record = _find_end(handle)
        _, disk, directory_disk, here, count, size, offset, _ = END.unpack_from(record)
        self.comment = record[END.size :]
        before = end
        if LIMIT16 in (count, disk) or LIMIT32 in (size, offset):
            wide = _find_end64(handle, end)
            if wide is not None:
                before, (disk, directory_disk, here, count, size, offset) = wide
        if disk or directory_disk or here != count:
            raise unsupported(handle.path, "it is one part of a zip in several parts")
        if size + offset > before or size < count * _FIXED:
            raise damaged(handle.path, "its list of members is not where it should be")
        #: Bytes put in front of a zip (a self-extractor) shift every offset in it.
        self.shift = before - size - offset
        self.start, self.size, self.count = before - size, size, count

    def members(self) -> Iterator[Member]:
        """Every member, in the order of the directory."""
        path, data, position = self.handle.path, b"", 0
        unread, end = self.start, self.start + self.size
        for _ in range(self.count):
            if len(data) - position < _LONGEST and unread < end:
                more = self.handle.read(unread, min(_READ, end - unread))
                data, position, unread = data[position:] + more, 0, unread + len(more)
            if len(data) - position < _FIXED:
                raise damaged(path, "its list of members ends too early")
            signature, *fields = CENTRAL.unpack_from(data, position)
            if signature != CENTRAL_SIGNATURE:
                raise damaged(path, "its list of members is broken")
            name_end = position + _FIXED + fields[9]
            extra_end = name_end + fields[10]
            following = extra_end + fields[11]
            if following > len(data):
                raise damaged(path, "its list of members ends too early")
            member = Member(fields, data[position + _FIXED : name_end])
            if name_end != extra_end:
                read_extra(path, member, data[name_end:extra_end])
            member.offset += self.shift
            if member.offset + LOCAL.size + len(member.raw) + member.deflated > self.start:
                raise damaged(path, "it lies outside the archive", member.name)
            position = following
            yield member
        if unread != end or position != len(data):
            raise damaged(path, "its list of members is longer than it should be")


def _find_end(handle: Handle) -> tuple[int, bytes]:
    """Position and bytes of the end record; the comment behind it has at most 64 KiB."""
    start = max(0, handle.size - END.size - LIMIT16)
    tail = handle.read(start, handle.size - start)
    position = len(tail)
    while (position := tail.rfind(END_SIGNATURE, 0, position)) >= 0:
        if position + END.size <= len(tail):
            comment = END.unpack_from(tail, position)[7]
            if position + END.size + comment == len(tail):
                return start + position, tail[position:]
        position += len(END_SIGNATURE) - 1
    raise damaged(handle.path, "its end is missing, so it was cut short or never finished")


def has_end(handle: Handle) -> bool:
    """Whether the file ends like a zip, whatever it begins with."""
    try:
        _find_end(handle)
    except ArchiveDamaged:
        return False
    return True


def _find_end64(handle: Handle, end: int) -> tuple[int, tuple[int, ...]] | None:
    locator = handle.some(end - LOCATOR64.size, LOCATOR64.size) if end >= LOCATOR64.size else b""
    if len(locator) != LOCATOR64.size or locator[:4] != LOCATOR64_SIGNATURE:
        return None
    position = end - LOCATOR64.size - END64.size  # where it is, whatever was put in front
    record = handle.some(position, END64.size) if position >= 0 else b""
    if len(record) != END64.size or record[:4] != END64_SIGNATURE:
        raise damaged(handle.path, "its end is broken")
    _, _, _, _, disk, directory_disk, here, count, size, offset = END64.unpack(record)
    return position, (disk, directory_disk, here, count, size, offset)


def read_extra(path: str, member: Member, extra: bytes) -> None:
    if len(extra) == TIMES.size and extra.startswith(_ONLY_TIMES):  # what nearly every member of ours has
        member.seconds = TIMES.unpack(extra)[3]
        return
    position = 0
    while position + 4 <= len(extra):
        identifier, length = struct.unpack_from("<2H", extra, position)
        body = extra[position + 4 : position + 4 + length]
        position += 4 + length
        if len(body) != length:
            return  # a broken extra field carries nothing we need
        if identifier == TIMES_ID and length >= 5 and body[0] & 1:
            member.seconds = struct.unpack_from("<i", body, 1)[0]
        elif identifier == OWN_ID:
            member.own = body == b"safekept"
        elif identifier == ZIP64_ID:
            numbers = list(struct.unpack(f"<{length // 8}Q", body[: length // 8 * 8]))
            try:
                if member.size == LIMIT32:
                    member.size = numbers.pop(0)
                if member.deflated == LIMIT32:
                    member.deflated = numbers.pop(0)
                if member.offset == LIMIT32:
                    member.offset = numbers.pop(0)
            except IndexError:
                raise damaged(path, "its sizes are missing", member.name) from None


def refuse_overlaps(path: str, members: list[Member], end: int) -> None:
    """Two members that share bytes: never an accident."""
    ordered = sorted(members, key=lambda member: member.offset)
    for member, following in pairwise(ordered):
        if member.offset + LOCAL.size + len(member.raw) + member.deflated > following.offset:
            raise damaged(path, "it overlaps another member", member.name)
    if ordered and ordered[-1].offset >= end:
        raise damaged(path, "it lies outside the archive", ordered[-1].name)
