"""A risky command between a snapshot and a health check: whatever it breaks is named, with the way back.

Nothing runs unprotected by accident: where the snapshot failed, the command is not run unless that was
asked for. What the command does with its terminal, its signals and its exit status is its own; the check
comes after it whatever became of it, reads only what changed, and never changes the home by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from safekept.core.errors import SafekeptError, clause
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.processes.foreground import Ended, find_program, run_in_foreground
from safekept.home.health import Recorded

from ..base.context import UserContext
from ..base.operations.care import GuardFacts
from ..base.record import record, recording
from .check import after
from .guard_types import Guarded, GuardRequest
from .pre_update import DONE, FAILED, Protection, protect_before


class NotProtected(SafekeptError):
    code = "not-protected"


def guard(
    context: UserContext,
    request: GuardRequest,
    listener: Listener = silent,
    *,
    protected: Callable[[Protection], None] = lambda protection: None,
    ended: Callable[[Ended], None] = lambda end: None,
) -> Guarded:
    """Protect, run, check. `protected` and `ended` are called between the phases, for a face to speak.

    Raises CommandNotFound, CommandNotExecutable or NotProtected where the command was not run.
    """
    find_program(request.command[0], context.caller.search_path)
    with guarding(context, request, listener, protected=protected) as guarded:
        guarded.ended = run_in_foreground(request.command)
        ended(guarded.ended)
    return guarded


@contextlib.contextmanager
def guarding(
    context: UserContext,
    request: GuardRequest,
    listener: Listener = silent,
    *,
    protected: Callable[[Protection], None] = lambda protection: None,
    check_raised: bool = False,
) -> Iterator[Guarded]:
    """The same around anything: what stands in the `with` block says by `ended` how it went.

    What the block raises passes through; with `check_raised` the home is checked before that all the same.
    """
    operation, home, began = new_id(), request.place.home, time.monotonic()
    work = GuardFacts(home=home, command=request.shown, kind=request.chosen_kind)
    record(context, work.line(operation, "begun"), listener)
    raised: BaseException | None = None
    with recording(context, operation, work, listener):
        protection, recorded = _protect(context, request, listener)
        work.protection = protection.outcome
        if protection.snapshot is not None:
            work.snapshot = protection.snapshot.id
        protected(protection)
        if protection.outcome == FAILED and not request.anyway:
            raise _not_protected(protection, request)
        guarded = Guarded(operation, request, protection, Ended(0), work)
        try:
            yield guarded
        except BaseException as error:
            if not check_raised:
                raise
            raised = error
            work.raised = type(error).__name__
        work.status, work.command_seconds = guarded.ended.status, round(guarded.ended.seconds, 3)
        after(context, guarded, recorded, listener)
    if guarded.health is not None:
        work.findings = tuple(one.as_dict() for one in guarded.findings)
        work.notes = tuple(guarded.health.notes)
    if guarded.unchecked:
        work.unchecked = guarded.unchecked
    if guarded.restored:
        work.restored, work.restore = tuple(one.path for one in guarded.restored), guarded.undo
    work.seconds = round(time.monotonic() - began, 3)
    whole = guarded.health is not None and not guarded.findings
    state = "done" if whole or protection.outcome != DONE else "incomplete"
    record(context, work.line(operation, state), listener)
    if raised is not None:
        raise raised


def _protect(
    context: UserContext, request: GuardRequest, listener: Listener
) -> tuple[Protection, Recorded | None]:
    protection = protect_before(
        context,
        request.place,
        request.chosen_kind,
        request.backup,
        mode=request.mode,
        keep=request.keep,
        label=request.label,
        selection=request.selection,
        check="recent",
        deadline=request.deadline,
        isolated=request.isolated,
        listener=listener,
    )
    taken = protection.snapshot
    if taken is None:
        return protection, None
    try:
        return protection, taken.seen.recorded(taken.census, taken.databases)
    except OSError:
        return protection, None  # the home went away at this very moment


def _not_protected(protection: Protection, request: GuardRequest) -> NotProtected:
    first = protection.problems[0] if protection.problems else {}
    steps, why = first.get("next"), clause(str(first.get("what", "for an unknown reason")))
    return NotProtected(
        f"No {protection.kind} snapshot could be taken: {why}",
        kept=f"`{request.shown}` was not run; the home {request.place.home} was only read",
        next_steps=(
            *(str(step) for step in (steps if isinstance(steps, list) else [])),
            NextStep(
                "guard", ("--anyway", "--", "COMMAND"), before="Run it without a snapshot, if you must:"
            ),
        ),
        problems=list(protection.problems),
        home=request.place.home,
    )
