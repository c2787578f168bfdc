"""Keeping the store small and sound: retention, sizes, packing, what was dropped."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .dropping import Dropped, Soundness, bring_back, dropped
    from .last_run import Upkeep, read_upkeep
    from .maintenance import MaintenanceSettings, UpkeepRequest, run_maintenance, start_if_due
    from .retention import Drop, Limits, ProjectPoints, RetentionPlan
    from .size import StoreSize, measure
    from .surveying import make_plan, survey

__getattr__ = doors(
    __name__,
    {
        "dropping": "Dropped Soundness bring_back dropped",
        "last_run": "Upkeep read_upkeep",
        "maintenance": "UpkeepRequest MaintenanceSettings run_maintenance start_if_due",
        "retention": "Drop Limits ProjectPoints RetentionPlan",
        "size": "StoreSize measure",
        "surveying": "make_plan survey",
    },
)
