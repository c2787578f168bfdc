"""Go back to a checkpoint, or undo that: one verb for every front end, written down in the journal.

It never asks. What it does can be undone by one command, which it names.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.points import Moment, find_checkpoint, find_files, moments
from safekept.checkpoints.rollback import (
    RollbackPlan,
    RolledBack,
    plan_rollback,
    plan_undo,
    recover,
    roll_back,
    unmake,
)
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import Record, new_id

from ..base.context import UserContext
from ..base.record import error_facts, record
from .project import checkpoint_directory, need_project
from .timeline import (
    Difference,
    Timeline,
    add_home_points,
    difference_since,
    difference_to_nothing,
    seen,
    timeline,
)


class ProjectUnreadable(SafekeptError):
    code = "project-unreadable"


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """What to go back to, where, and how far."""

    directory: str  # where the person stands, or what --dir says
    target: str = ""  # a number, an id or the start of one; empty with `undo`
    files: tuple[str, ...] = ()
    overwrite_mine: bool = False
    undo: bool = False
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
    operation, began = new_id(), time.monotonic()
    verb = "rollback-undo" if request.undo else "rollback"
    project = ""
    try:
        with checkpoint_store(context, listener) as store:
            project = need_project(store, request.directory, context)
            plan = _plan(store, project, request, listener)
            if request.dry_run:
                _leave_as_found(plan)
                return RollbackOutcome(operation, plan, None)
            _ask_whether_agreed(request, plan)
            done = roll_back(
                store, plan, settings=request.settings, session=request.session, listener=listener
            )
            sessions = _sessions(store, project) if done.done else ()
    except BaseException as error:
        if not request.dry_run:
            failed = "failed" if isinstance(error, Exception) else "interrupted"
            seconds = round(time.monotonic() - began, 3)
            failure = {"project": project, "seconds": seconds, "error": error_facts(error)}
            record(context, Record(operation, verb, failed, facts=failure), listener)
        raise
    facts = {**_facts(project, done), "seconds": round(time.monotonic() - began, 3)}
    state = "done" if done.complete else "incomplete"
    record(context, Record(operation, verb, state, facts=facts), listener)
    if done.done:
        _tell_agents(context, plan, request.undo, sessions)
    return RollbackOutcome(operation, plan, done)


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
        cwd=request.directory,
        settings=request.settings,
        session=request.session,
        listener=listener,
    )


def _ask_whether_agreed(request: RollbackRequest, plan: RollbackPlan) -> None:
    try:
        if request.agreed is not None:
            request.agreed(plan)
    except BaseException:
        _leave_as_found(plan)
        raise


def _leave_as_found(plan: RollbackPlan) -> None:
    """A project that was gone is gone again: its directory was made to plan in."""
    unmake(plan.made)


def _facts(project: str, done: RolledBack) -> dict[str, object]:
    """What the journal keeps: counts and ids, not ten thousand paths."""
    return {
        "project": project,
        "target": done.plan.target.id,
        "undo": done.plan.undo.id,
        "files": list(done.plan.files),
        "restored": len(done.restored),
        "removed": len(done.removed),
        "kept": len(done.kept),
        "left": len(done.left),
        "seconds": done.seconds,
    }


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


def list_timeline(
    context: UserContext,
    directory: str,
    *,
    settings: TakeSettings | None = None,
    session: str = "",
    turn: str = "",
    every: bool = False,
    listener: Listener = silent,
) -> Timeline:
    """The list that `safekept rollback` shows. A rollback that was killed is finished first."""
    with checkpoint_store(context, listener) as store:
        with contextlib.suppress(SafekeptError):
            recover(store, need_project(store, directory, context), settings=settings, listener=listener)
        found = timeline(
            store,
            directory,
            context,
            settings=settings,
            session=session,
            turn=turn,
            every=every,
            listener=listener,
        )
    add_home_points(context, found, session=session, turn=turn, every=every)
    return found


def list_everything(context: UserContext, listener: Listener = silent) -> list[Checkpoint]:
    """The points of all projects in one list, newest first."""
    with checkpoint_store(context, listener) as store:
        points = [point for project in store.projects() for point in store.checkpoints(project)]
    return sorted(points, key=lambda point: (point.time_ns, point.id), reverse=True)


def show_difference(
    context: UserContext,
    directory: str,
    target: str,
    files: Sequence[str] = (),
    *,
    settings: TakeSettings | None = None,
    listener: Listener = silent,
) -> Difference:
    """What changed since a checkpoint, as text."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(checkpoint_store(context, listener))
        project = need_project(store, directory, context)
        if not os.path.lexists(project):  # gone whole: everything changed
            point = find_checkpoint(store, project, target, None)
            return difference_to_nothing(store, project, point, files, directory)
        reading, live = stack.enter_context(seen(store, project, settings, listener))
        if live is None:
            raise ProjectUnreadable(
                f"`{project}` cannot be read as it is now, so there is nothing to compare with",
                kept="Nothing was changed",
                next_steps=("See what keeps checkpoints from being taken: `safekept checkpoints status`",),
                project=project,
            )
        point = find_checkpoint(reading, project, target, live)
        paths: tuple[str, ...] = ()
        if files:
            known = moments(reading, reading.checkpoints(project), live)
            then = known.get(point.id, Moment(point)).state(reading)
            paths = find_files(reading, project, point, files, directory, then, reading.state(live))
        return difference_since(reading, project, point, live, paths)
