"""What going back would do: the undo point taken, both states compared, the user's edits known."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.next_step import NextStep

from ..checkpoint import Checkpoint, CheckpointDamaged, FileState, NoSuchCheckpoint
from ..points.addressing import find_checkpoint, find_files, hidden_below
from ..points.attribution import changed_by_user, marks_amid_turns
from ..points.differences import Renamed, missed, vanished
from ..points.reconstructed_state import Absence, LeftOut, States, named_paths, reconstruct
from ..points.rollback_plan import OWN, Left, RollbackJournal, RollbackPlan, Step, file_mode, visible_state
from ..project import on_the_same_filesystem
from ..scan.kept_hidden import KeptHidden
from ..store.repositories.state import same_repositories
from ..store.store import Store
from ..store.tree_state import TreeState
from ..take.taking import ProjectGone, TakeSettings
from .deciding import RollbackInputs, plan_steps
from .project_tree import ProjectTree, check_project
from .recovery import recover_locked, rollback_lock
from .undo_point import Undoing, UndoPoint, missing_from_point, store_to_plan_in, undoing

if TYPE_CHECKING:
    from ..store.repositories.moves import RepositoryPlan

_KEPT = "Nothing was changed"
#: Of a directory that is never taken whole.
ONLY_NAMED = "only files that a tool named are kept here: whatever else was changed or deleted stays so"


class NoRollbackToUndo(SafekeptError):
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
    undone: str | None = None,
    looking: bool = False,
    git: bool = False,
    until: Checkpoint | None = None,
    settings: TakeSettings | None = None,
    session: str = "",
    listener: Listener = silent,
) -> RollbackPlan:
    """Take the undo point and say what going back would do; the project itself is not touched.

    `checkpoint` is one, or the number or id a person gave. With `recreate` a project that is gone is made
    again, as an empty directory. `undone`: this undoes a rollback, which went back to that id.
    `looking`: the plan is only shown, and nothing is stored for it. `git`: the project's own repositories go
    back as well; numbers then count what only moved there, too. `until`: only what was changed up to that
    later point goes back, as far as it was not changed again.
    Raises the typed errors of `addressing`, `project_tree` and `proving`.
    """
    with rollback_lock(store, project):
        recover_locked(store, project, settings, listener)
        made, checkpoint = _ensure_project(store, project, checkpoint, recreate, git)
        try:
            with store_to_plan_in(store, project, looking) as planning:
                keeping = UndoPoint(planning, project, settings, session, listener, looking=looking)
                kept = KeptHidden(store.project_directory(project))
                plan = _planned(
                    keeping, checkpoint, files, overwrite_mine, cwd, undone, made, git, kept, until
                )
                if not files:
                    plan.repositories = _moved(planning, plan, overwrite_mine, undone, store.directory)
                    plan.settle_repositories()
                return plan
        except BaseException:
            unmake(made)
            raise


def _planned(
    keeping: UndoPoint,
    checkpoint: Checkpoint | str,
    files: Sequence[str],
    overwrite_mine: bool,
    cwd: str,
    undone: str | None,
    made: tuple[str, ...],
    git: bool,
    kept: KeptHidden,
    until: Checkpoint | None = None,
) -> RollbackPlan:
    store, project, undo = keeping.store, keeping.project, keeping.take()
    target = (
        find_checkpoint(store, project, checkpoint, undo, git) if isinstance(checkpoint, str) else checkpoint
    )
    if target.project != project:
        raise NoSuchCheckpoint(
            f"Checkpoint {target.id} belongs to another project, `{target.project}`",
            kept=_KEPT,
            next_steps=(NextStep("rollback", before="See what there is here:"),),
            project=project,
            other=target.project,
        )
    plan = RollbackPlan(project, target, undo, git=git, made_project=bool(made), made=made)
    plan.undone, plan.until = undone, until
    _Filling(store, plan, keeping, overwrite_mine, kept).fill(files, cwd, undone)
    plan.hidden = keeping.hidden
    if not plan.undo.full and not files:
        plan.remarks.append(ONLY_NAMED)
    return plan


def _moved(
    store: Store, plan: RollbackPlan, overwrite_mine: bool, undone: str | None, kept_in: str
) -> list[RepositoryPlan]:
    """What moved in the project's repositories since; nothing where that is not known."""
    if not plan.git and same_repositories(store, plan.target, plan.undo):
        return []
    from ..store.repositories.planning import plan_repositories

    points = [point for point in store.checkpoints(plan.project) if point.id != plan.undo.id]
    mark: Checkpoint | None = None
    if undone is not None:
        own = f"rollback {plan.target.id}"
        mark = next((point for point in points if point.kind == "after" and point.turn == own), None)
    else:
        # While a turn is open, what moved since may be the agent's.
        newest = next((point for point in points if point.kind != "undo"), None)
        if newest is not None and newest.kind == "after" and newest.time_ns > plan.target.time_ns:
            mark = newest
    mark = None if overwrite_mine else mark
    try:
        return plan_repositories(
            store, plan.target, plan.undo, mark, undoing=undone is not None, deep=plan.git, kept_in=kept_in
        )
    except CheckpointDamaged as error:
        plan.remarks.append(f"what moved in the git repository is not known: {error}")
        return []


