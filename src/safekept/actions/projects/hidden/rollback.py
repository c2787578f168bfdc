"""Bring the hidden half back after the visible one, under the same rules; both are undone together.

What is hidden now is kept first, as the undo point of this half. For that, and for a repository that is in
use or does not open, a rollback waits a few seconds; then it says what did not come, and the visible half
stays as it is. Running the same command again goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from safekept.checkpoints.checkpoint import CheckpointDamaged, Skipped
from safekept.checkpoints.points import HIDDEN_FILES, HIDDEN_REASONS, Left, RollbackPlan
from safekept.checkpoints.rollback import (
    RolledBack,
    SecondHalf,
    StoredContents,
    land_second_half,
    plan_second_half,
    settle_visible,
)
from safekept.checkpoints.scan import LEFT_WORDS, HiddenLook, KeptLook
from safekept.checkpoints.store import Store, TreeState
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.vault.repo import Repository

from ...base.context import UserContext
from .keeping import keep_hidden
from .record import hidden_exists, kept_looks, load_rows
from .repository import open_hidden
from .state import NOT_IN_TIME, BothContents, HiddenHistory, looks_like

#: Seconds that a rollback waits for the hidden half before it goes on without it.
WAIT = 5.0
#: What keeps the hidden half shut; a part of Python that does not load among it: SQLite is needed only here.
_SHUT = (SafekeptError, OSError, ImportError)


@dataclass(frozen=True, slots=True)
class HiddenRollback:
    """The hidden half of one rollback: planned with the visible one, carried out after it."""

    context: UserContext
    store: Store
    plan: RollbackPlan
    moved: tuple[str, ...] = ()  # what changed while the target's half was kept
    overwrite_mine: bool = False
    listener: Listener = silent

    def shown(self) -> RollbackPlan:
        """The plan of both halves, as it is shown and agreed to; nothing is kept for it."""
        plan = replace(self.plan)
        try:
            with self._opened(time.monotonic() + WAIT) as repository:
                history = self._history(repository)
                half = self._half(history, looks_like(self._look.folders, history.state(self.plan.target)))
                more = plan_second_half(self.store, plan, half)
                settle_visible(plan, more, half)
                plan.steps = sorted([*plan.steps, *more.steps], key=lambda step: step.path)
                plan.left = [*plan.left, *more.left, *self._not_in_time(half)]
        except _SHUT as error:
            more = self._by_the_visible()
            plan.steps = sorted([*plan.steps, *more.steps], key=lambda step: step.path)
            plan.left = [*self._decided(plan.left), *more.left, *self._shut(error)]
        return plan

    def land(self, result: RolledBack) -> None:
        """Bring it back. Nothing is raised: what did not come is in the result."""
        deadline = time.monotonic() + WAIT
        try:
            now = self._keep_now(deadline)
            with self._opened(deadline) as repository:
                history = self._history(repository)
                half = self._half(history, history.of(now), unread=now.missing)
                more = plan_second_half(self.store, self.plan, half)
                visible = list(self.plan.left)
                settle_visible(self.plan, more, half)
                gone = {one.path for one in visible} - {one.path for one in self.plan.left}
                result.left = [one for one in result.left if one.path not in gone]
                land_second_half(self.store, more, half.contents, result, self.listener)
                result.left += self._not_in_time(half)
                self.plan.then, self.plan.now = more.then, more.now
                result.remarks += self._younger(more)
        except _SHUT as error:
            result.left = self._decided(result.left)
            contents = StoredContents(self.store)
            land_second_half(self.store, self._by_the_visible(), contents, result, self.listener)
            result.left += self._shut(error)

    def _keep_now(self, deadline: float) -> KeptLook:
        """Keep what is hidden now. What could not be read when this look was kept is tried again; where that
        does not work, what was kept still is."""
        project, look = self.plan.project, self._look
        known = kept_looks(self.context, project).looks.get(look.id)
        try:
            return keep_hidden(
                self.context, project, look, deadline=deadline, again=True, listener=self.listener
            )
        except _SHUT:
            if known is None:
                raise
            return known

    def _by_the_visible(self) -> RollbackPlan:
        """What the visible half leaves to this one, as that one decides it: it needs no other store."""
        nothing = HiddenHistory(None, kept_looks(self.context, self.plan.project))
        return plan_second_half(self.store, self.plan, self._half(nothing, TreeState(), TreeState()))

    def _decided(self, left: list[Left]) -> list[Left]:
        """Without what the visible half leaves to this one."""
        return [one for one in left if one.path not in self.plan.deferred]

    @property
    def _look(self) -> HiddenLook:
        assert self.plan.hidden is not None
        return self.plan.hidden

    @contextlib.contextmanager
    def _opened(self, deadline: float) -> Iterator[Repository | None]:
        """None where nothing hidden was ever kept: then there is no snapshot to read, either."""
        if not hidden_exists(self.context):
            yield None
            return
        with (
            open_hidden(self.context, listener=self.listener) as repository,
            repository.lock(wait=max(0.0, deadline - time.monotonic())),
        ):
            yield repository

    def _half(
        self,
        history: HiddenHistory,
        now: TreeState,
        then: TreeState | None = None,
        unread: Sequence[str] | None = None,
    ) -> SecondHalf:
        undone = None
        if self.plan.until is not None and history.repository is None and then is not None:
            undone = TreeState()  # nothing can be read: only what the visible half leaves is decided
        elif self.plan.undone is not None or self.plan.until is not None:
            undone = self._left_by_the_other(history)
        left = {
            os.fsdecode(path): Skipped(os.fsdecode(path), "not-kept", _words(reason), size=size)
            for path, (reason, _, size) in self._look.left.items()
        }
        contents = BothContents(StoredContents(self.store), history)
        return SecondHalf(
            history.state(self.plan.target) if then is None else then,
            now,
            history,
            contents,
            contents.same,
            undone,
            self.overwrite_mine,
            left,
            self._look.unread if unread is None else unread,
        )

    def _history(self, repository: Repository | None) -> HiddenHistory:
        project = self.plan.project
        rows = partial(load_rows, self.context, project)
        return HiddenHistory(repository, kept_looks(self.context, project), rows)

    def _not_in_time(self, half: SecondHalf) -> list[Left]:
        """What was there, was not kept in time, and is not as it was any more.

        A file that a tool named is in the visible half, whatever hides it: that one brings it back.
        """
        rows = load_rows(self.context, self.plan.project, self.plan.target.hidden)
        if rows is None:
            return []
        visible = self.plan.then
        late = [
            path
            for path, one in half.then.skipped.items()
            if one.reason == NOT_IN_TIME and path not in visible
        ]
        now = self._look.folders
        return [
            Left(path, "hidden-shut", "it was not kept in time")
            for path in sorted(late)
            if rows.changed_at(os.fsencode(path)) != now.changed_at(os.fsencode(path))
        ]

    def _left_by_the_other(self, history: HiddenHistory) -> TreeState | None:
        """The hidden half as the rollback that is undone wanted it, or as the turn left it that goes back.

        What a turn left, and is not known, cannot be told from what later ones did: then nothing is touched.
        """
        until = self.plan.until
        name = until.id if until is not None else self.plan.undone
        points = self.store.checkpoints(self.plan.project)
        try:
            return history.state(next(point for point in points if point.id == name))
        except (SafekeptError, StopIteration):
            if until is not None and self.plan.later_turns:
                raise CheckpointDamaged(
                    "What that turn changed of them was not kept in time",
                    kept="They stay as they are",
                    next_steps=(),
                ) from None
        return None

    def _younger(self, more: RollbackPlan) -> list[str]:
        """What was changed while it was kept may be younger than the point."""
        moved = sorted({step.path for step in more.steps if step.places} & set(self.moved))
        return [f"{path} changed while it was kept, and may be younger than the checkpoint" for path in moved]

    def _shut(self, error: SafekeptError | OSError | ImportError) -> list[Left]:
        """Everything that the visible half could not settle alone, by name, and why it did not come."""
        why = error.what if isinstance(error, SafekeptError) else getattr(error, "strerror", "") or str(error)
        unsettled = (*self.plan.gone, *self.plan.not_covered)
        names = {one.path for one in unsettled if one.reason in HIDDEN_REASONS}
        settled = {one.path for one in self.plan.left}
        return [Left(path, "hidden-shut", why) for path in sorted(names - settled)] or [
            Left(HIDDEN_FILES, "hidden-shut", why)
        ]


def hidden_rollback(
    context: UserContext,
    store: Store,
    plan: RollbackPlan,
    *,
    overwrite_mine: bool = False,
    listener: Listener = silent,
) -> HiddenRollback | None:
    """The hidden half of a plan; None where nothing is to be done about it."""
    if plan.hidden is None:
        return None
    then = kept_looks(context, plan.project).of(plan.target)
    if then is None and load_rows(context, plan.project, plan.target.hidden) is None:
        return None
    return HiddenRollback(context, store, plan, then.moved if then else (), overwrite_mine, listener)


def _words(reason: str) -> str:
    return LEFT_WORDS.get(reason, reason.partition(": ")[2] or reason)
