"""Take the last import, restore or rollback back, or an earlier operation by its id. Never asks.

What was replaced returns, and what came is set aside; that too is undoable. Changes made since are not
lost: in a home they are set aside, in a project they stay, in a live database they are a refusal. What
cannot be taken back is not taken back by guessing: the error says why, and what can be done instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.checkpoints.points import RollbackJournal
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.landing import Landed, LandingUndo, UndoNotPossible, expire, plan_undo, undo

from ..base.context import UserContext
from ..base.operations.care import GuardFacts
from ..base.operations.homes import UndoFacts
from ..base.record import record, recording
from ..base.recovery import recover_interrupted
from ..hosts.connections import staying_connected
from ..projects.project import NoCheckpointsHere, checkpoint_directory
from ..restoring.starting import take_back_wrappers
from .changes import LANDING, ROLLBACK, TURN, Change, changes, journal_of, rolled_back_projects
from .last_change import ANYWHERE, last_change, project_around
from .undo_refusals import instead, several, taken_back

if TYPE_CHECKING:
    from safekept.checkpoints.points import RollbackPlan
    from safekept.checkpoints.take import TakeSettings

    from ..projects.rollback import RollbackOutcome
    from ..projects.turns.outcome import TurnRollback
    from .dropped import BroughtBack
    from .session import SessionUndone

_KEPT = "Nothing was changed"


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """What to take back, and where; nothing: the last one where the caller stands."""

    operation: str = ""  # an id of the journal, the start of one, or its last six letters
    home: str = ""
    layout: str = ""
    directory: str = ""  # a project
    dry_run: bool = False
    deadline: float = 30.0
    keep_days: float = 14.0
    settings: TakeSettings | None = None  # how the point before an undone rollback is taken
    overwrite_mine: bool = False  # also what was changed after a rollback
    part_of: str = ""  # the operation that this is a part of
    #: Is shown the plan before anything is changed, and raises where it is not what was agreed to.
    agreed: Callable[[Undone], None] | None = None


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back, or would be: exactly one of the parts is there."""

    operation: str  # of the undo itself; empty for a dry run
    change: Change
    plan: LandingUndo | None = None
    landed: Landed | None = None  # None for a dry run
    rollback: RollbackOutcome | None = None
    session: SessionUndone | None = None
    brought_back: BroughtBack | None = None
    turn: TurnRollback | None = None
    notes: tuple[str, ...] = ()  # what became of the agents' connections
    facts: UndoFacts | None = None  # of a landing that was taken back: what the journal says, and documents
    how: str = ANYWHERE  # how it came to be meant, where it was not named
    here: str = ""  # of the places that were changed, the one where the caller stands
    newer_elsewhere: Change | None = None  # the last change of all, where that is not meant

    @property
    def complete(self) -> bool:
        if self.turn is not None:
            return self.turn.complete
        rolled = self.rollback.rolled_back if self.rollback else None
        if rolled is not None:
            return rolled.complete
        return self.brought_back is None or not self.brought_back.lost

    def as_dict(self) -> dict[str, object]:
        newer = self.newer_elsewhere.as_dict() if self.newer_elsewhere else None
        document: dict[str, object] = {"operation": self.operation or None, "undoes": self.change.as_dict()}
        document["newer_elsewhere"] = newer
        if self.plan is not None:
            landed = self.facts.landed() if self.facts else None
            document |= {"home": self.plan.home, "plan": self.plan.as_dict(), "landed": landed}
            document["notes"] = list(self.notes)
        if self.rollback is not None:
            document |= {"project": self.change.project, **self.rollback.as_dict()}
            document["operation"] = self.operation or None
        if self.turn is not None:
            document |= {**self.turn.as_dict(), "operation": self.operation or None}
        if self.session is not None:
            document |= {"home": self.change.home, "session": self.session.as_dict()}
        if self.brought_back is not None:
            document |= {"brought_back": self.brought_back.as_dict()}
        return document


def take_back(context: UserContext, request: UndoRequest, listener: Listener = silent) -> Undone:
    """Find what is meant, plan, and do it unless it is a dry run."""
    home, project = _scope(context, request)
    _recover_all_interrupted(context, home, project, request, listener)
    known = changes(context, home, project)
    if request.operation:
        change = named_change(known, request.operation) or _guarded(context, known, request.operation)
        if change is None:
            from .dropped import bring_back_dropped

            return bring_back_dropped(context, request, listener)
        return _take_back(context, change, known, request, listener)
    last = last_change(context, known, home, project)

    def told(undone: Undone) -> Undone:
        return replace(undone, how=last.how, here=last.place, newer_elsewhere=last.newer)

    def agreed(undone: Undone) -> None:
        if request.agreed is not None:
            request.agreed(told(undone))

    try:
        return told(_take_back(context, last.change, known, replace(request, agreed=agreed), listener))
    except UndoNotPossible as error:
        error.next_steps = (*error.next_steps, *last.other_step())
        raise


