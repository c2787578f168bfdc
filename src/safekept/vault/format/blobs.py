"""Blobs: the pieces that a vault stores, named by the SHA-256 of their plain bytes.

An id is 32 bytes; in JSON and in file names it is 64 hex digits. A file's content is its blobs'
ids in a row, in one bytes object: 32 bytes a blob whatever the number.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import NamedTuple

#: Bytes in any of the forms that hashing, sealing and compressing take.
Buffer = bytes | bytearray | memoryview

ID = 32

#: The holes of sparse files are pieces of this size, and all of them are one blob: known without hashing
#: when it is stored, and without reading when it is restored. restic's own pieces are not larger.
HOLE = 8 << 20
HOLE_ID = bytes.fromhex("2daeb1f36095b44b318410b3f4e8b5d989dcc7bb023d1426c492dab0a3053e74")


class BlobKind(StrEnum):
    DATA = "data"  # a piece of a file
    TREE = "tree"  # the entries of one directory


class Location(NamedTuple):
    """Where a blob lies: `length` as stored, `plain` its size, 0 where it is not compressed."""

    pack: bytes
    offset: int
    length: int
    plain: int


class PackEntry(NamedTuple):
    """One blob as a pack's header and the index describe it."""

    kind: BlobKind
    id: bytes
    offset: int
    length: int
    plain: int  # 0: stored uncompressed


def blob_id(data: Buffer) -> bytes:
    return hashlib.sha256(data).digest()
