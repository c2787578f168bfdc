"""Take an import or a restore back: what it replaced returns, what it created is set aside.

That too is undoable. What is no landing is not taken back by guessing: the error names the way.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from holdfast.actions.record import record
from holdfast.actions.recovery import make_right
from holdfast.actions.surroundings import Place, Surroundings
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Listener, silent
from holdfast.core.journal import Record, new_id
from holdfast.home.landing import Landed, landings, undo
from holdfast.home.landing.undoing import UndoNotPossible

#: Verbs of the journal that change a home.
_CHANGES = ("import", "restore", "undo", "restore-session")


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
        if not operation:
            _refuse_conversation(surroundings, place.home)
        landed = undo(place.home, operation, listener=listener)
    except HoldfastError as error:
        failure: dict[str, object] = {"home": place.home, "error": error.as_dict()}
        record(surroundings, Record(operation or new_id(), "undo", "failed", facts=failure), listener)
        raise
    facts: dict[str, object] = {"home": place.home, **landed.as_dict()}
    record(surroundings, Record(landed.operation, "undo", "done", facts=facts), listener)
    return Undone(landed.operation, place, landed)


def _refuse_conversation(surroundings: Surroundings, home: str) -> None:
    """A conversation that was brought back is no landing: `undo` would take something older back."""
    last = None
    for one in surroundings.journal.read():
        if one.facts.get("home") == home and one.state in ("done", "incomplete") and one.verb in _CHANGES:
            last = one
    if last is None or last.verb != "restore-session" or last.facts.get("already_there"):
        return
    steps = []
    if point := str(last.facts.get("undo_point") or ""):
        database = shlex.quote(str(last.facts.get("database") or "state.db"))
        command = f"holdfast snapshot restore {point[:8]} {database}"
        steps.append(f"To have the whole database as it was before, later messages lost: `{command}`")
    older = [past.operation for past in landings(home) if not past.undone_by and past.replaced]
    if older:
        steps.append(f"To take back what was done before that: `holdfast undo {older[-1]}`")
    session = last.facts.get("as") or last.facts.get("session")
    raise UndoNotPossible(
        f"The last change in `{home}` brought session `{session}` back into a live database; "
        "`undo` takes imports and restores back, not rows",
        kept="Nothing was changed",
        next_steps=tuple(steps) or ("See what was kept: `holdfast snapshot list`",),
        operation=last.operation,
    )
