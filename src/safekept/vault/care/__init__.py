"""Looking after a vault: check, forget, prune, repair."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .checking import check
    from .damage import Report
    from .forgetting import SnapshotPinned, forget, forget_by_policy, mark_proven, pin, unforget, unpin
    from .policy import Policy, Span
    from .prune import GRACE, Pruned, PrunePlan, carry_out, plan_prune
    from .repair import Repaired, RepairPlan, carry_out_repair, plan_repair
    from .retention import DEFAULT_POLICIES, SOUND, for_every_kind, plan_forget, states_in, states_in_file

__getattr__ = doors(
    __name__,
    {
        "checking": "check",
        "damage": "Report",
        "forgetting": "SnapshotPinned forget forget_by_policy mark_proven pin unforget unpin",
        "policy": "Policy Span",
        "prune": "GRACE PrunePlan Pruned carry_out plan_prune",
        "repair": "RepairPlan Repaired carry_out_repair plan_repair",
        "retention": "DEFAULT_POLICIES SOUND for_every_kind plan_forget states_in states_in_file",
    },
)
