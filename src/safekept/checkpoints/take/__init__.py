"""Taking a checkpoint: look, read what changed, write one pack, name it."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .protection import Protection
    from .taking import DEFAULTS, Taken, TakeSettings, take

__getattr__ = doors(
    __name__,
    {
        "protection": "Protection",
        "taking": "DEFAULTS TakeSettings Taken take",
    },
)
