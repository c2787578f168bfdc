"""A copy of the index beside the vault, so that opening does not grow with history.

One file of sorted records, authenticated with a key that is derived from the vault's own:
a cache that is torn, stale, of another vault or tampered with is simply not used. It is valid only
while every index file that it was made of still exists; new ones are read on top of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import struct
import sys
from array import array
from typing import BinaryIO

from safekept.core.files import durable_file, private_directory, write_all

from ..format.blobs import ID
from ..format.crypto import Key
from .index import RECORD, Index

_MAGIC = b"safekept index cache 2\n"
_HEAD = struct.Struct(">23s32sIIQ")  # magic, tag, packs, index files, records
_FAN = (1 << 16) + 1


class IndexCache:
    """The cache of one vault in a directory that may hold those of others."""

    def __init__(self, directory: str, key: Key, vault: str) -> None:
        self.path = os.path.join(directory, f"index-{vault[:16]}")
        secret = hashlib.sha256(b"safekept index cache" + key.mac_k + key.mac_r + key.encrypt)
        self._secret = secret.digest()

    def load(self, names: set[str]) -> tuple[Index, set[str]] | None:
        """The index and the names of the index files in it; None where it cannot be used."""
        try:
            with open(self.path, "rb") as file:
                found = self._parse(file)
        except (OSError, struct.error):
            return None
        return None if found is None or not found[1] <= names else found

    def _parse(self, file: BinaryIO) -> tuple[Index, set[str]] | None:
        magic, tag, packs, files, records = _HEAD.unpack(file.read(_HEAD.size))
        spans = ((packs + files) * ID, 8 * packs, 4 * _FAN, records * RECORD.size)
        if magic != _MAGIC or os.fstat(file.fileno()).st_size != _HEAD.size + sum(spans):
            return None
        identities, sizes, table, body = (file.read(span) for span in spans)
        counted = struct.pack(">IIQ", packs, files, records)
        if not hmac.compare_digest(self._tag(counted, identities, sizes, table, body), tag):
            return None
        ids = [identities[at : at + ID] for at in range(0, len(identities), ID)]
        fan = array("I", table)
        if sys.byteorder != "little":
            fan.byteswap()
        known = list(struct.unpack(f"<{packs}Q", sizes))
        return Index.from_records(ids[:packs], known, body, fan), {name.hex() for name in ids[packs:]}

    def save(self, index: Index, names: set[str]) -> None:
        """Write it again. A cache that cannot be written is no error."""
        packs, records, fan = index.records()
        if sys.byteorder != "little":
            fan = array("I", fan)
            fan.byteswap()
        identities = b"".join((*packs, *map(bytes.fromhex, sorted(names))))
        sizes = struct.pack(f"<{len(packs)}Q", *index.sizes)
        counts = (len(packs), len(names), len(records) // RECORD.size)
        parts = (identities, sizes, fan.tobytes(), records)
        tag = self._tag(struct.pack(">IIQ", *counts), *parts)
        with contextlib.suppress(OSError):
            private_directory(os.path.dirname(self.path))
            with durable_file(self.path) as file:
                for part in (_HEAD.pack(_MAGIC, tag, *counts), *parts):
                    write_all(file.fileno(), part)

    def _tag(self, counted: bytes, *parts: bytes) -> bytes:
        # Hash, then authenticate: one pass over the body at full speed.
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return hmac.digest(self._secret, counted + digest.digest(), "sha256")
