"""One look at every file of a project: which are kept, and which changed since the last point."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .hidden import LEFT_WORDS, REMAKEABLE, HiddenLimits, HiddenLook
    from .hidden_folders import HiddenFolders, Left
    from .ignore import Ignore
    from .kept_hidden import KeptHidden, KeptLook
    from .rules import Rules

__getattr__ = doors(
    __name__,
    {
        "hidden": "HiddenLimits HiddenLook LEFT_WORDS REMAKEABLE",
        "hidden_folders": "HiddenFolders Left",
        "ignore": "Ignore",
        "kept_hidden": "KeptHidden KeptLook",
        "rules": "Rules",
    },
)
