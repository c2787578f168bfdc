"""Are the packs there that the index names? Asked before anything new is built on what is stored.

A pack that was lost or cut since then must not count as stored, or a snapshot would call itself complete
and could not be restored. One look at the size of each pack: whatever else is wrong inside of one is for
`check` to find.
"""

from __future__ import annotations

from ..storage.base import FileKind, Storage
from .index import Index


def find_lost_packs(storage: Storage, index: Index) -> frozenset[bytes]:
    """Every pack of the index that is missing or has not the size that its blobs need."""
    names = [pack.hex() for pack in index.packs]
    found = storage.sizes(FileKind.PACK, names)
    return frozenset(
        pack
        for pack, name, expected in zip(index.packs, names, index.sizes, strict=True)
        # Where two index files disagree, nobody knows the right size: `check` says so.
        if name not in found or (expected and found[name] != expected)
    )
