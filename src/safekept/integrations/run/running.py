"""An agent from the checkpoint before it to the account after it.

Nothing runs unprotected by accident: where the project cannot be kept, the agent is not started unless
that was asked for. What it does with its terminal, its signals and its exit status is its own; nothing is
said while it runs, and nothing that it does to the project or to us ends it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import field

from safekept.actions.base.context import HomeRef, UserContext
from safekept.actions.base.operations.projects import RunFacts
from safekept.actions.base.record import error_facts, record, recording
from safekept.actions.projects.checkpoint import CheckpointPolicy
from safekept.actions.projects.run_account import RunAccount, account_of_run, mark_end_of_run
from safekept.core.errors import SafekeptError, clause
from safekept.core.events import Listener, silent
from safekept.core.files.small import read_regular
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step
from safekept.core.processes.foreground import Ended, find_program, run_in_foreground, terminal_kept
from safekept.core.records import dataclass

from .watcher_process import WatcherLost, WatcherProcess


class RunNotProtected(SafekeptError):
    code = "run-not-protected"


class _NotKept(Exception):
    """There is no first checkpoint, for this reason."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run, and what is kept of it."""

    command: tuple[str, ...]
    project: str  # resolved
    policy: CheckpointPolicy
    quiet: float = 2.0  # seconds without a change after which a moment is quiet
    place: HomeRef | None = None  # a home to take a snapshot of first
    anyway: bool = False  # run it even where nothing can be kept
    settings_file: str = ""  # ours, to see whether the agent left it alone
    home: str = ""  # as given: whose rules for checkpoints hold
    layout: str = ""
    refusal: SafekeptError | None = None  # why this is no project

    @property
    def agent(self) -> str:
        return os.path.basename(self.command[0]) or self.command[0]


@dataclass(slots=True)
class Ran:
    """What happened, from the first checkpoint to the last mark."""

    operation: str
    request: RunRequest
    facts: RunFacts  # what the journal says of it, and the report
    first: str = ""  # the checkpoint before it started; "" where there is none
    snapshot: str = ""  # of the home, where one was asked for
    no_snapshot: str = ""  # why there is none, although it was asked for
    problem: SafekeptError | None = None  # why it is not protected, and ran anyway
    ended: Ended | None = None
    watch: dict[str, object] = field(default_factory=dict)
    unwatched: str = ""  # why the watch did not last to the end
    account: RunAccount | None = None
    unread: str = ""  # why there is no account
    settings_touched: str = ""  # "changed" or "gone", where our own settings are not as they were

    def texts(self, name: str) -> list[str]:
        found = self.watch.get(name)
        return [str(one) for one in found] if isinstance(found, list) else []

    @property
    def failures(self) -> list[dict[str, object]]:
        found = self.watch.get("failures")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def run_agent(
    context: UserContext,
    request: RunRequest,
    listener: Listener = silent,
    *,
    protected: Callable[[Ran], Listener] = lambda ran: silent,
    ended: Callable[[Ran], Listener] = lambda ran: silent,
) -> Ran:
    """Keep, watch and run. `protected` and `ended` are called between the phases, for a face to speak.

    Each of them gives the listener for what follows. Raises CommandNotFound, CommandNotExecutable or
    RunNotProtected where the agent was not started.
    """
    find_program(request.command[0], context.caller.search_path)
    operation, began = new_id(), time.monotonic()  # the operation is the session of its points
    work = RunFacts(project=request.project, command=request.agent, session=operation)
    ran = Ran(operation, request, work)
    record(context, work.line(ran.operation, "begun"), listener)
    with recording(context, ran.operation, work, listener):
        settings_before = _digest(request.settings_file)
        watcher = _protect(context, ran, listener)
        try:
            work.checkpoint, work.snapshot = ran.first or None, ran.snapshot or None
            listener = protected(ran)
            with terminal_kept():
                ran.ended = run_in_foreground(request.command)
            work.status, work.command_seconds = ran.ended.status, round(ran.ended.seconds, 3)
            settings_after = _digest(request.settings_file)
            if settings_after != settings_before and settings_before:
                ran.settings_touched = "changed" if settings_after else "gone"
            listener = ended(ran)
            _after(context, ran, watcher, listener)
        finally:
            if watcher is not None:
                watcher.close()
    if ran.account is not None:
        changes = ran.account.changes
        work.points, work.files = len(ran.account.rows), changes.files if changes else None
        work.missing = len(ran.account.missing)
    missed = [{"what": text} for text in (ran.unwatched, ran.no_snapshot) if text]
    if ran.failures or missed:
        work.problems = (*ran.failures, *missed)
    work.seconds = round(time.monotonic() - began, 3)
    whole = ran.first and not (ran.failures or missed or ran.unread)
    lost = ran.account is not None and ran.account.missing
    state = "done" if whole and not lost else "incomplete"
    record(context, work.line(ran.operation, state), listener)
    return ran


