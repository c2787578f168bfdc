"""Packs that no index names: what they hold is read from their own headers.

They are what an interrupted snapshot left, or what a lost index file named. Their blobs are sound
and may be read; they do not count as stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import VaultDamaged
from ..format.blobs import PackEntry
from ..format.crypto import Key
from ..format.pack import BadPack, header_span, read_header
from ..storage.base import FileKind, NotStored, Storage
from .index import Index

_GUESS = 64 << 10  # most headers are read with one read


def unindexed_packs(storage: Storage, key: Key, index: Index) -> Iterator[tuple[bytes, list[PackEntry]]]:
    for name, size in storage.list(FileKind.PACK):
        if not index.has_pack(bytes.fromhex(name)):
            try:
                yield bytes.fromhex(name), load_header(storage, key, name, size)
            except (BadPack, NotStored, VaultDamaged):
                continue


def load_header(storage: Storage, key: Key, name: str, size: int) -> list[PackEntry]:
    """The blobs that a pack's own header names; BadPack where it has none that can be read."""
    tail = storage.read(FileKind.PACK, name, max(0, size - _GUESS), _GUESS)
    span = header_span(tail, size)
    if span > len(tail):
        tail = storage.read(FileKind.PACK, name, size - span, span)
    return read_header(key, tail, size)
