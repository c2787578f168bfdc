"""Take back what one turn of an agent changed, in every project and in the agent's home: one plan, one undo.

Each place goes back by its own rules: what was changed again stays and is named, nothing unsaved is deleted,
and a place that is locked, gone or damaged stops no other. It never asks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from safekept.checkpoints.store import Store
from safekept.core.errors import SafekeptError
from safekept.core.events import Event
from safekept.core.journal import new_id
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.next_step import NextStep

from ...base.operations.projects import TurnRollbackFacts, TurnRollbackUndoFacts
from ...base.record import record
from ..project import checkpoint_directory
from . import any_records
from .outcome import TurnPart, TurnRollback
from .parts import CHECKPOINT, Part, parts_of
from .record import (
    DONE,
    GO,
    PLANNED,
    UNCHANGED,
    UNDO,
    RecordedPart,
    TurnRecord,
    lock_path,
    read_records,
    write_record,
)
from .turn import Turn
from .work import Workplace, as_error, carry_out, do_part, settle_begun

#: Seconds for which the rollback of a turn waits for another one.
_WAIT = 30.0

Agreed = Callable[[TurnRollback], None]


def plan_turn(work: Workplace, turn: Turn, *, overwrite_mine: bool = False) -> TurnRollback:
    """What going back would do; nothing is changed."""
    turn, parts = _everywhere(work, turn)
    told = _record(turn, parts, overwrite_mine)
    return TurnRollback("", turn, planned_parts(work, told, parts), planned=True)


def take_turn_back(
    work: Workplace, turn: Turn, *, overwrite_mine: bool = False, agreed: Agreed | None = None
) -> TurnRollback:
    """Plan it, and do it."""
    turn, parts = _everywhere(work, turn)
    return begin(work, turn, _record(turn, parts, overwrite_mine), parts, agreed)


def _everywhere(work: Workplace, turn: Turn) -> tuple[Turn, list[Part]]:
    """The parts of a turn, and the turn with every place that it has one in."""
    parts = parts_of(work.context, _store(work), turn)
    return replace(turn, places=tuple(dict.fromkeys(one.place for one in parts if one.place))), parts


def planned_parts(work: Workplace, told: TurnRecord, parts: list[Part]) -> tuple[TurnPart, ...]:
    """The plan of each part of a record."""
    return tuple(
        _planned(work, recorded, part, told.verb, told.overwrite_mine)
        for recorded, part in zip(told.parts, parts, strict=True)
    )


def begin(
    work: Workplace, turn: Turn, told: TurnRecord, parts: list[Part], agreed: Agreed | None
) -> TurnRollback:
    """Plan every part of a record, have the plan agreed to, and carry it out."""
    with process_lock(lock_path(work.context), "the rollback of a turn", wait=_WAIT):
        planned = planned_parts(work, told, parts)
        undoes = told.verb == UNDO
        whole = TurnRollback("", turn, planned, planned=True, undoes=undoes)
        if agreed is not None:
            agreed(whole)
        if not whole.changed:
            return TurnRollback("", turn, planned, undoes=undoes)
        write_record(work.context, told)
        facts = TurnRollbackUndoFacts() if undoes else TurnRollbackFacts()
        facts.turn, facts.places, facts.undoes = turn.id, told.places, told.undoes or None
        record(work.context, facts.line(told.operation, "begun"), work.listener)
        return carry_out(work, turn, told, list(planned), strict=agreed is not None)


def recover_turns(work: Workplace) -> None:
    """Finish the rollback of a turn that was killed, as far as that goes; said, and written down."""
    if not any_records(work.context):
        return
    for told in read_records(work.context):
        if told.ended:
            continue
        try:
            with process_lock(lock_path(work.context), "the rollback of a turn"):
                _finish(work, told.operation)
        except AlreadyRunning:
            return  # it is at work, and was not killed
        except (SafekeptError, OSError) as error:
            why = as_error(error, "It").what
            text = f"Note: a rollback of a turn that was cut short cannot be finished yet: {why}"
            work.listener(Event("recover", text=text))


def _finish(work: Workplace, operation: str) -> None:
    told = next((one for one in read_records(work.context) if one.operation == operation), None)
    if told is None or told.ended:
        return
    settle_begun(work, told)
    turn = Turn(told.session, told.turn, places=told.places)
    planned = [
        TurnPart(part.place)
        if part.state in (DONE, UNCHANGED)
        else _planned(work, part, None, told.verb, told.overwrite_mine)
        for part in told.parts
    ]
    done = carry_out(work, turn, told, planned)
    what = "undo of a turn's rollback" if told.verb == UNDO else "rollback of a turn"
    missed = ", ".join(part.place for part in done.failed)
    more = f" as far as possible (not in {missed})" if missed else ""
    step = NextStep(
        "undo",
        (told.operation,),
        before=f"Note: a {what} that was cut short is finished{more}. To take it back:",
    )
    work.listener(Event("recover", text=step))


def _record(turn: Turn, parts: list[Part], overwrite_mine: bool) -> TurnRecord:
    return TurnRecord(
        new_id(),
        GO,
        turn.session,
        turn.turn,
        time.time(),
        overwrite_mine=overwrite_mine,
        parts=[RecordedPart(one.kind, one.place, one.point, one.until, one.files, PLANNED) for one in parts],
    )


def _planned(
    work: Workplace, recorded: RecordedPart, part: Part | None, verb: str, overwrite_mine: bool
) -> TurnPart:
    """The plan of one part, or what keeps it from being made."""
    left, notes = (part.left, part.notes) if part is not None else ((), ())
    if part is not None and (part.trouble is not None or part.stays_whole):
        return TurnPart(recorded.place, None, part.trouble, left, notes)
    try:
        _refuse_gone(recorded, verb)
        outcome = do_part(work, recorded, undo=verb == UNDO, overwrite_mine=overwrite_mine, dry_run=True)
    except (SafekeptError, OSError) as error:
        return TurnPart(recorded.place, None, as_error(error, recorded.place), left, notes)
    return TurnPart(recorded.place, outcome, None, left, notes)


def _refuse_gone(part: RecordedPart, verb: str) -> None:
    """A project that was there when the turn ended, and is gone: that was no deed of the turn."""
    from safekept.checkpoints.take import ProjectGone

    if verb == GO and part.kind == CHECKPOINT and part.until and not os.path.lexists(part.place):
        raise ProjectGone(
            f"`{part.place}` is gone; it was there when the turn ended",
            kept="Nothing was changed there; its checkpoints are kept",
            next_steps=(NextStep("rollback", ("--dir", part.place), before="See what it can go back to:"),),
            project=part.place,
        )


def _store(work: Workplace) -> Store | None:
    """The store where there is one: none is made only to look."""
    return work.store() if os.path.isdir(checkpoint_directory(work.context)) else None
