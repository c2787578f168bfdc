"""Going back to a checkpoint, and back again.

Promise: nothing is replaced or removed that the undo point does not hold, proven by reading it back;
nothing is touched that differs in nothing; what is not covered, what the user changed and what a
program holds open stays and is listed; killed or failed at any instant, the next command finishes it
or takes it back; and every rollback can itself be undone.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.platform.syncing import sync_filesystem
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint
from ..points.rollback_plan import OWN, REMOVING, REPOSITORY, Left, RollbackJournal, RollbackPlan
from ..store.store import Store
from ..take.taking import TakeSettings
from .planning import NoRollbackToUndo, plan_rollback, plan_undo
from .preparing import Preparation, Prepared
from .project_tree import ProjectTree, check_project
from .proving import FileContents, StoredContents
from .recovery import RecoveredRollback, after_mark, recover, recover_locked, rollback_lock
from .run import RollbackFailed, finish, go_back, go_forward, open_up, stage

if TYPE_CHECKING:
    from ..store.repositories.restoring import RepositoryRestored

__all__ = [
    "NoRollbackToUndo",
    "RecoveredRollback",
    "RollbackFailed",
    "RollbackPlan",
    "RolledBack",
    "plan_rollback",
    "plan_undo",
    "recover",
    "roll_back",
    "undo_rollback",
]


@dataclass(slots=True)
class RolledBack:
    """What a rollback did."""

    plan: RollbackPlan
    done: list[tuple[str, str]] = field(default_factory=list)  # path, action
    left: list[Left] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    repositories: list[RepositoryRestored] = field(default_factory=list)  # where they were asked for
    after: Checkpoint | None = None  # the mark of what the rollback left behind
    seconds: float = 0.0

    def paths(self, *actions: str) -> list[str]:
        return [path for path, action in self.done if action in actions]

    @property
    def restored(self) -> list[str]:
        return self.paths("restore", "recreate", "replace-directory", "metadata", "make-directory")

    @property
    def removed(self) -> list[str]:
        return self.paths(*REMOVING)

    @property
    def kept(self) -> list[Left]:
        """What stayed because it was changed since: by the user, or after a rollback that is undone."""
        return [left for left in self.left if left.reason in ("mine", "since")]

    @property
    def complete(self) -> bool:
        """Whether everything is as it was, but for what the user keeps and what no checkpoint covers."""
        return not self.plan.incomplete(self.left) and all(one.complete for one in self.repositories)

    @property
    def in_git(self) -> list[str]:
        """What was brought back in the repositories, a line for each of them."""
        from ..store.repositories.returned import returned_in_words

        plans = {plan.path: plan for plan in self.plan.repositories}
        pairs = [(plans[one.path], one.done) for one in self.repositories if one.path in plans]
        return [words for plan, done in pairs if (words := returned_in_words(plan, done))]

    @property
    def acted(self) -> bool:
        """Whether anything was changed at all."""
        return bool(self.done) or any(one.done for one in self.repositories)

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.plan.project,
            "target": self.plan.target.as_dict(),
            "undo": self.plan.undo.id,
            "after": self.after.id if self.after else None,
            "restored": self.restored,
            "removed": self.removed,
            "left": [{"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.left],
            "not_covered": [{"path": one.path, "reason": one.reason} for one in self.plan.not_covered],
            "gone": [{"path": one.path, "reason": one.reason} for one in self.plan.gone],
            "repositories": [one.as_dict() for one in self.repositories],
            "complete": self.complete,
            "remarks": self.remarks,
            "seconds": round(self.seconds, 3),
        }


def roll_back(
    store: Store,
    plan: RollbackPlan,
    *,
    settings: TakeSettings | None = None,
    session: str = "",
    hidden: Callable[[RolledBack], None] | None = None,
    listener: Listener = silent,
) -> RolledBack:
    """Carry a plan out. Raises UndoPointFailed, RollbackFailed (all is as it was) or RollbackStuck.

    `hidden` brings the hidden half back when this half is there, and adds what it did.
    """
    began = time.monotonic()
    result = RolledBack(plan, left=list(plan.left), remarks=list(plan.remarks))
    with rollback_lock(store, plan.project):
        recover_locked(store, plan.project, settings, listener)
        check_project(plan.project, plan.target.id)
        with _then_repositories(store, plan, result):
            if plan.steps:
                carry_out(store, plan, result, StoredContents(store), listener, hidden=hidden is not None)
            if hidden is not None:
                hidden(result)
        if result.acted:
            result.after = after_mark(
                store,
                plan.project,
                plan.target.id,
                plan.undo.id,
                settings=settings,
                session=session,
                remarks=result.remarks,
                listener=listener,
            )
    result.seconds = time.monotonic() - began
    return result


@contextlib.contextmanager
def _then_repositories(store: Store, plan: RollbackPlan, result: RolledBack) -> Iterator[None]:
    """When the files are back, the repositories follow. Written down first: a killed one is finished."""
    if not plan.git or not plan.repositories:
        yield
        return
    from ..store.repositories.planning import restore_repositories
    from ..store.repositories.restoring import RepositoryRestored

    plans = [one for one in plan.repositories if one.moves]
    for one in plan.repositories:
        if not one.moves:
            stays = [(name, why, "") for name, why in one.left]
            result.repositories.append(RepositoryRestored(one.path, left=stays))
    if not plans:
        yield
        return
    journal, operation = RollbackJournal(store.project_directory(plan.project)), new_id()
    items = {one.path: [move.name for move in one.moves] for one in plans}
    journal.write(REPOSITORY, operation, target=plan.target.id, undo=plan.undo.id, items=items)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            journal.close("taken-back", operation, time=time.time())
        raise
    result.repositories += restore_repositories(store, plan.project, plans, plan.target.id, plan.undo.id)
    result.remarks += [remark for one in result.repositories for remark in one.remarks]
    state = "done" if result.acted else "taken-back"
    journal.close(state, operation, **_summary(plan, result), git=True)


def carry_out(
    store: Store,
    plan: RollbackPlan,
    result: RolledBack,
    contents: FileContents,
    listener: Listener,
    *,
    hidden: bool = False,
) -> None:
    """Prove, stage and swap in one half; what was done is added to the result.

    `hidden`: the other half follows.
    """
    journal = RollbackJournal(store.project_directory(plan.project))
    with ProjectTree(plan.project) as ground:
        scratch = store.project_directory(plan.project)
        try:
            prepared = Preparation(ground, contents, plan, scratch).run(listener)
        except OSError as error:
            raise _failed(plan, error) from error
        operation = new_id()
        opened = open_up(ground, prepared.changes)
        try:
            journal.write(
                "begun",
                operation,
                project=plan.project,
                target=plan.target.id,
                undo=plan.undo.id,
                files=list(plan.files),
                asides=prepared.asides(),
                opened=opened,
                complete=not plan.incomplete([*plan.left, *prepared.left]),
                hidden=hidden,
                **_turn(plan),
                time=time.time(),
            )
            for path, mode in opened.items():
                ground.set_outside(path, mode | 0o300, None)
            stage(ground, contents, prepared, listener)
            if len(prepared.content) > 32:
                sync_filesystem(plan.project)
            journal.write("committed", operation, **_listed(prepared))
        except BaseException as error:
            _unstage(ground, journal, operation, prepared, opened)
            if isinstance(error, OSError):
                raise _failed(plan, error) from error
            raise
        result.left += prepared.left
        _swap(ground, journal, operation, plan, prepared, opened, result, listener, hidden)


def _listed(prepared: Prepared) -> dict[str, object]:
    return {
        "changes": [change.as_dict() for change in prepared.changes],
        "outsides": [change.as_dict() for change in prepared.outsides],
    }


def _unstage(
    ground: ProjectTree, journal: RollbackJournal, operation: str, prepared: Prepared, opened: dict[str, int]
) -> None:
    """Before the first change: our own names go, and nothing else was touched."""
    for aside in prepared.asides():
        with contextlib.suppress(OSError):
            ground.unlink(aside)
    with contextlib.suppress(OSError):
        go_back(ground, [], prepared.outsides, opened)
        journal.close("taken-back", operation, time=time.time())


def _swap(
    ground: ProjectTree,
    journal: RollbackJournal,
    operation: str,
    plan: RollbackPlan,
    prepared: Prepared,
    opened: dict[str, int],
    result: RolledBack,
    listener: Listener,
    hidden: bool,
) -> None:
    changes, outsides = prepared.changes, prepared.outsides
    try:
        outcome = go_forward(ground, changes, listener)
    except BaseException as error:
        with contextlib.suppress(OSError):
            journal.write("taking-back", operation)
        go_back(ground, changes, outsides, opened)
        with contextlib.suppress(OSError):
            journal.close("taken-back", operation, time=time.time())
        if isinstance(error, OSError):
            raise _failed(plan, error) from error
        raise
    waiting = plan.target.id if hidden else ""
    remarks, not_set = finish(ground, changes, outsides, opened, plan.undo.id, waiting)
    result.remarks += remarks
    result.left += outcome.left + not_set
    not_made = {left.path for left in outcome.left}
    made = [change for change in outcome.made if change.path not in not_made]
    result.done += [(change.path, change.action) for change in made if change.action]
    result.done += [(change.path or OWN, change.action) for change in outsides if change.action]
    result.done.sort()
    try:
        journal.close("done", operation, **_summary(plan, result))
    except OSError as error:  # all is done; the next command finds that out and writes it down
        result.remarks.append(f"the end of the rollback could not be written down: {error.strerror or error}")
    listener(Event("swap", len(changes), len(changes), unit="files"))


def _summary(plan: RollbackPlan, result: RolledBack) -> dict[str, object]:
    return {
        "project": plan.project,
        "target": plan.target.id,
        "undo": plan.undo.id,
        "files": list(plan.files),
        "done": len(result.done),
        "left": len(result.left),
        "complete": result.complete,
        **_turn(plan),
        "time": time.time(),
    }


def _turn(plan: RollbackPlan) -> dict[str, object]:
    """What says that only one turn went back, and not all since the target."""
    return {"until": plan.until.id} if plan.until is not None else {}


def _failed(plan: RollbackPlan, error: OSError) -> RollbackFailed:
    where = error.filename if isinstance(error.filename, str) else ""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    room = NextStep(
        "checkpoint prune",
        before="Make room on the disk (of checkpoints:",
        after="), then run the command again",
    )
    return RollbackFailed(
        f"The rollback of `{plan.project}` failed: {error.strerror or error}"
        + (f" (`{where}`)" if where else ""),
        kept="Everything that was begun was taken back; the project is as it was before",
        next_steps=(room if full else "Mend the cause (permissions), then run the command again",),
        project=plan.project,
        errno=error.errno,
    )


def undo_rollback(
    store: Store,
    project: str,
    id: str = "",
    *,
    overwrite_mine: bool = False,
    settings: TakeSettings | None = None,
    session: str = "",
    listener: Listener = silent,
) -> RolledBack:
    """Undo the last rollback, or the one with this undo point; can itself be undone. Raises NothingToUndo."""
    plan = plan_undo(
        store,
        project,
        id,
        overwrite_mine=overwrite_mine,
        settings=settings,
        session=session,
        listener=listener,
    )
    return roll_back(store, plan, settings=settings, session=session, listener=listener)
