"""Going back to a checkpoint: plan, prove, stage, swap, and back again."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .planning import unmake
    from .rollback import RollbackPlan, RolledBack, plan_rollback, plan_undo, recover, roll_back
    from .unpacking import size_of, unpack

__getattr__ = doors(
    __name__,
    {
        "planning": "unmake",
        "rollback": "RollbackPlan RolledBack plan_rollback plan_undo recover roll_back",
        "unpacking": "size_of unpack",
    },
)
