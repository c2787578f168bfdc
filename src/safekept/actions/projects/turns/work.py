"""Carrying out the parts of a turn's rollback, one after the other, each written down before and after.

What keeps one place from going back stops no other and is named. What was killed is gone on with by the next
command: a part that was begun is found out about in the records beside its project or home.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.checkpoints.points import REMOVING, RollbackJournal
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass

from ...base.context import UserContext
from ...base.operations.projects import TurnRollbackFacts, TurnRollbackUndoFacts
from ...base.record import record
from .outcome import TurnPart, TurnRollback, same_steps
from .parts import HOME
from .record import (
    BEGUN,
    DONE,
    FAILED,
    PLANNED,
    UNCHANGED,
    UNDO,
    RecordedPart,
    TurnRecord,
    write_record,
)
from .turn import Turn

if TYPE_CHECKING:
    from ..points import PointRollback


class ChangedMeanwhile(SafekeptError):
    code = "changed-meanwhile"


@dataclass(frozen=True, slots=True)
class Workplace:
    """What every part needs."""

    context: UserContext
    store: Callable[[], Store]
    settings: TakeSettings | None = None
    directory: str = ""  # where the one who asked stands
    session: str = ""
    deadline: float = 30.0
    keep_days: float = 14.0
    listener: Listener = silent


def do_part(
    work: Workplace,
    part: RecordedPart,
    *,
    undo: bool,
    overwrite_mine: bool = False,
    dry_run: bool = False,
    part_of: str = "",
    operation: str = "",
    expected: PointRollback | None = None,
) -> PointRollback:
    """Plan one part, or do it. `expected`: only where it still comes to this. Raises what keeps it."""

    def agreed(plan: PointRollback) -> None:
        if expected is not None and not same_steps(expected, plan):
            raise ChangedMeanwhile(
                f"`{part.place}` was changed after the plan was shown",
                kept="Nothing was changed there",
                next_steps=("Run the command again to see the new plan",),
            )

    if part.kind == HOME:
        return _at_home(work, part, undo, dry_run, part_of, operation, agreed)
    from ..rollback import RollbackOutcome, RollbackRequest, rollback_in

    request = RollbackRequest(
        directory=part.place,
        target=part.point,
        overwrite_mine=overwrite_mine,
        undo=undo,
        until=part.until,
        part_of=part_of,
        dry_run=dry_run,
        session=work.session,
        settings=work.settings,
        agreed=lambda plan: agreed(RollbackOutcome("", plan, None, undo)),
    )
    return rollback_in(work.context, work.store(), part.place, request, work.listener)


def _at_home(
    work: Workplace,
    part: RecordedPart,
    undo: bool,
    dry_run: bool,
    part_of: str,
    operation: str,
    agreed: Callable[[PointRollback], None],
) -> PointRollback:
    from ..home_points.rollback import HomeRollbackRequest, HomeRollbackUndone, roll_back_home

    if undo:
        from ...undo.undo import UndoRequest, take_landing_back

        request = UndoRequest(
            operation=part.point,
            dry_run=dry_run,
            deadline=work.deadline,
            keep_days=work.keep_days,
            part_of=part_of,
        )
        return HomeRollbackUndone(take_landing_back(work.context, part.place, request, work.listener))
    return roll_back_home(
        work.context,
        HomeRollbackRequest(
            part.point,
            tuple(os.path.join(part.place, path) for path in part.files),
            part.place,
            dry_run,
            work.session,
            work.deadline,
            work.keep_days,
            operation,
            part_of,
            agreed,
        ),
        work.listener,
    )


def carry_out(
    work: Workplace, turn: Turn, told: TurnRecord, planned: list[TurnPart], *, strict: bool = False
) -> TurnRollback:
    """Every part that is not done yet. `planned` are the plans, in the order of the parts recorded.

    `strict`: each only as it was planned, since it was agreed to. Ctrl-C ends it: what was done stays done,
    and `undo` takes it back.
    """
    began = time.monotonic()
    done: list[TurnPart] = []
    try:
        for recorded, plan in zip(told.parts, planned, strict=True):
            done.append(_one(work, told, recorded, plan, strict))
    except BaseException:
        told.ended = time.time()
        write_record(work.context, told)
        record(
            work.context, facts_of(work, turn, told, done).line(told.operation, "interrupted"), work.listener
        )
        raise
    told.ended = time.time()
    outcome = TurnRollback(
        told.operation,
        turn,
        tuple(done),
        undoes=told.verb == UNDO,
        seconds=time.monotonic() - began,
    )
    write_record(work.context, told)
    facts = facts_of(work, turn, told, done)
    facts.seconds = round(outcome.seconds, 3)
    state = "done" if outcome.complete else "incomplete"
    record(work.context, facts.line(told.operation, state), work.listener)
    return outcome


def _one(work: Workplace, told: TurnRecord, recorded: RecordedPart, plan: TurnPart, strict: bool) -> TurnPart:
    if plan.error is not None or plan.outcome is None or recorded.state in (DONE, UNCHANGED):
        recorded.state = FAILED if plan.error is not None else recorded.state
        recorded.why = plan.error.what if plan.error is not None else ""
        return plan
    undo = told.verb == UNDO
    # Written down before: what was killed here is looked for under this name.
    recorded.state, recorded.undo = BEGUN, new_id() if recorded.kind == HOME and not undo else ""
    write_record(work.context, told)
    try:
        outcome = do_part(
            work,
            recorded,
            undo=undo,
            overwrite_mine=told.overwrite_mine,
            part_of=told.operation,
            operation=recorded.undo,
            expected=plan.outcome if strict else None,
        )
    except (SafekeptError, OSError) as error:
        recorded.state, recorded.why = FAILED, as_error(error, recorded.place).what
        write_record(work.context, told)
        return TurnPart(plan.place, None, as_error(error, recorded.place), plan.left, plan.remarks)
    recorded.undo = undone_with(recorded, outcome)
    recorded.state = DONE if outcome.changed and recorded.undo else UNCHANGED
    write_record(work.context, told)
    return TurnPart(plan.place, outcome, None, plan.left, plan.remarks)


def undone_with(part: RecordedPart, outcome: PointRollback) -> str:
    """What takes one part back: the point before a rollback, or the landing in a home."""
    from ..rollback import RollbackOutcome

    if isinstance(outcome, RollbackOutcome):
        return outcome.plan.undo.id
    return outcome.operation if part.kind == HOME else ""


def as_error(error: SafekeptError | OSError, place: str) -> SafekeptError:
    if isinstance(error, SafekeptError):
        return error
    return SafekeptError(
        f"`{place}` could not go back: {error.strerror or error}",
        kept="What was there before is kept; the next rollback there finishes or takes back what was begun",
        next_steps=("Mend the cause, then run the command again",),
    )


def facts_of(work: Workplace, turn: Turn, told: TurnRecord, done: list[TurnPart]) -> TurnRollbackFacts:
    """Counts and ids; the words of the person are no business of the journal."""
    facts = TurnRollbackUndoFacts() if told.verb == UNDO else TurnRollbackFacts()
    steps = [action for part in done if part.outcome is not None for _, action in part.outcome.steps]
    facts.turn, facts.undoes = turn.id, told.undoes or None
    facts.places = tuple(dict.fromkeys(part.place for part in told.done)) or None
    facts.missed = tuple(dict.fromkeys(part.place for part in done if part.error is not None)) or None
    facts.removed = sum(action in REMOVING for action in steps)
    facts.restored = len(steps) - facts.removed
    facts.left = sum(len(part.stays) for part in done)
    facts.directory = work.context.caller.directory or None
    return facts


def settle_begun(work: Workplace, told: TurnRecord) -> None:
    """What became of a part that was begun when its process was killed; raises what keeps that from being
    found out."""
    from safekept.checkpoints.rollback import recover
    from safekept.home.landing import landings

    from ...base.recovery import recover_interrupted

    for part in list(told.parts):
        if part.state != BEGUN:
            continue
        if part.kind == HOME:
            recover_interrupted(work.context, part.place, work.listener)
            past = landings(part.place)
            if told.verb == UNDO:
                part.undo = next((one.operation for one in past if one.undoes == part.point), "")
            found = any(one.operation == part.undo for one in past)
        else:
            store = work.store()
            recover(store, part.place, settings=work.settings, listener=work.listener)
            lines = RollbackJournal(store.project_directory(part.place)).finished()
            ours = [line for line in lines if line.get("target") == part.point and _since(line, told.began)]
            part.undo = str(ours[-1].get("undo") or "") if ours else ""
            found = bool(part.undo)
            if found and ours[-1].get("recovered"):  # without its hidden half, which is still to come
                told.parts.append(replace(part, state=PLANNED, undo=""))
        part.state = DONE if found else part.state


def _since(line: dict[str, object], began: float) -> bool:
    when = line.get("time")
    return isinstance(when, int | float) and when >= began - 1.0
