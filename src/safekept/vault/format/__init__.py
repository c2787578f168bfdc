"""What restic writes, byte for byte: blobs, packs, trees, snapshots, and the envelope around them."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .blobs import BlobKind
    from .quoting import quote, unquote
    from .snapshot import Snapshot
    from .times import format_time
    from .tree import Node

__getattr__ = doors(
    __name__,
    {
        "blobs": "BlobKind",
        "quoting": "quote unquote",
        "snapshot": "Snapshot",
        "times": "format_time",
        "tree": "Node",
    },
)
