"""Take an import back: what it replaced returns, what it created is set aside, and that too is undoable."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.actions.recovery import make_right
from holdfast.actions.surroundings import Place, Surroundings
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Listener, silent
from holdfast.core.journal import Record, new_id
from holdfast.home.landing import Landed, undo


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back."""

    operation: str
    place: Place
    landed: Landed


def undo_last(
    surroundings: Surroundings, place: Place, operation: str = "", listener: Listener = silent
) -> Undone:
    """Take back the last landing in this home, or the named one."""
    make_right(surroundings, place.home, listener)
    journal = surroundings.journal
    try:
        landed = undo(place.home, operation, listener=listener)
    except HoldfastError as error:
        journal.append(
            Record(
                operation or new_id(), "undo", "failed", facts={"home": place.home, "error": error.as_dict()}
            )
        )
        raise
    journal.append(Record(landed.operation, "undo", "done", facts={"home": place.home, **landed.as_dict()}))
    return Undone(landed.operation, place, landed)
