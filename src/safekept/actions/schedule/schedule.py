"""Do what is due, unattended: once each, one run at a time. And: when was that, when is it again?

Nothing here reads a clock, a battery or a network by itself where a caller gives another.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.locks import process_lock
from safekept.core.processes.process import process_alive
from safekept.schedule.machine import Power, look
from safekept.schedule.tasks import RunNote, Task, TaskHistory, due_at, read_state, wanted_from, write_state

from ..base.context import UserContext
from .install import file_of
from .run import ClockNotSet, Run, Runner, plan_of
from .steps import RunRequest, tasks_of

__all__ = [
    "ClockNotSet",
    "Run",
    "RunRequest",
    "count_as_done",
    "last_run",
    "next_run",
    "plan_due",
    "run_due",
    "task_histories",
]


class NoPlaceForSchedule(SafekeptError):
    code, retry = "no-place-for-schedule", True


def run_due(
    context: UserContext,
    request: RunRequest | None = None,
    *,
    clock: Callable[[], float] = time.time,
    power: Callable[[], Power] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    listener: Listener = silent,
) -> Run:
    """Do what is due. Raises AlreadyRunning where another run is at work; a failed step raises nothing."""
    request = request or RunRequest()
    power = power or partial(look, path=context.caller.search_path or None)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(process_lock(file_of(context, "lock"), "scheduled work"))
        except OSError as error:
            raise _no_place(context, error) from error
        return Runner(context, request, clock, sleep, listener).run(power)


def _no_place(context: UserContext, error: OSError) -> NoPlaceForSchedule:
    return NoPlaceForSchedule(
        f"The data in `{context.places.data_directory}` cannot be used: {error.strerror or error}",
        kept="Nothing was done; what is due stays due",
        next_steps=("Mend its owner or its permissions, or make room there; then run it again",),
        path=context.places.data_directory,
    )


def count_as_done(context: UserContext, names: Sequence[str], now: float | None = None) -> None:
    """What a person just had done is not due again before its next regular moment.

    Only a memory: where it cannot be kept, or a run is at work, the work is done once more.
    """
    path, now = file_of(context, "state.json"), time.time() if now is None else now
    if not names or not os.path.isdir(os.path.dirname(path)):  # nothing happens by itself here
        return
    with contextlib.suppress(SafekeptError, OSError), process_lock(file_of(context, "lock"), "setup"):
        state = read_state(path)
        for name in names:
            known = wanted_from(state.past(name), now)
            state.tasks[name] = replace(
                known, tried=now, done=now, succeeded=now, failures=0, error="", text=""
            )
        write_state(path, state)


def plan_due(context: UserContext, request: RunRequest, now: float) -> list[tuple[Task, float]]:
    """Every regular piece of work and the moment from which it is due; for a dry run and for `show`."""
    plan, state = plan_of(context), read_state(file_of(context, "state.json"))
    return [
        (task, due_at(task, wanted_from(state.past(task.name), now), plan.cadence, now))
        for task in tasks_of(context, plan, request)
    ]


def last_run(context: UserContext) -> RunNote | None:
    """How the last run that had anything to do ended; `interrupted` where it was cut off."""
    run = read_state(file_of(context, "state.json")).run
    if run is not None and run.state == "begun" and not process_alive(run.process):
        return replace(run, state="interrupted")
    return run


def next_run(context: UserContext, now: float) -> float:
    """The moment at which something is due next; one that is not after `now`: at the next look."""
    return min(moment for _, moment in plan_due(context, RunRequest(), now))


def task_histories(context: UserContext) -> dict[str, TaskHistory]:
    """What is known of each piece of work, by its name: `snapshot:/home/ada/.hermes`."""
    return read_state(file_of(context, "state.json")).tasks
