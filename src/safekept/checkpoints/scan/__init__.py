"""One look at every file of a project: which are kept, and which changed since the last point."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .ignore import Ignore
    from .rules import Rules

__getattr__ = doors(
    __name__,
    {
        "ignore": "Ignore",
        "rules": "Rules",
    },
)
