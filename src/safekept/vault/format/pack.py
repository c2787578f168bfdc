"""Pack files: many sealed blobs, a sealed header that names them, and the header's length.

    [blob 1] … [blob N] [sealed header] [uint32 LE: length of the sealed header]

Offsets are implied and fill the file exactly, so a pack that lost or gained a byte is known at once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from ..errors import NotProven
from .blobs import BlobKind, PackEntry
from .crypto import OVERHEAD, Key, Unauthentic

TARGET = 16 << 20
LARGEST_HEADER = 16 << 20
#: Half of what the largest header can name: far from the limit, and an index file holds as many.
MOST_BLOBS = 200_000

_PLAIN = struct.Struct("<BI32s")
_COMPRESSED = struct.Struct("<BII32s")
_LENGTH = struct.Struct("<I")
_KINDS = {0: BlobKind.DATA, 1: BlobKind.TREE, 2: BlobKind.DATA, 3: BlobKind.TREE}
_TYPES = {BlobKind.DATA: 0, BlobKind.TREE: 1}


class BadPack(Exception):
    """A pack whose header cannot be read or does not fit its size."""


class PackBuilder:
    """One pack in the making: sealed blobs are appended, `finish` closes it."""

    def __init__(self, kind: BlobKind) -> None:
        self.kind = kind
        self.data = bytearray()
        self.entries: list[PackEntry] = []

    def append(self, blob: bytes, sealed: bytes, plain: int) -> None:
        self.entries.append(PackEntry(self.kind, blob, len(self.data), len(sealed), plain))
        self.data += sealed

    @property
    def full(self) -> bool:
        return len(self.data) >= TARGET or len(self.entries) >= MOST_BLOBS

    def finish(self, key: Key) -> str:
        """Append the header; the pack's name. `data` is then the whole file."""
        plain = encode_header(self.entries)
        header = key.seal(plain)
        if key.open(header) != plain:
            raise NotProven.of("pack header")
        self.data += header
        self.data += _LENGTH.pack(len(header))
        return hashlib.sha256(self.data).hexdigest()


def encode_header(entries: Sequence[PackEntry]) -> bytes:
    parts = []
    for entry in entries:
        number = _TYPES[entry.kind]
        if entry.plain:
            parts.append(_COMPRESSED.pack(number + 2, entry.length, entry.plain, entry.id))
        else:
            parts.append(_PLAIN.pack(number, entry.length, entry.id))
    return b"".join(parts)


def decode_header(plain: bytes) -> list[PackEntry]:
    """The entries that a decrypted header names, with their offsets; BadPack where it is none."""
    entries, position, offset = [], 0, 0
    while position < len(plain):
        number = plain[position]
        if number not in _KINDS:
            raise BadPack(f"its header has an entry of unknown type {number}")
        layout = _COMPRESSED if number >= 2 else _PLAIN
        if position + layout.size > len(plain):
            raise BadPack("its header ends in the middle of an entry")
        fields = layout.unpack_from(plain, position)
        size = fields[2] if number >= 2 else 0
        entries.append(PackEntry(_KINDS[number], fields[-1], offset, fields[1], size))
        offset += fields[1]
        position += layout.size
    return entries


def pack_size(entries: Sequence[PackEntry]) -> int:
    """The exact size of a pack with these blobs."""
    headers = sum(_COMPRESSED.size if entry.plain else _PLAIN.size for entry in entries)
    return sum(entry.length for entry in entries) + headers + OVERHEAD + _LENGTH.size


def header_span(tail: bytes, size: int) -> int:
    """How many bytes at the end of a pack are its header and length; `tail` are its last bytes."""
    if size < 73 or len(tail) < _LENGTH.size:
        raise BadPack(f"it has only {size} bytes")
    (length,) = _LENGTH.unpack(tail[-_LENGTH.size :])
    if length < OVERHEAD or length > LARGEST_HEADER or length > size - _LENGTH.size:
        raise BadPack(f"its header claims to have {length} bytes")
    return int(length) + _LENGTH.size


def read_header(key: Key, data: bytes | bytearray | memoryview, size: int) -> list[PackEntry]:
    """The entries of a pack from its last bytes (or all of them); BadPack where they do not fit."""
    view = memoryview(data)
    span = header_span(bytes(view[-_LENGTH.size :]), size)
    if len(view) < span:
        raise BadPack("not enough of it was read")
    try:
        entries = decode_header(key.open(view[-span : -_LENGTH.size]))
    except Unauthentic:
        raise BadPack("its header is not authentic") from None
    if pack_size(entries) != size:
        raise BadPack(f"it has {size} bytes where its header names {pack_size(entries)}")
    return entries
