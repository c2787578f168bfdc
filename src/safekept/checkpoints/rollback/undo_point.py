"""The point that a rollback is undone with: the project as it is, and whatever is going to be touched.

A full pass leaves out what `.gitignore` hides. An agent that hides a file and changes it must not get its
change past a rollback, so what the target holds and lies on the disk is named, and taken whatever the
rules say; secrets and files over the limit excepted, which stay as they are.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..checkpoint import LOOKED_AT, Checkpoint, CheckpointDamaged, FileState
from ..points.readonly_view import borrowed
from ..points.reconstructed_state import LeftOut, States, every_name, reconstruct
from ..points.rollback_plan import visible_state
from ..store.repository import StoreUnusable
from ..store.store import Store
from ..store.tree_state import TreeState
from ..take.taking import Taken, TakeSettings, TooManyFiles, take
from .proving import no_undo_point, room

if TYPE_CHECKING:
    from ..scan.hidden_look import HiddenLook

# What undoing a rollback may touch: what that rollback changed, and nothing that was changed since.


@dataclass(frozen=True, slots=True)
class Undoing:
    """One rollback seen from later: the paths it changed, and how it left them."""

    left_as: dict[str, FileState | None]
    root: FileState | None = None  # how it left the project's own directory; None where that is unknown

    def changed(self, path: str) -> bool:
        return path in self.left_as

    def since(self, differing: Collection[str], now: TreeState) -> set[str]:
        """Those of the paths that differ which were changed after the rollback."""
        return {
            path
            for path in differing
            if path in self.left_as and visible_state(now.get(path)) != visible_state(self.left_as[path])
        }

    def others(
        self, differing: Collection[str], then: Mapping[str, FileState], now: Mapping[str, FileState]
    ) -> list[str]:
        """Files that differ and that the rollback had nothing to do with."""

        def is_file(path: str) -> bool:
            sides = (then.get(path), now.get(path))
            return any(state is not None and state.kind != "directory" for state in sides)

        return sorted(path for path in differing if path not in self.left_as and is_file(path))


def undoing(
    store: Store, states: States, points: Sequence[Checkpoint], undo: Checkpoint, target: str
) -> Undoing | None:
    """What the rollback with this undo point did; None where nothing of it is known any more.

    Its after-mark says it; where that is missing or did not look, what was gone back to does.
    """
    goal = next((point for point in points if point.id == target), None)
    mark = next(
        (point for point in points if point.kind == "after" and point.turn == f"rollback {undo.id}"), None
    )
    try:
        aim = reconstruct(store, points, goal, undo).state(states) if goal is not None else None
        if mark is None:
            if aim is None:
                return None
            paths = states(undo).keys() | aim.keys()
            return Undoing({path: aim.get(path) for path in paths if aim.get(path) != states(undo).get(path)})
        after = states(mark)
        hides = LeftOut(after)
        found: dict[str, FileState | None] = {}
        for path, _, state in store.difference(undo, mark):
            unseen = state is None and hides.reason(path)
            found[path] = aim.get(path) if unseen and aim is not None else state
        if aim is not None:
            # What it brought back, and the mark could not read: it is as the aim has it.
            before = states(undo)
            brought = {path for path, state in aim.items() if path not in found and state != before.get(path)}
            found.update((path, aim[path]) for path in brought if path not in after and hides.reason(path))
        return Undoing(found, after.root)
    except CheckpointDamaged:
        return None


class UndoPoint:
    """Takes it, and takes it again with more names where the first pass did not hold enough."""

    def __init__(
        self,
        store: Store,
        project: str,
        settings: TakeSettings | None,
        session: str = "",
        listener: Listener = silent,
        *,
        looking: bool = False,
    ) -> None:
        self.store, self.project = store, project
        self._settings = settings or TakeSettings()
        if looking:  # in a store that is thrown away again
            self._settings = replace(self._settings, durable=False, seat_belt=None, repository_wait=-1.0)
        self._session, self._listener, self._reason = (
            session,
            listener,
            LOOKED_AT if looking else "before a rollback",
        )
        self.hidden: HiddenLook | None = None  # what it found hidden
        self._names: list[str] | None = None  # of a directory that is no project: all that is known of it

    def take(self) -> Checkpoint:
        """The project as it is, kept. Raises UndoPointFailed: without one there is no rollback."""
        # A directory that is no project, or is too large for passes: only named files were ever kept of it.
        guard = self._settings.guard
        never = guard is not None and guard.never(self.project)
        points: list[Checkpoint] = []
        if never or not any(point.full for point in self.store.newest_first(self.project)):
            points = self.store.checkpoints(self.project)
            # It is not known whether one is full: the project is not to be taken for what it is not.
            if not never and (unread := self.store.refs.unread) is not None:
                raise no_undo_point(self.project, f"a checkpoint of it cannot be read: {unread}")
        if points:
            self._names = every_name(self.store, points)
            # Passes that an earlier version made where none may be: what they hold can still be gone back to.
            passes = [point for point in points if point.full]
            held = (self.store.state(point).items() for point in passes)
            known = {path for files in held for path, state in files if state.kind != "directory"}
            self._names += sorted(known - set(self._names))
        try:
            return self._sound(self._take(self._names, self._names is None))
        except TooManyFiles:
            self._names = every_name(self.store, self.store.checkpoints(self.project))
            return self._sound(self._take(self._names, False))

    def take_again(self, first: Checkpoint, names: Sequence[str]) -> Checkpoint:
        """The same with these files, whatever hides them. The first one is not needed any more."""
        again = self._sound(self._take([*(self._names or ()), *names], self._names is None))
        self.store.drop([first])
        return again

    def _take(self, named: Sequence[str] | None, passing: bool) -> Taken:
        try:
            return take(
                self.store,
                self.project,
                kind="undo",
                reason=self._reason,
                session=self._session,
                named=named,
                full=passing,
                walked=passing,
                settings=self._settings,
                always=True,
                listener=self._listener,
            )
        except StoreUnusable as error:
            full = any("room" in step for step in error.advice())
            again = "Or free some space on that disk, then run" if full else "Then run"
            steps = (*error.next_steps, f"{again} the command again")
            raise no_undo_point(self.project, error.what, steps) from error
        except OSError as error:
            raise no_undo_point(self.project, error.strerror or str(error), room(error)) from error

    def _sound(self, answer: Taken) -> Checkpoint:
        undo, self.hidden = answer.checkpoint, answer.hidden
        if undo is None or not (undo.full or self._names is not None):
            why = "; ".join(answer.remarks) or "the project could not be read whole"
            raise no_undo_point(self.project, why)
        return undo


@contextlib.contextmanager
def as_it_is(
    store: Store, project: str, settings: TakeSettings | None = None
) -> Iterator[tuple[Store, Checkpoint | None]]:
    """Where to read, and a point of the project as it is now, which is thrown away at the end.

    Nothing of it is kept. The point is None where it cannot be had; numbers then count from the last known.
    """
    with contextlib.ExitStack() as stack:
        reading, live = store, None
        with contextlib.suppress(SafekeptError, OSError):
            reading = stack.enter_context(borrowed(store, project))
            live = UndoPoint(reading, project, settings, looking=True).take()
        yield reading, live


@contextlib.contextmanager
def store_to_plan_in(store: Store, project: str, looking: bool) -> Iterator[Store]:
    """The store itself; for a plan that is only shown, a view of it that keeps nothing."""
    with contextlib.ExitStack() as stack:
        if looking:
            try:
                store = stack.enter_context(borrowed(store, project))
            except OSError as error:
                raise no_undo_point(project, error.strerror or str(error), room(error)) from error
        yield store


def missing_from_point(
    then: Collection[str],
    now: TreeState,
    wanted: Callable[[str], bool],
    on_disk: Callable[[str], int],
) -> list[str]:
    """What the older state holds, and lies on the disk, and is not in the point that was taken.

    A `.gitignore` that hides itself is one of them, by any author: while it stays, it hides the rest.
    """
    rules = {path for path in {*now, *now.skipped} if path.rpartition("/")[2] == ".gitignore"}
    names = {
        path
        for path in {*then, *(rules & now.skipped.keys())}
        if path not in now and wanted(path) and on_disk(path) in (stat.S_IFREG, stat.S_IFLNK)
    }
    return sorted(names | rules) if names else []
