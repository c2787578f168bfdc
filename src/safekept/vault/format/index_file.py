"""Index files: which pack holds which blobs, as JSON, sealed and compressed.

One entry for each pack, in one file only: restic 0.19 calls anything else an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from safekept.core.errors import BAD_SHAPE

from .blobs import ID, BlobKind, PackEntry
from .crypto import OVERHEAD

#: A file is written when it holds this many blobs …
MOST_BLOBS = 50_000
#: … or when its oldest pack has waited this long: what a killed first snapshot can build on.
LONGEST_WAIT = 60.0

Packs = list[tuple[bytes, list[PackEntry]]]
_LIMIT = 1 << 32
_KINDS = {"data": BlobKind.DATA, "tree": BlobKind.TREE}


class BadIndex(Exception):
    """Text that is not an index file."""


def encode_index(packs: Sequence[tuple[bytes, Sequence[PackEntry]]]) -> bytes:
    """Go's form: no spaces, the fields in restic's order, a newline at the end."""
    parts = []
    for pack, entries in packs:
        blobs = ",".join(
            f'{{"id":"{entry.id.hex()}","type":"{entry.kind.value}","offset":{entry.offset},'
            f'"length":{entry.length}' + (f',"uncompressed_length":{entry.plain}}}' if entry.plain else "}")
            for entry in entries
        )
        parts.append(f'{{"id":"{pack.hex()}","blobs":[{blobs}]}}')
    return f'{{"packs":[{",".join(parts)}]}}\n'.encode()


def decode_index(text: bytes) -> Packs:
    """The packs that an index file names; others' additions (`packs_to_delete`) are passed over."""
    try:
        found: Packs = []
        for pack in json.loads(text)["packs"] or ():
            entries = []
            for blob in pack["blobs"] or ():
                identity = bytes.fromhex(blob["id"])
                offset, length = blob["offset"], blob["length"]
                plain = blob.get("uncompressed_length", 0)
                fits = 0 <= offset < _LIMIT and OVERHEAD <= length < _LIMIT and 0 <= plain < _LIMIT
                if not fits or len(identity) != ID:
                    raise BadIndex("it names a blob that cannot be")
                entries.append(PackEntry(_KINDS[blob["type"]], identity, offset, length, plain))
            name = bytes.fromhex(pack["id"])
            if len(name) != ID:
                raise BadIndex("it names a pack that cannot be")
            found.append((name, entries))
    except BAD_SHAPE as error:
        raise BadIndex(f"not an index: {error}") from error
    return found
