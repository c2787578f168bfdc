"""Bring the hidden half back after the visible one, under the same rules; both are undone together.

What is hidden now is kept first, as the undo point of this half. For that, and for a repository that is in
use or does not open, a rollback waits a few seconds; then it says what did not come, and the visible half
stays as it is. Running the same command again goes on.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from safekept.checkpoints.checkpoint import Skipped
from safekept.checkpoints.points import HIDDEN_FILES, Left, RollbackPlan
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
from .record import kept_looks
from .repository import open_hidden
from .state import BothContents, HiddenHistory, looks_like

#: Seconds that a rollback waits for the hidden half before it goes on without it.
WAIT = 5.0


@dataclass(frozen=True, slots=True)
class HiddenRollback:
    """The hidden half of one rollback: planned with the visible one, carried out after it."""

    context: UserContext
    store: Store
    plan: RollbackPlan
    then: KeptLook
    overwrite_mine: bool = False
    listener: Listener = silent

    def show(self) -> None:
        """Add to a plan that is only shown what would be done here; nothing is kept for it."""
        try:
            with self._opened(time.monotonic() + WAIT) as repository:
                history = HiddenHistory(repository, kept_looks(self.context, self.plan.project))
                then = history.of(self.then)
                half = self._half(history, looks_like(self._look.folders, then))
                more = plan_second_half(self.store, self.plan, half)
                settle_visible(self.plan, more, half)
                self.plan.steps = sorted([*self.plan.steps, *more.steps], key=lambda step: step.path)
                self.plan.left += more.left
        except (SafekeptError, OSError) as error:
            self.plan.left += self._shut(error)

    def land(self, result: RolledBack) -> None:
        """Bring it back. Nothing is raised: what did not come is in the result."""
        deadline = time.monotonic() + WAIT
        try:
            now = keep_hidden(
                self.context, self.plan.project, self._look, deadline=deadline, listener=self.listener
            )
            with self._opened(deadline) as repository:
                history = HiddenHistory(repository, kept_looks(self.context, self.plan.project))
                half = self._half(history, history.of(now))
                more = plan_second_half(self.store, self.plan, half)
                visible = list(self.plan.left)
                settle_visible(self.plan, more, half)
                gone = {one.path for one in visible} - {one.path for one in self.plan.left}
                result.left = [one for one in result.left if one.path not in gone]
                land_second_half(self.store, more, half.contents, result, self.listener)
                self.plan.then, self.plan.now = more.then, more.now
                result.remarks += self._younger(more)
        except (SafekeptError, OSError) as error:
            result.left += self._shut(error)

    @property
    def _look(self) -> HiddenLook:
        assert self.plan.hidden is not None
        return self.plan.hidden

    @contextlib.contextmanager
    def _opened(self, deadline: float) -> Iterator[Repository]:
        with (
            open_hidden(self.context, listener=self.listener) as repository,
            repository.lock(wait=max(0.0, deadline - time.monotonic())),
        ):
            yield repository

    def _half(self, history: HiddenHistory, now: TreeState) -> SecondHalf:
        undone = None
        if self.plan.undone is not None:
            undone = self._wanted_by_the_other(history)
        left = {
            os.fsdecode(path): Skipped(os.fsdecode(path), "not-kept", _words(reason), size=size)
            for path, (reason, _, size) in self._look.left.items()
        }
        return SecondHalf(
            history.of(self.then),
            now,
            history,
            BothContents(StoredContents(self.store), history),
            undone,
            self.overwrite_mine,
            left,
        )

    def _wanted_by_the_other(self, history: HiddenHistory) -> TreeState | None:
        """The hidden half as the rollback wanted it that is undone now."""
        points = self.store.checkpoints(self.plan.project)
        with contextlib.suppress(SafekeptError, StopIteration):
            return history.state(next(point for point in points if point.id == self.plan.undone))
        return None

    def _younger(self, more: RollbackPlan) -> list[str]:
        """What was changed while it was kept may be younger than the point."""
        moved = sorted({step.path for step in more.steps if step.places} & set(self.then.moved))
        return [f"{path} changed while it was kept, and may be younger than the checkpoint" for path in moved]

    def _shut(self, error: SafekeptError | OSError) -> list[Left]:
        """Everything that the visible half could not settle alone, by name, and why it did not come."""
        why = error.what if isinstance(error, SafekeptError) else error.strerror or str(error)
        names = {one.path for one in (*self.plan.gone, *self.plan.not_covered)}
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
    then = kept_looks(context, plan.project).of(plan.target)
    if then is None or plan.hidden is None:
        return None
    return HiddenRollback(context, store, plan, then, overwrite_mine, listener)


def _words(reason: str) -> str:
    return LEFT_WORDS.get(reason, reason.partition(": ")[2] or reason)
