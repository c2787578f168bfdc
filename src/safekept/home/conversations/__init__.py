"""One conversation of an agent: read, brought back, taken out again."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .agents import agent_files
    from .conversations import open_copy, open_live
    from .live_files import LiveFiles
    from .reader import Conversation, ConversationReader, Message, NoSuchSession
    from .removal import SessionNotTakenOut, check_untouched, take_out
    from .returning import BRING_BESIDE, LOOK_AT_OLDER, Returned, SessionDiffers, bring_back
    from .transcripts import Transcripts

__getattr__ = doors(
    __name__,
    {
        "agents": "agent_files",
        "conversations": "open_copy open_live",
        "reader": "Conversation ConversationReader Message NoSuchSession",
        "live_files": "LiveFiles",
        "removal": "SessionNotTakenOut check_untouched take_out",
        "returning": "BRING_BESIDE LOOK_AT_OLDER Returned SessionDiffers bring_back",
        "transcripts": "Transcripts",
    },
)
