"""Take an import back: what it replaced returns, what it created is set aside, and that too is undoable."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.actions.record import record
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
    try:
        landed = undo(place.home, operation, listener=listener)
    except HoldfastError as error:
        failure: dict[str, object] = {"home": place.home, "error": error.as_dict()}
        record(surroundings, Record(operation or new_id(), "undo", "failed", facts=failure), listener)
        raise
    facts: dict[str, object] = {"home": place.home, **landed.as_dict()}
    record(surroundings, Record(landed.operation, "undo", "done", facts=facts), listener)
    return Undone(landed.operation, place, landed)