def unmake(made: Sequence[str]) -> None:
    """Remove the directories that were made to plan in, as far as they are still empty."""
    with contextlib.suppress(OSError):
        for path in reversed(made):
            os.rmdir(path)


class _Filling:
    """Compares both states, and decides for each path."""

    def __init__(
        self, store: Store, plan: RollbackPlan, keeping: UndoPoint, overwrite_mine: bool, kept: KeptHidden
    ) -> None:
        self.store, self.plan, self.keeping = store, plan, keeping
        self.overwrite, self.kept = overwrite_mine, kept
        self.points = [point for point in store.checkpoints(plan.project) if point.id != plan.undo.id]
        self.states = States(store)

    def fill(self, files: Sequence[str], cwd: str, undone: str | None) -> None:
        plan, states, undoing_it = self.plan, self.states, None
        rebuilt = reconstruct(self.store, self.points, plan.target, plan.undo)
        plan.then, now = rebuilt.state(states), states(plan.undo)
        if files:
            hidden = hidden_below(states(rebuilt.base), now) if plan.undo.hidden else None
            plan.files = find_files(self.store, plan.project, plan.target, files, cwd, plan.then, now, hidden)
        wanted: Callable[[str], bool] = _Wanted(plan.files)
        if undone is not None and not plan.made_project:
            undoing_it = undoing(self.store, states, self.points, plan.target, undone)
        elif plan.until is not None and not plan.made_project:
            from .one_turn import changed_until, turns_after

            undoing_it = changed_until(self.store, states, self.points, plan.then, plan.until, plan.undo)
            plan.later_turns = bool(turns_after(self.points, plan.until))
        if undoing_it is not None:
            wanted = undoing_it.changed
        with ProjectTree(plan.project) as ground:
            on_disk = looking_at(ground)
            if names := missing_from_point(plan.then, now, wanted, on_disk):
                plan.undo = self.keeping.take_again(plan.undo, names)
                now = states(plan.undo)
                rebuilt = reconstruct(self.store, self.points, plan.target, plan.undo)
                plan.then = rebuilt.state(states)
            plan.now = now
            # What was left out then is known where the project was looked at whole.
            base = states(rebuilt.base) if rebuilt.base.id != plan.undo.id else TreeState()
            gone = vanished(base, now, on_disk)
            renamed = Renamed([] if self.overwrite else gone, base, now, plan.target.time_ns)
            left_out = LeftOut(now)
            absence = Absence(states, rebuilt)
            since, mine = self._theirs(undoing_it, wanted, now)
            sides = RollbackInputs(
                plan.then,
                now,
                wanted,
                mine,
                absence,
                left_out.find,
                on_disk,
                since=since,
                renamed=renamed,
            )
            plan.steps, plan.left = plan_steps(sides)
            if plan.until is not None:
                from .one_turn import as_later

                plan.left = as_later(plan.left)
            plan.left += [
                Left(one.path, one.reason, one.detail)
                for one in left_out.items
                # Made since, and it cannot be kept first: so it stays, and not all is as it was.
                if one.reason == "unreadable" and wanted(one.path) and not absence(one.path)
                if one.path not in plan.then
            ]
        if rebuilt.base.id == plan.target.id and not files:
            self._own_directory(states(rebuilt.base).root, now.root, undoing_it)
        if undoing_it is not None and undone is not None:
            others = undoing_it.others(self._differing(now, lambda path: True), plan.then, now)
            plan.left = sorted([*plan.left, *(Left(path, "since") for path in others)], key=lambda o: o.path)
        plan.not_covered = [one for one in left_out.items if wanted(one.path)]
        plan.gone = missed(gone, _Wanted(plan.files))

    def _own_directory(self, then: FileState, now: FileState, undoing_it: Undoing | None) -> None:
        """The project's own directory: its mode is a step, its time goes with whatever else is done."""
        plan = self.plan
        if not then.mtime_ns or (undoing_it is not None and undoing_it.root not in (None, now)):
            return  # adopted from a store that does not know it; or changed since
        if any("/" not in left.path for left in plan.left):
            then = replace(then, mtime_ns=now.mtime_ns)  # the time of what stays in it
        plan.root, plan.root_now = then, now
        if file_mode(then) != file_mode(now):
            plan.steps.insert(0, Step(OWN, "metadata", then, now))

    def _theirs(
        self, undoing_it: Undoing | None, wanted: Callable[[str], bool], now: TreeState
    ) -> tuple[set[str], set[str]]:
        """What others changed after the rollback that is undone; what the user changed after the agent."""
        until = self.plan.until
        if (
            self.overwrite and until is None
        ) or self.plan.made_project:  # what is gone whole was no edit of a file
            return set(), set()
        differing = self._differing(now, wanted)
        if undoing_it is not None:
            since = undoing_it.since(differing, now)
            if until is None:
                return since, set()
            from .one_turn import changed_by_turns

            by_turns = changed_by_turns(self.store, self.points, until, self.plan.undo, since)
            return by_turns, set() if self.overwrite else since - by_turns
        # Of what lies there hidden nothing is known, and so not whose it is.
        unknown = {path for path in differing if path not in now and not now.knows(path)}
        differing = [path for path in differing if path not in unknown]
        start = (self.plan.target.time_ns, self.plan.target.id)
        later = [point for point in self.points if (point.time_ns, point.id) > start]
        known = self.keeping.hidden is not None and self.kept.of(self.plan.target) is not None
        deferred = unknown if known else set[str]()

        def blind(point: Checkpoint, path: str) -> None:
            if known and self.kept.of(point) is not None:
                deferred.add(path)

        mine = changed_by_user(
            self.store,
            later,
            self.plan.undo,
            now,
            differing,
            lambda point: named_paths(self.store, point),
            marks_amid_turns(self.points),
            blind,
        )
        self.plan.deferred = frozenset(deferred)
        return set(), mine | deferred

    def _differing(self, now: TreeState, wanted: Callable[[str], bool]) -> list[str]:
        then = self.plan.then
        return [
            path
            for path in then.keys() | now.keys()
            if visible_state(then.get(path)) != visible_state(now.get(path)) and wanted(path)
        ]


