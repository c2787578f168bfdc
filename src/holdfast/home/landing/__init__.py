"""Landing: the one way anything is put on disk in a home.

Plan, stage on the target's filesystem, prove, swap in under a record, keep what was replaced. After
recovery a home is exactly the old one or exactly the new one, whatever happened on the way.
"""

from __future__ import annotations

from .landing import Landed, land
from .plan import LandingPlan, plan_landing
from .recovery import PastLanding, Recovered, expire, landings, recover
from .targets import Targets
from .undoing import undo

__all__ = [
    "Landed",
    "LandingPlan",
    "PastLanding",
    "Recovered",
    "Targets",
    "expire",
    "land",
    "landings",
    "plan_landing",
    "recover",
    "undo",
]
