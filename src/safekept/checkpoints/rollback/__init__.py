"""Going back to a checkpoint, and back again.

In this order: `planning` asks what to do with each path (`deciding`), `proving` reads what is stored,
`preparing` writes it beside the project and lists every change, `placing` makes the changes, `recovery` ends
what was killed.
"""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .planning import unmake, wanted_among
    from .proving import Damaged, FileContents, StoredContents
    from .recovery import recover, rollback_lock
    from .rollback import RollbackPlan, RolledBack, plan_rollback, plan_undo, roll_back
    from .second_half import SecondHalf, land_second_half, plan_second_half, settle_visible
    from .undo_point import as_it_is
    from .unpacking import size_of, unpack

__getattr__ = doors(
    __name__,
    {
        "planning": "unmake wanted_among",
        "proving": "FileContents Damaged StoredContents",
        "recovery": "recover rollback_lock",
        "rollback": "RollbackPlan RolledBack plan_rollback plan_undo roll_back",
        "second_half": "SecondHalf land_second_half plan_second_half settle_visible",
        "undo_point": "as_it_is",
        "unpacking": "size_of unpack",
    },
)
