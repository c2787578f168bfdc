"""The headers of a tar file, as bytes: POSIX with PAX records where ustar cannot say it.

Nanoseconds, long or non-ASCII names and sizes beyond 8 GiB go into PAX records; a long name that is
not UTF-8 goes into a GNU long-name member, which every tar on Linux reads as raw bytes.
"""

from __future__ import annotations

import os
import zlib

from safekept.core.entries import Kind

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
