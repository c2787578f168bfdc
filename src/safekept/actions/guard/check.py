"""After a guarded command: the check, what is brought back unasked, and who is notified.

Whatever goes wrong here, the command has run: it is reported, and never raised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from safekept.core.entries import EntryLost, Outcome
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.spelling import shown
from safekept.core.sqlite.capture import CaptureOptions
from safekept.home.census import LARGEST
from safekept.home.health import HomeLoss, Recorded, Shrinkage, examine

from ..alarms.alarms import LOSS, Alarm, end_losses, raise_alarm
from ..alarms.loss_alarm import pin_for_a_while
from ..alarms.ways_back import restore_command
from ..base.context import UserContext
from ..base.scratch import copies_directory
from ..snapshots.create import SnapshotResult
from .guard_types import Guarded
from .pre_update import problem_of

if TYPE_CHECKING:
    from safekept.vault.format import Node, Snapshot
    from safekept.vault.read import HomeSource

    from ..restoring.prepared import LandingResult


# What a snapshot holds, for the health check: the vault is opened only when something has to be
# compared.


class StoredSnapshotState:
    """Reads files of one snapshot. Close it."""

    def __init__(self, context: UserContext, snapshot: Snapshot, listener: Listener = silent) -> None:
        self._context, self._snapshot, self._listener = context, snapshot, listener
        self._stack = contextlib.ExitStack()
        self._source: HomeSource | None = None
        self.problem: SafekeptError | None = None  # why the vault cannot be read

    def data(self, path: str) -> bytes | None:
        node = self._node(path)
        if node is None or node.type != "file" or node.size > LARGEST or self._source is None:
            return None
        try:
            with self._source.content(path, node) as content:
                return b"".join(content.chunks())
        except EntryLost:
            return None

    def owner(self, path: str) -> tuple[int, int] | None:
        node = self._node(path)
        return None if node is None else (node.uid, node.gid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _node(self, path: str) -> Node | None:
        try:
            source = self._opened()
            return source.node(path) if source is not None else None
        except SafekeptError:
            return None

    def _opened(self) -> HomeSource | None:
        if self._source is None and self.problem is None:
            from safekept.vault.read import snapshot_source

            from ..snapshots.stored_home import reading
            from ..vault.opening import open_vault

            try:
                repository = self._stack.enter_context(open_vault(self._context, listener=self._listener))
                self._stack.enter_context(reading(repository, self._listener))
                self._source = snapshot_source(repository, self._snapshot)[0]
            except SafekeptError as error:
                self.problem = error
        return self._source


#: So many findings are named in one line.
_NAMED = 3


def after(context: UserContext, guarded: Guarded, recorded: Recorded | None, listener: Listener) -> None:
    """The check and what follows from it; `guarded` is filled in."""
    if guarded.snapshot is None or recorded is None:
        guarded.unchecked = "there is no snapshot to compare with"
        return
    try:
        _check(context, guarded, guarded.snapshot, recorded, listener)
        if guarded.findings:
            _bring_back(context, guarded, guarded.snapshot, listener)
            _tell(context, guarded, guarded.snapshot, listener)
    except KeyboardInterrupt:
        guarded.interrupted = True
        guarded.unchecked = "the check was interrupted"
    except (SafekeptError, OSError) as error:
        guarded.unchecked = error.clause if isinstance(error, SafekeptError) else str(error)


def _check(
    context: UserContext,
    guarded: Guarded,
    taken: SnapshotResult,
    recorded: Recorded,
    listener: Listener,
) -> None:
    options = CaptureOptions(
        scratch=_scratch(context),
        deadline=guarded.request.deadline,
        isolated=guarded.request.isolated,
    )
    listener(Event("check"))
    with StoredSnapshotState(context, taken.snapshot, listener) as stored:
        health = examine(guarded.request.place.layout, recorded, stored, options, listener)
        if stored.problem is not None:
            health.notes.append(f"the snapshot could not be read to compare: {stored.problem.clause}")
    guarded.health = health


def _scratch(context: UserContext) -> str:
    try:
        return copies_directory(context, context.places.cache_directory)
    except OSError:
        return context.places.data_directory  # a full disk: what needs a copy says that there is no room


def _bring_back(context: UserContext, guarded: Guarded, taken: SnapshotResult, listener: Listener) -> None:
    sure = [one for one in guarded.findings if one.unambiguous and one.restore_paths]
    if not guarded.request.auto_restore or not sure:
        return
    from ..restoring.restore import RestoreRequest, prepare_restore

    request = RestoreRequest(
        taken.id,
        tuple(dict.fromkeys(path for one in sure for path in one.restore_paths)),
        home=guarded.request.place.home,
        deadline=guarded.request.deadline,
        keep_days=guarded.request.keep_days,
    )
    try:
        if guarded.request.bring_back is not None:
            guarded.undo, missed = guarded.request.bring_back(request)
        else:
            with prepare_restore(context, request, listener) as prepared:
                done = prepared.carry_out(listener)
            guarded.undo, missed = done.operation, not_brought_back(done)
    except SafekeptError as error:
        guarded.problem = problem_of(error)
        return
    guarded.restored = [one for one in sure if not missed.intersection(one.restore_paths)]


def not_brought_back(done: LandingResult) -> set[str]:
    """What a restore could not bring back."""
    return {path for path, _ in done.lost} | {
        one.path for one in done.landed.remarks if one.outcome is Outcome.UNREADABLE
    }


def _tell(context: UserContext, guarded: Guarded, taken: SnapshotResult, listener: Listener) -> None:
    """An alarm, and the snapshot stays for 30 days; over at once where all of it is back already."""
    from ..vault.opening import open_vault

    pinned: set[str] = set()
    try:
        with open_vault(context, listener=listener) as repository:
            pinned = pin_for_a_while(repository, [taken.id], listener)
    except SafekeptError as error:
        listener(Event("alarm", text=f"Note: the snapshot was not pinned: {error.clause}"))
    left = [one for one in guarded.findings if one not in guarded.restored]
    named = left or guarded.findings
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    paths = restore_paths(named)
    whole = any(one.whole for one in named)
    commands = [one.fix for one in named if one.fix]
    if paths or whole:
        home = guarded.request.place.home
        commands.insert(0, restore_command(context, home, taken.id, () if whole else paths))
    by_counts = all(one.losses for one in named)
    alarm = Alarm(
        home=guarded.request.place.home,
        kind=LOSS,
        text=f"after `{guarded.request.shown}`: {'; '.join(shown(one.text) for one in named[:_NAMED])}{more}",
        restore=tuple(commands),
        pinned=taken.id if taken.id in pinned else "",
        about="" if by_counts else "guard",
        losses=_together(loss for one in named for loss in one.losses),
        paths=() if whole else paths,
    )
    raise_alarm(context, alarm, listener=silent)  # the report says it at once, and better
    guarded.alarm = alarm
    if not left:
        end_losses(context, [alarm], taken.id, listener)


def _together(losses: Iterable[Shrinkage]) -> tuple[Shrinkage, ...]:
    """One for each class, as the next snapshot counts it: two files of one class are one fall."""
    found: dict[tuple[str, str], Shrinkage] = {}
    for one in losses:
        before = found.get((one.profile, one.name))
        left = one.after if before is None else max(0, before.after - (one.before - one.after))
        found[one.profile, one.name] = replace(one, after=left)
    return tuple(found.values())


def restore_paths(findings: list[HomeLoss]) -> tuple[str, ...]:
    """What brings all of them back, each path once."""
    return tuple(dict.fromkeys(path for one in findings for path in one.restore_paths))
