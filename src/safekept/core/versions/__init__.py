"""Which safekept this is, and which one wrote the state that it finds."""

from typing import TYPE_CHECKING

from ..doors import doors

if TYPE_CHECKING:
    from .program import BUILT_FROM, version_text
    from .state import STATE_FILE, StateIsNewer, mark_state, refuse_newer_state

__getattr__ = doors(
    __name__,
    {
        "program": "BUILT_FROM version_text",
        "state": "STATE_FILE StateIsNewer mark_state refuse_newer_state",
    },
)
