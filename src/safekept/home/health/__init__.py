"""What a home has lost, and what brings it back."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .databases import judge
    from .emptied import Stored, with_emptied
    from .health import Health, examine
    from .live_counts import QuickLook, count_now, damage_text, no_databases
    from .loss_rules import Counts, Examination, HomeLoss, Shrinkage, places_of, shrunk
    from .loss_summary import LossSummary, summarize_losses
    from .recorded import Directory, Recorded, Since, beside, owner_of

__getattr__ = doors(
    __name__,
    {
        "databases": "judge",
        "emptied": "Stored with_emptied",
        "health": "Health examine",
        "loss_rules": "Counts Examination HomeLoss Shrinkage places_of shrunk",
        "live_counts": "QuickLook count_now damage_text no_databases",
        "loss_summary": "LossSummary summarize_losses",
        "recorded": "Directory Recorded Since beside owner_of",
    },
)
