"""A snapshot becomes a Source again, whole or in part, or is compared with another."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .homes import (
        HomeSource,
        StoredRoot,
        content_of,
        damaged_remark,
        read_manifest,
        shallow_paths,
        snapshot_source,
    )
    from .reader import has_bytes
    from .trees import coverage, same_content, tree_changes, used_blobs

__getattr__ = doors(
    __name__,
    {
        "homes": "HomeSource StoredRoot content_of damaged_remark read_manifest shallow_paths "
        "snapshot_source",
        "reader": "has_bytes",
        "trees": "coverage same_content tree_changes used_blobs",
    },
)
