"""Taking a checkpoint: look, read what changed, write one pack, name it."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .taking import DEFAULTS, ProjectGone, Protection, Taken, TakeSettings, look_now, take

__getattr__ = doors(
    __name__,
    {
        "taking": "DEFAULTS ProjectGone Protection TakeSettings Taken look_now take",
    },
)
