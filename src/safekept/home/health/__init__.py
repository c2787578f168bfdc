"""What a home has lost, and what brings it back."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .databases import judge
    from .health import Health, examine
    from .home_loss import Counts, Examination, HomeLoss, Shrinkage, places_of, shrunk
    from .live_counts import QuickLook, count_now, no_databases
    from .lost import Lost, lost_of
    from .recorded import Directory, Recorded, Since, beside, owner_of

__getattr__ = doors(
    __name__,
    {
        "databases": "judge",
        "health": "Health examine",
        "home_loss": "Counts Examination HomeLoss Shrinkage places_of shrunk",
        "live_counts": "QuickLook count_now no_databases",
        "lost": "Lost lost_of",
        "recorded": "Directory Recorded Since beside owner_of",
    },
)
