"""One portable file of a home: written whole or not at all, read back whatever made it.

Public names: `write_archive` and `Written`; `open_archive`, `Archive` and `ReadLimits`; `identify`; `Seal`,
`make_seal` and `Identity` for what only another key shall open.
"""

from .container.limits import HASH_NONE, NO_LIMITS, ReadLimits, leaves_target
from .reading import Archive, identify, open_archive
from .sealing.seal import Identity, Seal, make_seal
from .writing import Written, write_archive

__all__ = [
    "HASH_NONE",
    "NO_LIMITS",
    "Archive",
    "Identity",
    "ReadLimits",
    "Seal",
    "Written",
    "identify",
    "leaves_target",
    "make_seal",
    "open_archive",
    "write_archive",
]
