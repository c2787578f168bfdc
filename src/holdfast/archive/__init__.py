"""One portable file of a home: written whole or not at all, read back whatever made it.

Public names: `write_archive` and `Written`; `open_archive`, `Archive` and `Limits`; `identify`.
"""

from holdfast.archive.identify import identify
from holdfast.archive.limits import HASH_NONE, NO_LIMITS, Limits
from holdfast.archive.names import leaves_target
from holdfast.archive.reading import Archive, open_archive
from holdfast.archive.writing import Written, write_archive

__all__ = [
    "HASH_NONE",
    "NO_LIMITS",
    "Archive",
    "Limits",
    "Written",
    "identify",
    "leaves_target",
    "open_archive",
    "write_archive",
]
