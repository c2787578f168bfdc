"""Landing: the one way anything is put on disk in a home.

Plan, stage on the target's filesystem, prove, swap in under a record, keep what was replaced. After
recovery a home is exactly the old one or exactly the new one, whatever happened on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .items import refuse_empty
    from .landing import Landed, land
    from .plan import LandingPlan, plan_landing
    from .recovery import PastLanding, Recovered, expire, landings, recover
    from .targets import Targets
    from .undo_plan import LandingUndo, plan_undo
    from .undoing import undo

__all__ = [
    "Landed",
    "LandingPlan",
    "LandingUndo",
    "PastLanding",
    "Recovered",
    "Targets",
    "expire",
    "land",
    "landings",
    "plan_landing",
    "plan_undo",
    "recover",
    "refuse_empty",
    "undo",
]

#: Imported when asked for: a command that only looks whether there is anything to recover pays for that.
_PLACES = {
    "Landed": "landing",
    "LandingPlan": "plan",
    "LandingUndo": "undo_plan",
    "PastLanding": "recovery",
    "Recovered": "recovery",
    "Targets": "targets",
    "expire": "recovery",
    "land": "landing",
    "landings": "recovery",
    "plan_landing": "plan",
    "plan_undo": "undo_plan",
    "recover": "recovery",
    "refuse_empty": "items",
    "undo": "undoing",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