def wanted_among(files: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a path was asked for; no files: every path was."""
    return _Wanted(files)


def looking_at(ground: ProjectTree) -> Callable[[str], int]:
    def on_disk(path: str) -> int:
        try:
            facts = ground.look(path)
        except PermissionError:
            return stat.S_IFBLK  # something may be there, and nothing can be done about it
        return 0 if facts is None else stat.S_IFMT(facts.st_mode)

    return on_disk


class _Wanted:
    """Whether a path was asked for: by its own name, or below a directory that was named."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self._all = not files or "" in files
        self._names, self._below = frozenset(files), tuple(name + "/" for name in files)

    def __call__(self, path: str) -> bool:
        return self._all or path in self._names or path.startswith(self._below)


def _ensure_project(
    store: Store, project: str, checkpoint: Checkpoint | str, recreate: bool, git: bool
) -> tuple[tuple[str, ...], Checkpoint | str]:
    """See that it is there; the directories that were made for it, outermost first, and the point of it."""
    try:
        check_project(project)
    except ProjectGone:
        if not store.checkpoints(project):
            raise
        if isinstance(checkpoint, str):
            checkpoint = find_checkpoint(store, project, checkpoint, None, git)  # before anything is made
        place, around = store.project_directory(project), os.path.dirname(project)
        # Where nothing is around it, either, it may only be unmounted.
        if not recreate or not (os.path.isdir(around) or on_the_same_filesystem(place, project)):
            check_project(project, checkpoint.id)
        made = _missing_directories(project)
        for path in made[:-1]:
            os.mkdir(path)
        os.mkdir(project, 0o700)  # no other user looks in until its own mode is back
        return made, checkpoint
    return (), checkpoint


def _missing_directories(path: str) -> tuple[str, ...]:
    """This one and those above it that are not there, outermost first."""
    found: list[str] = []
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return tuple(reversed(found))


def plan_undo(
    store: Store,
    project: str,
    id: str = "",
    *,
    overwrite_mine: bool = False,
    looking: bool = False,
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
                else f"no rollback changed anything in `{project}`",
            )
        target = points[known[-1]]
    undone = next((str(line.get("target", "")) for line in done if line.get("undo") == target.id), None)
    git = any(line.get("git") for line in done if line.get("undo") == target.id)
    return plan_rollback(
        store,
        project,
        target,
        overwrite_mine=overwrite_mine,
        recreate=True,
        undone=undone,
        looking=looking,
        git=git,
        settings=settings,
        session=session,
        listener=listener,
    )


def _nothing(project: str, why: str) -> NoRollbackToUndo:
    return NoRollbackToUndo(
        f"There is nothing to undo: {why}",
        kept=_KEPT,
        next_steps=(NextStep("rollback", ("--all",), before="See every point there is:"),),
        project=project,
    )
