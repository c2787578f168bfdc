"""Points of a project: which one is meant, what it held, what differs, whose change that was."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .addressing import FileNotInCheckpoint, find_checkpoint, find_files, hidden_below
    from .differences import Changes, count_pairs, missed, text_difference, vanished
    from .reconstructed_state import ReconstructedState, numbered, reconstruct_all
    from .rollback_plan import (
        ACTIONS,
        HIDDEN_FILES,
        HIDDEN_REASONS,
        LEFT,
        NAME,
        OWN,
        REMOVING,
        Left,
        RollbackJournal,
        RollbackPlan,
        visible_state,
    )

__getattr__ = doors(
    __name__,
    {
        "addressing": "FileNotInCheckpoint find_checkpoint find_files hidden_below",
        "differences": "Changes count_pairs missed text_difference vanished",
        "reconstructed_state": "ReconstructedState numbered reconstruct_all",
        "rollback_plan": "ACTIONS HIDDEN_FILES HIDDEN_REASONS LEFT Left NAME OWN REMOVING "
        "RollbackJournal RollbackPlan visible_state",
    },
)
