"""Go back to a checkpoint, or undo that: one verb for every front end, written down in the journal.

It never asks. What it does can be undone by one command, which it names.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from safekept.checkpoints.checkpoint import Checkpoint, NoSuchCheckpoint, Skipped
from safekept.checkpoints.points import HIDDEN_FILES, Left
from safekept.checkpoints.rollback import (
    RollbackPlan,
    RolledBack,
    plan_rollback,
    plan_undo,
    roll_back,
    rollback_lock,
    unmake,
    wanted_among,
)
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.projects import RollbackFacts, RollbackUndoFacts
from ..base.record import record, recording
from .project import checkpoint_directory, need_project

if TYPE_CHECKING:
    from safekept.checkpoints.scan import HiddenLook, KeptLook

    from .hidden.rollback import HiddenRollback

#: Seconds for keeping what is hidden after a rollback.
_KEEPING = 3.0


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """What to go back to, where, and how far."""

    directory: str  # where the person stands, or what --dir says
    target: str = ""  # a number, an id or the start of one; empty with `undo`
    files: tuple[str, ...] = ()
    overwrite_mine: bool = False
    undo: bool = False
    git: bool = False  # the project's own repository, too
    until: str = ""  # the point with which one turn ended: only what it changed goes back
    part_of: str = ""  # the operation that this is a part of
    rebuild: str = ""  # the rebuild that brings the project back
    dry_run: bool = False
    session: str = ""  # who asks, for the record
    settings: TakeSettings | None = None
    #: Is shown the plan before anything is changed, and raises where it is not what was agreed to.
    agreed: Callable[[RollbackPlan], None] | None = None


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """The plan, and what came of it; `rolled_back` is None for a dry run."""

    operation: str
    plan: RollbackPlan
    rolled_back: RolledBack | None
    undoes: bool = False  # it takes an earlier rollback back

    @property
    def point(self) -> Checkpoint:
        return self.plan.target

    @property
    def planned(self) -> bool:
        """Whether nothing was done, and this is what would be."""
        return self.rolled_back is None

    @property
    def changed(self) -> bool:
        return bool(self.steps) or bool(self.moves)

    @property
    def complete(self) -> bool:
        if self.rolled_back is not None:
            return self.rolled_back.complete
        return not self.plan.incomplete(self.plan.left)

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Paths that were changed, or would be, and how: an action of a rollback."""
        if self.rolled_back is not None:
            return self.rolled_back.done
        return [(step.path, step.action) for step in self.plan.steps]

    @property
    def moves(self) -> list[tuple[str, str]]:
        """What was moved in the project's repositories, or would be: the repository and the item."""
        if self.rolled_back is not None:
            return [(one.path, name) for one in self.rolled_back.repositories for name in one.done]
        if not self.plan.git:
            return []
        return [(one.path, move.name) for one in self.plan.repositories for move in one.moves]

    @property
    def stays(self) -> list[tuple[str, str]]:
        """What differs and stays as it is, and why."""
        left = self.plan.left if self.rolled_back is None else self.rolled_back.left
        return [(one.path, one.why) for one in left]

    @property
    def notes(self) -> list[str]:
        return self.plan.remarks if self.rolled_back is None else self.rolled_back.remarks

    @property
    def seconds(self) -> float:
        return self.rolled_back.seconds if self.rolled_back else 0.0

    @property
    def plan_document(self) -> dict[str, object]:
        return self.plan.as_dict()

    def as_dict(self) -> dict[str, object]:
        done = self.rolled_back.as_dict() if self.rolled_back else None
        return {"operation": self.operation, "plan": self.plan.as_dict(), "rolled_back": done}


@contextlib.contextmanager
def checkpoint_store(context: UserContext, listener: Listener = silent) -> Iterator[Store]:
    """The store of this user, open for one command."""
    store = Store.open(checkpoint_directory(context), listener=listener)
    try:
        yield store
    finally:
        store.close()


def rollback(context: UserContext, request: RollbackRequest, listener: Listener = silent) -> RollbackOutcome:
    """Plan and do it. Raises the typed errors of `checkpoints.rollback`; each says what was kept."""
    with checkpoint_store(context, listener) as store:
        project = need_project(store, request.directory, context)
        return rollback_in(context, store, project, request, listener)


def rollback_in(
    context: UserContext, store: Store, project: str, request: RollbackRequest, listener: Listener = silent
) -> RollbackOutcome:
    """The same in a store that is open. One lock is held from the plan to the end."""
    operation, began = new_id(), time.monotonic()
    work = RollbackUndoFacts(project=project) if request.undo else RollbackFacts(project=project)
    work.directory, work.part_of = context.caller.directory or None, request.part_of or None
    work.rebuild = request.rebuild or None
    with contextlib.ExitStack() as stack:
        if not request.dry_run:
            stack.enter_context(recording(context, operation, work, listener))
        stack.enter_context(rollback_lock(store, project))
        plan = _plan(store, project, request, listener)
        hidden = _hidden_half(context, store, plan, request, listener)
        if request.dry_run:
            shown = hidden.shown() if hidden is not None else plan
            _leave_as_found(plan)
            return RollbackOutcome(operation, shown, None, request.undo)
        _ask_whether_agreed(request, plan, hidden)
        done = roll_back(
            store,
            plan,
            settings=request.settings,
            session=request.session,
            hidden=hidden.land if hidden is not None else None,
            listener=listener,
        )
        sessions = _sessions(store, project) if done.acted else ()
        _keep_as_it_is(context, store, done, request, listener)
    _tell(work, done)
    work.seconds = round(time.monotonic() - began, 3)
    record(context, work.line(operation, "done" if done.complete else "incomplete"), listener)
    if done.acted:
        _tell_agents(context, plan, request.undo, sessions)
    return RollbackOutcome(operation, plan, done, request.undo)