def _take_back(
    context: UserContext, change: Change, known: list[Change], request: UndoRequest, listener: Listener
) -> Undone:
    change = _standing(change, known)
    _refuse_what_is_over(context, change, known)
    if change.kind == LANDING:
        return _landing(context, change, request, listener)
    if change.kind == ROLLBACK:
        return _rollback(context, change, request, listener)
    if change.kind == TURN:
        return _turn(context, change, request, listener)
    from safekept.home.conversations import SessionNotTakenOut

    from .session import undo_session

    try:
        return undo_session(context, change, request, listener)
    except SessionNotTakenOut as error:
        error.next_steps = (*error.next_steps, *instead(context, change, known))
        raise


def _scope(context: UserContext, request: UndoRequest) -> tuple[str, str]:
    """The home or the project that it is about, where one was named."""
    if request.directory:
        return "", project_around(context, request.directory)
    if request.home or request.layout:
        return context.locate(request.home, request.layout, existing=False).home, ""
    return "", ""


def _recover_all_interrupted(
    context: UserContext, home: str, project: str, request: UndoRequest, listener: Listener
) -> None:
    """What was killed half way is finished or taken back first; only then is there a last change."""
    if not project:
        for place in {home} if home else {one.home for one in changes(context) if one.home}:
            recover_interrupted(context, place, listener)
    _finish_turns(context, request, listener)
    for place, path in [] if home else rolled_back_projects(context):
        if (not project or path == project) and RollbackJournal(place).pending():
            from safekept.checkpoints.rollback import recover

            from ..projects.rollback import checkpoint_store

            with contextlib.suppress(SafekeptError), checkpoint_store(context, listener) as store:
                recover(store, path, settings=request.settings, listener=listener)


def _finish_turns(context: UserContext, request: UndoRequest, listener: Listener) -> None:
    """The rollback of a turn that was killed between two places."""
    from ..projects.turns import any_records

    if not any_records(context):
        return
    from ..projects.rollback import checkpoint_store
    from ..projects.turns.rollback import recover_turns
    from ..projects.turns.work import Workplace

    with contextlib.suppress(SafekeptError), checkpoint_store(context, listener) as store:
        recover_turns(Workplace(context, lambda: store, request.settings, listener=listener))


def named_change(known: list[Change], word: str) -> Change | None:
    """The change with this id, or with an id that starts or ends so."""
    exact = [one for one in known if one.is_called(word)]
    if exact:
        return exact[0]
    short = [one for one in known if one.operation.startswith(word) or one.operation.endswith("-" + word)]
    if len(short) > 1:
        raise several(word, [one.operation for one in short])
    return short[0] if short else None


def _guarded(context: UserContext, known: list[Change], word: str) -> Change | None:
    """What a guard brought back by itself, where its own id was given."""
    for entry in journal_of(context, "guard"):
        same = (
            entry.operation == word
            or entry.operation.startswith(word)
            or entry.operation.endswith("-" + word)
        )
        if same and (restore := GuardFacts.read(entry).restore):
            return named_change(known, restore)
    return None


def _standing(change: Change, known: list[Change]) -> Change:
    """What has to be taken back for this to be gone: itself, or the undo that brought it back in the end.

    Raises where an undo has the last word and it is gone already.
    """
    names = {name: one for one in known for name in (one.operation, one.also) if name}
    last, steps = change, 0
    while last.undone_by in names and steps <= len(known):
        last, steps = names[last.undone_by], steps + 1
    if steps % 2 and not last.undone_by:
        raise taken_back(change, last.operation)
    return last if not last.undone_by else change


def _refuse_what_is_over(context: UserContext, change: Change, known: list[Change]) -> None:
    """Taken back already, or nothing is kept: said with the reason and what can be done instead."""
    if change.undone_by:
        raise taken_back(change, change.undone_by)
    if not change.lost:
        return
    why = "what it replaced is no longer kept"
    if change.verb == "undo-session":
        return  # done by bringing it back once more
    if change.verb == "restore-session":
        why = "it brought a conversation back before safekept wrote down what came"
    raise UndoNotPossible(
        f"{change.operation} cannot be taken back: {why}",
        kept=_KEPT,
        next_steps=instead(context, change, known)
        or (NextStep("import", ("FILE",), before="Restore from a backup instead:"),),
        operation=change.operation,
    )


