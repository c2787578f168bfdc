"""Going back to a checkpoint: plan, prove, stage, swap, and back again."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .planning import unmake
    from .recovery import rollback_lock
    from .rollback import RollbackPlan, RolledBack, plan_rollback, plan_undo, recover, roll_back
    from .undo_point import as_it_is
    from .unpacking import size_of, unpack

__getattr__ = doors(
    __name__,
    {
        "planning": "unmake",
        "recovery": "rollback_lock",
        "rollback": "RollbackPlan RolledBack plan_rollback plan_undo recover roll_back",
        "undo_point": "as_it_is",
        "unpacking": "size_of unpack",
    },
)