def _protect(context: UserContext, ran: Ran, listener: Listener) -> WatcherProcess | None:
    """The snapshot, the watch and the first checkpoint; None where it runs without them."""
    request = ran.request
    watcher: WatcherProcess | None = None
    try:
        if request.refusal is not None:
            raise request.refusal
        if request.place is not None:
            _take_snapshot(context, ran, request.place, listener)
        watcher = WatcherProcess(
            {
                "project": request.project,
                "session": ran.operation,
                "agent": request.agent,
                "quiet": request.quiet,
                "home": request.home,
                "layout": request.layout,
            },
            context.caller.environment,
        )
        ran.watch = watcher.ready(listener)
        points = ran.texts("points")
        if not ran.watch.get("kept") or not points:
            raise _NotKept(_reason(ran))
        ran.first = points[0]
    except BaseException as error:
        if watcher is not None:
            watcher.close(patience=0.5)
        ran.problem = _problem(request, error)
        if ran.problem is None:
            raise
        if not request.anyway:
            raise ran.problem from (error if error is not ran.problem else None)
        return None
    return watcher


def _problem(request: RunRequest, error: BaseException) -> SafekeptError | None:
    """What it means for the agent; None for Ctrl-C and the like, which mean what they mean."""
    if isinstance(error, RunNotProtected):
        return error
    if isinstance(error, _NotKept):
        return _not_protected(request, str(error))
    if isinstance(error, WatcherLost):
        return _not_protected(request, "the process that watches ended at once")
    if isinstance(error, SafekeptError | OSError):
        return _not_protected(request, str(error_facts(error)["what"]), getattr(error, "next_steps", ()))
    return None


def _after(context: UserContext, ran: Ran, watcher: WatcherProcess | None, listener: Listener) -> None:
    """The last mark, then what it all came to."""
    request = ran.request
    if watcher is None:
        return
    try:
        try:
            ran.watch = watcher.end(listener)
        except WatcherLost:
            ran.unwatched = "the process that watches was ended while the agent ran"
            mark_end_of_run(
                context,
                request.project,
                ran.operation,
                f"after {request.agent}",
                settings=request.policy.take,
            )
        ran.account = account_of_run(
            context,
            request.project,
            ran.operation,
            ran.texts("points"),
            settings=request.policy.take,
            listener=listener,
        )
    except (SafekeptError, OSError, KeyboardInterrupt) as error:
        # Ctrl-C ends the look at what changed, and nothing else: the agent has ended, with its own status.
        ran.unread = str(error_facts(error)["what"])


def _take_snapshot(context: UserContext, ran: Ran, place: HomeRef, listener: Listener) -> None:
    """Of the home. One that is not to be had is no reason to leave the project unprotected, too."""
    request = ran.request
    try:
        ran.snapshot = _snapshot(context, place, request.agent, listener)
    except (SafekeptError, OSError) as error:
        why = clause(str(error_facts(error)["what"]))
        if request.anyway:
            ran.no_snapshot = why
            return
        raise RunNotProtected(
            f"No snapshot of the home could be taken before the agent starts: {why}",
            kept=f"`{request.agent}` was not started; the home was only read",
            next_steps=(
                *getattr(error, "next_steps", ()),
                NextStep("run", ("--", "AGENT"), before="Run it without one, with the project kept:"),
            ),
            home=place.home,
        ) from error


def _snapshot(context: UserContext, place: HomeRef, agent: str, listener: Listener) -> str:
    from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
    from safekept.home.scan import Selection

    wanted = SnapshotRequest(place, "quick", f"before {agent}"[:40], Selection(quick=True))
    return create_snapshot(context, wanted, listener).id


def _reason(ran: Ran) -> str:
    for one in ran.failures:
        return str(one["what"])
    notices = ran.texts("notices")
    return notices[0] if notices else "the project could not be read"


def _not_protected(request: RunRequest, why: str, steps: tuple[Step, ...] = ()) -> RunNotProtected:
    return RunNotProtected(
        f"`{request.project}` cannot be kept as it is before the agent starts: {why}",
        kept=f"`{request.agent}` was not started; the project was only read",
        next_steps=(
            *steps,
            NextStep("checkpoint status", before="See what keeps checkpoints from being taken:"),
            NextStep("run", ("--anyway", "--", "AGENT"), before="Run it without a way back, if you must:"),
        ),
        project=request.project,
    )


def _digest(path: str) -> str:
    """What is in a file; "" where there is none."""
    try:
        return hashlib.sha256(read_regular(path, 64 << 20)).hexdigest()
    except OSError:
        return ""
