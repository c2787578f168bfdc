"""Take the rollback of a turn back, in every place where it was done, and do it again by the same way.

A place where that does not work is named, and the others are taken back; the same command goes on with it.
"""

from __future__ import annotations

import time

from safekept.core.journal import new_id

from ...base.context import UserContext
from .outcome import TurnRollback
from .parts import Part
from .record import DONE, UNDO, RecordedPart, TurnRecord, read_records
from .rollback import Agreed, begin, planned_parts
from .turn import Turn
from .work import Workplace


def undone_by(records: list[TurnRecord], told: TurnRecord) -> str:
    """The operation that took the last of it back; empty while part of it still stands."""
    left = {part.undo for part in told.done}
    for one in records:
        if one.undoes == told.operation:
            left -= {part.point for part in one.done}
            if not left:
                return one.operation
    return ""


def standing_parts(records: list[TurnRecord], told: TurnRecord) -> list[RecordedPart]:
    """What was done and is not taken back, the last first."""
    back = {part.point for one in records if one.undoes == told.operation for part in one.done}
    return [part for part in reversed(told.parts) if part.state == DONE and part.undo not in back]


def find_record(context: UserContext, operation: str) -> TurnRecord | None:
    return next((one for one in read_records(context) if one.operation == operation), None)


def undo_turn(
    work: Workplace,
    told: TurnRecord,
    *,
    dry_run: bool = False,
    overwrite_mine: bool = False,
    agreed: Agreed | None = None,
) -> TurnRollback:
    """Take it back, or say what that would do."""
    turn = Turn(told.session, told.turn, int(told.began * 1e9), told.places)
    undo = TurnRecord(
        new_id(),
        UNDO,
        told.session,
        told.turn,
        time.time(),
        undoes=told.operation,
        overwrite_mine=overwrite_mine,
        parts=[
            RecordedPart(part.kind, part.place, part.undo)
            for part in standing_parts(read_records(work.context), told)
        ],
    )
    parts = [Part(one.kind, one.place, one.point) for one in undo.parts]
    if dry_run:
        return TurnRollback("", turn, planned_parts(work, undo, parts), planned=True, undoes=True)
    return begin(work, turn, undo, parts, agreed)
