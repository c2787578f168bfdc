"""Points of a project: which one is meant, what it held, what differs, whose change that was."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .addressing import FileNotInCheckpoint, find_checkpoint, find_files
    from .differences import Changes, count_pairs, text_difference
    from .lost_files import missed, vanished
    from .readonly_view import borrowed
    from .reconstructed_state import ReconstructedState, numbered, reconstruct_all
    from .rollback_journal import NAME, RollbackJournal
    from .rollback_plan import ACTIONS, LEFT, REMOVING, Left, RollbackPlan, substance

__getattr__ = doors(
    __name__,
    {
        "addressing": "FileNotInCheckpoint find_checkpoint find_files",
        "differences": "Changes count_pairs text_difference",
        "lost_files": "missed vanished",
        "readonly_view": "borrowed",
        "reconstructed_state": "ReconstructedState reconstruct_all numbered",
        "rollback_journal": "NAME RollbackJournal",
        "rollback_plan": "ACTIONS LEFT REMOVING Left RollbackPlan substance",
    },
)
