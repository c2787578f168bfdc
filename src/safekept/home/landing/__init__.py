"""Landing: the one way anything is put on disk in a home.

Plan, stage on the target's filesystem, prove, swap in under a record, keep what was replaced. After
recovery a home is exactly the old one or exactly the new one, whatever happened on the way.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .area import LandingNotPermitted, existing_areas, is_area, not_permitted, owner_of
    from .disk_names import OtherSpellings
    from .items import Item, NothingMatches, database_of, refuse_empty
    from .landing import Landed, land
    from .plan import LandingPlan, existing, plan_landing
    from .record import Root
    from .recovery import Leftover, expire, landings, leftovers, recover
    from .removals import Removals
    from .search import SearchNote, Unfilled, is_filling, no_landing, only_filler, unfilled
    from .stage.proving import TRY_OLDER
    from .swap.moving import discard
    from .swap.open_databases import HeldDatabase, describe, usage, who_holds
    from .targets import Targets, UnsafeTarget
    from .undoing import LandingUndo, NothingToUndo, UndoNotPossible, plan_undo, undo

__getattr__ = doors(
    __name__,
    {
        "area": "LandingNotPermitted existing_areas is_area not_permitted owner_of",
        "disk_names": "OtherSpellings",
        "items": "Item NothingMatches database_of refuse_empty",
        "landing": "Landed land",
        "plan": "LandingPlan existing plan_landing",
        "record": "Root",
        "recovery": "Leftover expire landings leftovers recover",
        "removals": "Removals",
        "search": "SearchNote Unfilled is_filling no_landing only_filler unfilled",
        "stage.proving": "TRY_OLDER",
        "swap.moving": "discard",
        "swap.open_databases": "HeldDatabase describe usage who_holds",
        "targets": "Targets UnsafeTarget",
        "undoing": "LandingUndo NothingToUndo UndoNotPossible plan_undo undo",
    },
)