def _landing(context: UserContext, change: Change, request: UndoRequest, listener: Listener) -> Undone:
    plan = plan_undo(change.home, change.operation)
    if request.dry_run:
        return Undone("", change, plan)
    if request.agreed is not None:
        request.agreed(Undone("", change, plan))
    work = UndoFacts(home=change.home, undoes=change.operation, directory=context.caller.directory or None)
    work.part_of = request.part_of or None
    with (
        staying_connected(context, change.home) as notes,
        recording(context, new_id(), work, listener),
    ):
        landed = undo(change.home, change.operation, deadline=request.deadline, listener=listener)
    work.add(
        {
            "of": change.verb,
            "changed_since": len(plan.since),
            **landed.as_dict(),
            **take_back_wrappers(change.landed),
        }
    )
    record(context, work.line(landed.operation, "done"), listener)
    expire(change.home, request.keep_days)
    if change.landed.home_point:
        from ..projects.rollback_news import leave_undone_home

        leave_undone_home(context, change.home)
    return Undone(landed.operation, change, plan, landed, notes=tuple(notes), facts=work)


def take_landing_back(context: UserContext, home: str, request: UndoRequest, listener: Listener) -> Undone:
    """One landing in a home, which may be a part of more."""
    recover_interrupted(context, home, listener)
    known = changes(context, home, apart=True)
    change = next((one for one in known if one.operation == request.operation), None)
    if change is None:
        raise UndoNotPossible(
            f"{request.operation} cannot be taken back: nothing is known of it in `{home}` any more",
            kept=_KEPT,
            next_steps=(NextStep("log", before="See what was done:"),),
            operation=request.operation,
        )
    _refuse_what_is_over(context, change, known)
    return _landing(context, change, request, listener)


def _turn(context: UserContext, change: Change, request: UndoRequest, listener: Listener) -> Undone:
    from ..projects.rollback import checkpoint_store
    from ..projects.turns.undo import find_record, undo_turn
    from ..projects.turns.work import Workplace

    told = find_record(context, change.operation)
    assert told is not None  # the change was made from it

    def agreed(plan: TurnRollback) -> None:
        if request.agreed is not None:
            request.agreed(Undone("", change, turn=plan))

    with checkpoint_store(context, listener) as store:
        work = Workplace(
            context,
            lambda: store,
            request.settings,
            deadline=request.deadline,
            keep_days=request.keep_days,
            listener=listener,
        )
        done = undo_turn(
            work,
            told,
            dry_run=request.dry_run,
            overwrite_mine=request.overwrite_mine,
            agreed=agreed if request.agreed is not None else None,
        )
    return Undone(done.operation, change, turn=done)


def _rollback(context: UserContext, change: Change, request: UndoRequest, listener: Listener) -> Undone:
    from safekept.checkpoints.checkpoint import NoSuchCheckpoint

    from ..projects.rollback import RollbackOutcome, RollbackRequest, rollback

    def agreed(plan: RollbackPlan) -> None:
        if request.agreed is not None:
            request.agreed(Undone("", change, rollback=RollbackOutcome("", plan, None, True)))

    try:
        outcome = rollback(
            context,
            RollbackRequest(
                directory=change.project,
                target=change.point,
                undo=True,
                dry_run=request.dry_run,
                overwrite_mine=request.overwrite_mine,
                part_of=request.part_of,
                settings=request.settings,
                agreed=agreed,
            ),
            listener,
        )
    except (NoSuchCheckpoint, NoCheckpointsHere) as error:
        raise _dropped(context, change) from error
    return Undone("" if request.dry_run else outcome.operation, change, rollback=outcome)


def _dropped(context: UserContext, change: Change) -> UndoNotPossible:
    """The point before a rollback is gone; it may still be kept."""
    from safekept.checkpoints.upkeep import dropped

    entries = dropped(checkpoint_directory(context))
    kept = next((one for one in entries if one.id == change.point and one.project == change.project), None)
    steps = [NextStep("rollback", ("--all", "--dir", change.project), before="See every point there is:")]
    if kept is not None:
        before = "Bring back what was dropped, then undo:"
        back = NextStep("checkpoint prune", ("--undo",), before)
        steps.insert(0, NextStep("undo", (kept.operation,), before) if kept.operation else back)
    return UndoNotPossible(
        f"{change.operation} cannot be taken back: the point before that rollback was dropped",
        kept=_KEPT,
        next_steps=tuple(steps),
        operation=change.operation,
    )
