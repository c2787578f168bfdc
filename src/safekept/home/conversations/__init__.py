"""One conversation inside a chat database: read, brought back, taken out again."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .conversations import Chats, Conversation, Message, NoSuchSession, open_copy, open_live
    from .removal import SessionNotTakenOut, check_untouched, take_out
    from .returning import Returned, bring_back

__getattr__ = doors(
    __name__,
    {
        "conversations": "Chats Conversation Message NoSuchSession open_copy open_live",
        "removal": "SessionNotTakenOut check_untouched take_out",
        "returning": "Returned bring_back",
    },
)
