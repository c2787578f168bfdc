"""What going back would do: the undo point taken, both states compared, the user's edits known."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from holdfast.core.errors import HoldfastError
from holdfast.core.events import Listener, silent

from .addressing import find_checkpoint, find_files
from .attribution import changed_by_user
from .checkpoint import Checkpoint, NoSuchCheckpoint
from .deciding import Sides, plan_steps
from .ground import Ground, check_project
from .moment import Absence, LeftOut, States, every_name, moment_of, named_paths
from .proving import UndoPointFailed
from .rollback_journal import RollbackJournal
from .rollback_plan import RollbackPlan, substance
from .rollback_recovery import recover_locked, rollback_lock
from .store import Store
from .take import ProjectGone, Taken, TakeSettings, TooManyFiles, take

_KEPT = "Nothing was changed"


class NothingToUndo(HoldfastError):
    code = "no-rollback-to-undo"


def plan_rollback(
    store: Store,
    project: str,
    checkpoint: Checkpoint | str,
    files: Sequence[str] = (),
    *,
    overwrite_mine: bool = False,
    recreate: bool = False,
    cwd: str = "",
    settings: TakeSettings | None = None,
    session: str = "",
    listener: Listener = silent,
) -> RollbackPlan:
    """Take the undo point and say what going back would do; the project itself is not touched.

    `checkpoint` is one, or the number or id a person gave. With `recreate` a project that is gone is made
    again, as an empty directory. Raises the typed errors of `addressing`, `ground` and `proving`.
    """
    with rollback_lock(store, project):
        recover_locked(store, project, settings, listener)
        made = _see_to_project(store, project, checkpoint, recreate)
        undo = _undo_point(store, project, settings, session, listener)
        target = (
            find_checkpoint(store, project, checkpoint, undo) if isinstance(checkpoint, str) else checkpoint
        )
        if target.project != project:
            raise NoSuchCheckpoint(
                f"checkpoint {target.id} belongs to another project, `{target.project}`",
                kept=_KEPT,
                next_steps=("See what there is here: `holdfast rollback`",),
                project=project,
                other=target.project,
            )
        plan = RollbackPlan(project, target, undo, made_project=made)
        _fill(store, plan, files, overwrite_mine, cwd)
        return plan


def _fill(store: Store, plan: RollbackPlan, files: Sequence[str], overwrite_mine: bool, cwd: str) -> None:
    target, undo = plan.target, plan.undo
    points = [point for point in store.checkpoints(plan.project) if point.id != undo.id]
    states = States(store)
    moment = moment_of(store, points, target, undo)
    plan.then, plan.now = then, now = moment.state(states), states(undo)
    if files:
        plan.files = find_files(store, plan.project, target, files, cwd, then, now)
    wanted = _wanted(plan.files)
    mine: set[str] = set()
    if not overwrite_mine:
        differing = [
            path
            for path in then.keys() | now.keys()
            if substance(then.get(path)) != substance(now.get(path)) and wanted(path)
        ]
        later = [point for point in points if (point.time_ns, point.id) > (target.time_ns, target.id)]
        mine = changed_by_user(store, later, undo, now, differing, lambda point: named_paths(store, point))
    left_out = LeftOut(now)
    with Ground(plan.project) as ground:

        def on_disk(path: str) -> int:
            try:
                facts = ground.look(path)
            except PermissionError:
                return stat.S_IFBLK  # something may be there, and nothing can be done about it
            return 0 if facts is None else stat.S_IFMT(facts.st_mode)

        plan.steps, plan.left = plan_steps(
            Sides(then, now, wanted, mine, Absence(states, moment), left_out.find, on_disk)
        )
    plan.not_covered = [one for one in left_out.items if wanted(one.path)]


def _wanted(files: tuple[str, ...]) -> _Wanted:
    return _Wanted(files)


class _Wanted:
    """Whether a path was asked for: by its own name, or below a directory that was named."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self._all = not files or "" in files
        self._names, self._below = frozenset(files), tuple(name + "/" for name in files)

    def __call__(self, path: str) -> bool:
        return self._all or path in self._names or path.startswith(self._below)


def _see_to_project(store: Store, project: str, checkpoint: Checkpoint | str, recreate: bool) -> bool:
    try:
        check_project(project)
    except ProjectGone:
        if not recreate or not os.path.isdir(os.path.dirname(project)) or not store.checkpoints(project):
            raise
        if isinstance(checkpoint, str):
            find_checkpoint(store, project, checkpoint, None)  # before anything is made
        os.mkdir(project)
        return True
    return False


def _undo_point(
    store: Store, project: str, settings: TakeSettings | None, session: str, listener: Listener
) -> Checkpoint:
    """The project as it is, kept. Raises UndoPointFailed: without one there is no rollback."""

    def taken(named: list[str] | None) -> Taken:
        return take(
            store,
            project,
            kind="undo",
            reason="before a rollback",
            session=session,
            named=named,
            walked=named is None,
            settings=settings or TakeSettings(),
            always=True,
            listener=listener,
        )

    points = store.checkpoints(project)
    # A directory that is no project, or is too large for passes: only named files were ever kept of it.
    only_named = bool(points) and not any(point.full for point in points)
    try:
        answer = taken(every_name(store, points) if only_named else None)
    except TooManyFiles:
        only_named = True
        answer = taken(every_name(store, points))
    except OSError as error:
        raise _no_undo_point(project, error.strerror or str(error)) from error
    undo = answer.checkpoint
    if undo is None or not (undo.full or only_named):
        raise _no_undo_point(project, "; ".join(answer.remarks) or "the project could not be read whole")
    return undo


def _no_undo_point(project: str, why: str) -> UndoPointFailed:
    return UndoPointFailed(
        f"the point to undo this rollback could not be taken in `{project}`: {why}",
        kept=_KEPT,
        next_steps=("Look at the store: `holdfast checkpoints status`", "Then run the command again"),
        project=project,
    )


def plan_undo(
    store: Store,
    project: str,
    id: str = "",
    *,
    overwrite_mine: bool = False,
    settings: TakeSettings | None = None,
    session: str = "",
    listener: Listener = silent,
) -> RollbackPlan:
    """What undoing the last rollback would do."""
    with rollback_lock(store, project):
        recover_locked(store, project, settings, listener)
    points = {point.id: point for point in store.checkpoints(project)}
    done = RollbackJournal(store.project_directory(project)).finished()
    if id:
        target = find_checkpoint(store, project, id, None)
        if target.kind != "undo":
            raise _nothing(project, f"checkpoint {target.id} was not taken before a rollback")
    else:
        known = [str(line.get("undo")) for line in done if str(line.get("undo")) in points]
        if not known:
            raise _nothing(
                project,
                "the point before the last rollback was dropped"
                if done
                else f"there was no rollback in `{project}`",
            )
        target = points[known[-1]]
    return plan_rollback(
        store,
        project,
        target,
        overwrite_mine=overwrite_mine,
        recreate=True,
        settings=settings,
        session=session,
        listener=listener,
    )


def _nothing(project: str, why: str) -> NothingToUndo:
    return NothingToUndo(
        f"there is nothing to undo: {why}",
        kept=_KEPT,
        next_steps=("See every point there is: `holdfast rollback --all`",),
        project=project,
    )
