"""A Source becomes a snapshot; what earlier snapshots know costs a look."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .intake import UnchangedDirectory
    from .memory import RACY_NS, KnownDatabase, Memory, identity_at, marks_in
    from .writer import Description, SnapshotAccount, StoredSnapshot, write_snapshot

__getattr__ = doors(
    __name__,
    {
        "intake": "UnchangedDirectory",
        "memory": "RACY_NS KnownDatabase Memory identity_at marks_in",
        "writer": "SnapshotAccount Description StoredSnapshot write_snapshot",
    },
)
