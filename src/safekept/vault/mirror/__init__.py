"""The same vault in another place: copied in order, resumed, pruned on request."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .mirror import (
        CONFIG_LAST,
        Mirrored,
        MirrorPlan,
        carry_out,
        lost_packs,
        plan_mirror,
        refuse_other_vault,
    )
    from .only_there import snapshots_only_there
    from .prune import MirrorPrune, plan_mirror_prune, prune_mirror
    from .transfer import File, Problem

__getattr__ = doors(
    __name__,
    {
        "mirror": "CONFIG_LAST MirrorPlan Mirrored carry_out lost_packs plan_mirror refuse_other_vault",
        "only_there": "snapshots_only_there",
        "prune": "MirrorPrune plan_mirror_prune prune_mirror",
        "transfer": "File Problem",
    },
)
