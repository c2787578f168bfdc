"""The records of a zip file, as bytes.

Written from PKWARE's APPNOTE. Zip64 fields appear exactly where a number does not fit, so that the
oldest readers open everything they can.
"""

from __future__ import annotations

import struct
import time
from functools import lru_cache

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR64 = struct.Struct("<4sIQI")
DESCRIPTOR = struct.Struct("<4s3I")
DESCRIPTOR64 = struct.Struct("<4sI2Q")
TIMES = struct.Struct("<2HBi")

LOCAL_SIGNATURE, CENTRAL_SIGNATURE = b"PK\x03\x04", b"PK\x01\x02"
END_SIGNATURE, END64_SIGNATURE, LOCATOR64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
DESCRIPTOR_SIGNATURE = b"PK\x07\x08"

STORED, DEFLATED, BZIP2, LZMA = 0, 8, 12, 14
ENCRYPTED, DESCRIBED, STRONG, UTF8 = 0x1, 0x8, 0x40, 0x800
LIMIT32, LIMIT16 = 0xFFFFFFFF, 0xFFFF
UNIX = 3
TIMES_ID, ZIP64_ID = 0x5455, 0x0001
#: Our own extra field on the manifest member. With the archive's comment it says that the manifest
#: belongs to this very zip, and did not just lie in the home (Hermes restores ours into it).
OWN_ID = 0x6648
OWN_EXTRA = struct.pack("<2H8s", OWN_ID, 8, b"safekept")
COMMENT = b"safekept-archive "

#: A member of this size may deflate to more than 32 bits can say, so its descriptor has 64.
ZIP64_FROM = LIMIT32 - (64 << 20)


@lru_cache(maxsize=4096)
def dos_time(seconds: int) -> tuple[int, int]:
    """Time and date words in local time; what zip cannot say becomes the nearest it can."""
    try:
        year, month, day, hour, minute, second = time.localtime(seconds)[:6]
    except (OverflowError, ValueError, OSError):
        year, month, day, hour, minute, second = (1979 if seconds < 0 else 2108), 1, 1, 0, 0, 0
    if year < 1980:
        return 0, 0x21
    if year > 2107:
        return 0xBF7D, 0xFF9F
    return hour << 11 | minute << 5 | second >> 1, (year - 1980) << 9 | month << 5 | day


def times_extra(seconds: int) -> bytes:
    """The extended timestamp, UTC to the second, where 32 bits hold it."""
    if -(1 << 31) <= seconds < 1 << 31:
        return TIMES.pack(TIMES_ID, 5, 1, seconds)
    return b""


class Placed:
    """What the central directory has to say about one member."""

    __slots__ = (
        "attributes",
        "crc",
        "deflated",
        "extra",
        "flags",
        "method",
        "name",
        "offset",
        "size",
        "when",
    )

    def __init__(
        self, name: bytes, flags: int, method: int, when: tuple[int, int], attributes: int, extra: bytes
    ) -> None:
        self.name, self.flags, self.method, self.when = name, flags, method, when
        self.attributes, self.extra = attributes, extra
        self.crc = self.deflated = self.size = self.offset = 0

    def local(self) -> bytes:
        """The local header of a member whose sizes are known."""
        return (
            LOCAL.pack(
                LOCAL_SIGNATURE, 20, self.flags, self.method, *self.when,
                self.crc, self.deflated, self.size, len(self.name), len(self.extra),
            )
            + self.name
            + self.extra
        )  # fmt: skip

    def local_streamed(self, wide: bool) -> bytes:
        """The local header of a member whose sizes follow its data."""
        sizes, extra = 0, self.extra
        if wide:
            sizes, extra = LIMIT32, struct.pack("<2H2Q", ZIP64_ID, 16, 0, 0) + extra
        return (
            LOCAL.pack(
                LOCAL_SIGNATURE, 45 if wide else 20, self.flags, self.method, *self.when,
                0, sizes, sizes, len(self.name), len(extra),
            )
            + self.name
            + extra
        )  # fmt: skip

    def descriptor(self, wide: bool) -> bytes:
        layout = DESCRIPTOR64 if wide else DESCRIPTOR
        return layout.pack(DESCRIPTOR_SIGNATURE, self.crc, self.deflated, self.size)

    def central(self) -> bytes:
        wide = [number for number in (self.size, self.deflated, self.offset) if number >= LIMIT32]
        extra, version = self.extra, 20
        if wide:
            extra = struct.pack(f"<2H{len(wide)}Q", ZIP64_ID, 8 * len(wide), *wide) + extra
            version = 45
        return (
            CENTRAL.pack(
                CENTRAL_SIGNATURE, UNIX << 8 | version, version, self.flags, self.method, *self.when,
                self.crc, min(self.deflated, LIMIT32), min(self.size, LIMIT32),
                len(self.name), len(extra), 0, 0, 0, self.attributes, min(self.offset, LIMIT32),
            )
            + self.name
            + extra
        )  # fmt: skip


def end_of_directory(count: int, size: int, offset: int, comment: bytes) -> bytes:
    """Everything after the central directory."""
    tail = b""
    if count >= LIMIT16 or size >= LIMIT32 or offset >= LIMIT32:
        tail = END64.pack(
            END64_SIGNATURE, END64.size - 12, UNIX << 8 | 45, 45, 0, 0, count, count, size, offset
        )
        tail += LOCATOR64.pack(LOCATOR64_SIGNATURE, 0, offset + size, 1)
    short = min(count, LIMIT16)
    return tail + END.pack(
        END_SIGNATURE, 0, 0, short, short, min(size, LIMIT32), min(offset, LIMIT32), len(comment)
    ) + comment  # fmt: skip
