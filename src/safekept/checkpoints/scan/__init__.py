"""One look at every file of a project: which are kept, and which changed since the last point."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .hidden_folders import HiddenFolders
    from .hidden_left import LEFT_WORDS, REMAKEABLE, HiddenLimits, LeftRecord, NotKept, read_left
    from .hidden_look import HiddenLook
    from .ignore import Ignore
    from .kept_hidden import KeptHidden, KeptLook
    from .rules import Rules

__getattr__ = doors(
    __name__,
    {
        "hidden_look": "HiddenLook",
        "hidden_folders": "HiddenFolders",
        "hidden_left": "HiddenLimits LEFT_WORDS LeftRecord NotKept REMAKEABLE read_left",
        "ignore": "Ignore",
        "kept_hidden": "KeptHidden KeptLook",
        "rules": "Rules",
    },
)
