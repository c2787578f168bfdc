"""Root does not work in users' homes: a child that has become the owner does, and speaks over two pipes."""

from typing import TYPE_CHECKING

from ..doors import doors

if TYPE_CHECKING:
    from .child import (
        OwnerChild,
        OwnerChildFailed,
        OwnerNotPermitted,
        become,
        child_of,
        exception_as_data,
        raised_from,
        remark_from,
    )
    from .handover import hand_over, own_place
    from .output import OutputOfAnother, held_output
    from .ownership import Owner, by_root, chosen_by, foreign_owner, open_to_others, ours, owned_by_us
    from .pipe import OwnerPipe
    from .serving import load_packages, serve

__getattr__ = doors(
    __name__,
    {
        "child": "OwnerChild OwnerChildFailed OwnerNotPermitted become child_of raised_from remark_from "
        "exception_as_data",
        "handover": "hand_over own_place",
        "pipe": "OwnerPipe",
        "output": "OutputOfAnother held_output",
        "serving": "load_packages serve",
        "ownership": "Owner by_root chosen_by foreign_owner open_to_others ours owned_by_us",
    },
)
