"""Taking over the checkpoints that Hermes kept."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .adopt import AdoptedProject, adopt_store
    from .legacy import LegacyArchive, archive_legacy, clear_legacy, legacy_archives

__getattr__ = doors(
    __name__,
    {
        "adopt": "AdoptedProject adopt_store",
        "legacy": "LegacyArchive archive_legacy clear_legacy legacy_archives",
    },
)
