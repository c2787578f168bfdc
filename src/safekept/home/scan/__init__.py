"""A live home as a Source: the one scanner."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .content import amount
    from .scanning import NothingSelected, Scan, scan
    from .selection import Selection

__getattr__ = doors(
    __name__,
    {
        "content": "amount",
        "scanning": "NothingSelected Scan scan",
        "selection": "Selection",
    },
)