def _hidden_half(
    context: UserContext, store: Store, plan: RollbackPlan, request: RollbackRequest, listener: Listener
) -> HiddenRollback | None:
    """What is to be done about ignored files, secrets and large files; None where nothing is.

    Nothing of the vault is loaded to find that out.
    """
    look = plan.hidden
    if look is None:
        return None
    from .hidden.record import hidden_exists, kept_looks, load_rows

    if plan.target.hidden and hidden_exists(context) and not kept_looks(context, plan.project).looks:
        from .hidden.lines_again import write_lines_again

        write_lines_again(context, plan.project, listener)
    then = kept_looks(context, plan.project).of(plan.target)
    _name_what_is_not_kept(plan, look, then)
    if then is None and load_rows(context, plan.project, plan.target.hidden) is None:
        why = f"they were not kept in time at {plan.target.id}"
        if plan.target.hidden and plan.target.hidden != look.id:
            plan.left.append(Left(HIDDEN_FILES, "hidden-shut", why))
        elif not look.empty:
            plan.remarks.append(f"{HIDDEN_FILES} stay as they are: {why}")
        return None
    if look.id in (plan.target.hidden, then.look if then else ""):
        plan.settle_hidden()
        return None
    from .hidden.rollback import hidden_rollback

    return hidden_rollback(context, store, plan, overwrite_mine=request.overwrite_mine, listener=listener)


def _name_what_is_not_kept(plan: RollbackPlan, look: HiddenLook, then: KeptLook | None) -> None:
    """What is hidden and in no checkpoint: as it is now, and what was so then and is gone."""
    asked = wanted_among(plan.files)
    plan.not_covered += [
        Skipped(one.path, "not-kept", one.why, one.bytes) for one in look.exposed if asked(one.path)
    ]
    for path, reason in then.left if then is not None else ():
        if asked(path) and not os.path.lexists(os.path.join(plan.project, path)):
            from safekept.checkpoints.scan import NotKept

            plan.gone.append(Skipped(path, "then-left-out", NotKept(path, reason).why))


def _keep_as_it_is(
    context: UserContext, store: Store, done: RolledBack, request: RollbackRequest, listener: Listener
) -> None:
    """The hidden half as the rollback left it, for its mark: what is changed next is known for a change.

    It is not waited for long: where it takes longer, the next point keeps it.
    """
    if done.after is None or not done.after.hidden or request.settings is None:
        return
    from safekept.checkpoints.take import look_now

    from .hidden.record import keep_look

    with contextlib.suppress(SafekeptError, OSError):
        look = look_now(store, done.plan.project, request.settings).hidden
        if look is not None:
            keep_look(context, done.plan.project, look, deadline=time.monotonic() + _KEEPING, create=False)


def _plan(store: Store, project: str, request: RollbackRequest, listener: Listener) -> RollbackPlan:
    if request.undo:
        return plan_undo(
            store,
            project,
            request.target,
            overwrite_mine=request.overwrite_mine,
            looking=request.dry_run,
            settings=request.settings,
            session=request.session,
            listener=listener,
        )
    return plan_rollback(
        store,
        project,
        request.target,
        request.files,
        overwrite_mine=request.overwrite_mine,
        recreate=True,
        looking=request.dry_run,
        git=request.git,
        until=_end_of_turn(store, project, request.until) if request.until else None,
        cwd=request.directory,
        settings=request.settings,
        session=request.session,
        listener=listener,
    )


def _end_of_turn(store: Store, project: str, id: str) -> Checkpoint:
    """The point with which a turn ended. Raises NoSuchCheckpoint: without it too much would go back."""
    found = store.called(project, id)
    if found is None:
        raise NoSuchCheckpoint(
            f"What the turn left in `{project}` is not known: checkpoint {id} was dropped, or is damaged",
            kept="Nothing was changed",
            next_steps=(NextStep("rollback", ("--dir", project), before="See what there is to go back to:"),),
            project=project,
            id=id,
        )
    return found


def _ask_whether_agreed(request: RollbackRequest, plan: RollbackPlan, hidden: HiddenRollback | None) -> None:
    try:
        if request.agreed is not None:
            request.agreed(hidden.shown() if hidden is not None else plan)
    except BaseException:
        _leave_as_found(plan)
        raise


def _leave_as_found(plan: RollbackPlan) -> None:
    """A project that was gone is gone again: its directory was made to plan in."""
    unmake(plan.made)


def _tell(work: RollbackFacts, done: RolledBack) -> None:
    """What the journal keeps: counts and ids, not ten thousand paths."""
    work.target, work.undo, work.files = done.plan.target.id, done.plan.undo.id, tuple(done.plan.files)
    work.restored, work.removed = len(done.restored), len(done.removed)
    work.kept, work.left = len(done.kept), len(done.left)
    work.repository = sum(len(one.done) for one in done.repositories) or None


def _sessions(store: Store, project: str) -> tuple[str, ...]:
    """Those that worked there, as far as its points tell, the latest first."""
    with contextlib.suppress(SafekeptError, OSError):
        return tuple(dict.fromkeys(point.session for point in store.checkpoints(project)))
    return ()


def _tell_agents(context: UserContext, plan: RollbackPlan, undo: bool, sessions: tuple[str, ...]) -> None:
    from ..hosts.sessions import sessions_in
    from .rollback_news import RollbackNews, leave_news

    point = f"checkpoint {plan.target.id}"
    news = RollbackNews(plan.project, point, plan.target.reason, plan.files, undo=undo)
    leave_news(context, news, (*sessions, *sessions_in(context.places.data_directory, plan.project)))
