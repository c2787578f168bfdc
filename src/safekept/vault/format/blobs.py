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
