"""The headers of a tar file, as bytes: POSIX with PAX records where ustar cannot say it.

Nanoseconds, long or non-ASCII names and sizes beyond 8 GiB go into PAX records; a long name that is
not UTF-8 goes into a GNU long-name member, which every tar on Linux reads as raw bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib

from safekept.core.entries import Kind
from safekept.core.records import dataclass

from ..container.handle import Handle
from ..container.manifest import Record

BLOCK = 512
END_OF_ARCHIVE = bytes(2 * BLOCK)
#: Magic, no owner's name, no device, no prefix.
_BACK = b"ustar\x0000" + bytes(64) + b"0000000\x000000000\x00" + bytes(167)
_TYPES = {Kind.FILE: b"0", Kind.DIRECTORY: b"5", Kind.SYMLINK: b"2"}
_LARGEST = 0o77777777777


def padding(size: int) -> bytes:
    """What fills the last block of a body."""
    return bytes(-size % BLOCK)


def member_header(record: Record, comment: str = "") -> bytes:
    """Everything in front of the body of one member."""
    name = os.fsencode(record.path)
    if record.kind is Kind.DIRECTORY:
        name += b"/"
    target = os.fsencode(record.target) if record.target else b""
    seconds, nanoseconds = divmod(record.mtime_ns, 1_000_000_000)
    plain = len(name) <= 100 and name.isascii() and not target and not comment and record.size <= _LARGEST
    if plain and 10**9 <= seconds < 10**10:
        # Nearly every file: only the nanoseconds need a PAX record, and that has a constant length.
        front = b"%b30 mtime=%d.%09d\n%b" % (_TIME_FRONT, seconds, nanoseconds, _TIME_PADDING)
    else:
        front = _extended(record, name, target, comment, 0 <= seconds <= _LARGEST and not nanoseconds)
        seconds = min(max(seconds, 0), _LARGEST)
    return front + _header(
        name[:100], record.mode, min(record.size, _LARGEST), seconds, _TYPES[record.kind], target[:100]
    )


def _extended(record: Record, name: bytes, target: bytes, comment: str, time_fits: bool) -> bytes:
    """What ustar cannot say about a member, in front of its header."""
    records = front = b""
    if comment:
        records += _pax(b"comment", comment.encode())
    if len(name) > 100 or not name.isascii():
        if _is_utf8(name):
            records += _pax(b"path", name)
        elif len(name) > 100:
            front += _long(b"L", name)
    if len(target) > 100 or not target.isascii():
        if _is_utf8(target):
            records += _pax(b"linkpath", target)
        elif len(target) > 100:
            front += _long(b"K", target)
    if not time_fits:
        records += _pax(b"mtime", _decimal(record.mtime_ns))
    if record.size > _LARGEST:
        records += _pax(b"size", b"%d" % record.size)
    if records:
        front += _header(b"././@PaxHeader", 0o600, len(records), 0, b"x", b"")
        front += records + padding(len(records))
    return front


def _header(name: bytes, mode: int, size: int, seconds: int, kind: bytes, target: bytes) -> bytes:
    front = b"%b%07o\x000000000\x000000000\x00%011o\x00%011o\x00" % (
        name.ljust(100, b"\0"), mode, size, seconds,
    )  # fmt: skip
    back = b"%b%b%b" % (kind, target.ljust(100, b"\0"), _BACK)
    return b"%b%06o\0 %b" % (front, header_sum(front) + 8 * 32 + header_sum(back), back)


def header_sum(block: bytes) -> int:
    """The sum of all bytes of a header.

    adler32 adds bytes up in its lower half, ten times faster than sum(); for ASCII it cannot overflow.
    """
    return (zlib.adler32(block) & 0xFFFF) - 1 if block.isascii() else sum(block)


def _pax(keyword: bytes, value: bytes) -> bytes:
    body = b" %b=%b\n" % (keyword, value)
    length = len(body) + len(str(len(body)))
    if len(body) + len(str(length)) != length:
        length += 1
    return b"%d%b" % (length, body)


def _long(kind: bytes, name: bytes) -> bytes:
    body = name + b"\0"
    return _header(b"././@LongLink", 0, len(body), 0, kind, b"") + body + padding(len(body))


def _decimal(nanoseconds: int) -> bytes:
    sign = b"-" if nanoseconds < 0 else b""
    whole, part = divmod(abs(nanoseconds), 1_000_000_000)
    return sign + (b"%d.%09d" % (whole, part) if part else b"%d" % whole)


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


_TIME_FRONT = _header(b"././@PaxHeader", 0o600, 30, 0, b"x", b"")
_TIME_PADDING = padding(30)


# The last frame of our `tar.zst`: a skippable one, so every zstd passes over it. It says where each
# frame begins and which one holds the manifest. With it the manifest is read without unpacking the rest,
# and frames are unpacked on several threads. It carries nothing that is not also in the archive itself:
# without it, or if it is damaged, the archive is read from front to back.

_SKIPPABLE = struct.Struct("<II")
_SKIPPABLE_MAGIC = 0x184D2A5E
_FOOTER = struct.Struct("<II8s")
_FOOTER_MAGIC = b"SAFEKEPT"
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Trailer:
    """Where the frames are."""

    manifest: int  # number of the frame that the manifest begins in
    frames: list[int]  # packed size of each


def make_trailer(identity: dict[str, object], manifest: int, frames: list[int]) -> bytes:
    facts = {"safekept": 1, **identity, "manifest": manifest, "frames": frames}
    body = json.dumps(facts, separators=(",", ":")).encode("ascii")
    payload = body + _FOOTER.pack(len(body), zlib.crc32(body), _FOOTER_MAGIC)
    return _SKIPPABLE.pack(_SKIPPABLE_MAGIC, len(payload)) + payload


def read_trailer(handle: Handle) -> Trailer | None:
    """The trailer, or None where there is none that is whole and fits the file."""
    if handle.size < _SKIPPABLE.size + _FOOTER.size:
        return None
    length, check, magic = _FOOTER.unpack(handle.read(handle.size - _FOOTER.size, _FOOTER.size))
    start = handle.size - _FOOTER.size - length - _SKIPPABLE.size
    if magic != _FOOTER_MAGIC or start < 0 or length > _LIMIT:
        return None
    if handle.read(start, _SKIPPABLE.size) != _SKIPPABLE.pack(_SKIPPABLE_MAGIC, length + _FOOTER.size):
        return None
    body = handle.read(start + _SKIPPABLE.size, length)
    if zlib.crc32(body) != check:
        return None
    try:
        facts = json.loads(body)
        manifest, frames = facts["manifest"], facts["frames"]
        fits = (
            type(manifest) is int
            and all(type(size) is int and size > 0 for size in frames)
            and sum(frames) == start
            and 0 <= manifest < len(frames)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Trailer(manifest, frames) if fits else None
