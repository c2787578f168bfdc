"""What restic writes, byte for byte: blobs, packs, trees, snapshots, and the envelope around them."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .blobs import BlobKind
    from .go_text import format_time, parse_time, quote, unquote
    from .snapshot import Snapshot
    from .tree import Node

__getattr__ = doors(
    __name__,
    {
        "blobs": "BlobKind",
        "go_text": "format_time parse_time quote unquote",
        "snapshot": "Snapshot",
        "tree": "Node",
    },
)
