"""One scheduled run, every step for itself.

A step that fails never keeps the next from being done: a dead destination leaves the snapshot as good as it
is. What may be tried again is tried again, in this run and in the next. What was done is written down after
every step, so that a run that is killed is gone on with and not begun again. The run ends within its time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.files import private_directory
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.schedule import tasks
from safekept.schedule.machine import Power, clocks
from safekept.schedule.tasks import (
    LIGHT,
    WAIT,
    Plan,
    RunNote,
    StepNote,
    Task,
    due_at,
    read_state,
    wanted_from,
    write_state,
)

from ..base.context import UserContext
from ..base.operations.care import ScheduleFacts
from ..base.record import error_facts, record
from .alarms import RunAlarms
from .install import file_of
from .steps import (
    ABSENT,
    DONE,
    FAILED,
    INCOMPLETE,
    OUT_OF_TIME,
    POSTPONED,
    Ended,
    RunRequest,
    Work,
    absent,
    perform,
    tasks_of,
)

# Work that ends when its time is over, in good order: as if the process had been asked to end. An
# alarm signal raises OutOfTime on the main thread, so every `finally` on the way out runs, exactly as it
# does when the process is asked to end. It is no `Exception`: nothing that forgives errors may swallow
# it. It may come between any two instructions, so what it interrupted is not gone on with in the same
# process.


class OutOfTime(BaseException):
    """The time that was given to a piece of work is over."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime inside the block once so much time is over; 0 or less: never.

    Only the main thread can be reached that way; elsewhere the block has no limit. A timer that ran before
    goes on afterwards with what was left of it.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = True

    def ring(number: int, frame: FrameType | None) -> None:
        if waiting:
            raise OutOfTime

    def dropped(what: sys.UnraisableHookArgs) -> None:
        # Python drops what is raised in a destructor or in the callback of a weak reference.
        if what.exc_type is OutOfTime and waiting:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
        else:
            hook(what)

    began = time.monotonic()
    hook, sys.unraisablehook = sys.unraisablehook, dropped
    before = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            yield
        finally:
            waiting = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.01), interval)


IDLE = "idle"
#: A clock that says less was not set since the machine started: nothing is dated by it.
CLOCK_FLOOR = 1_700_000_000.0
#: Seconds before a second and a third try.
_PAUSES = (30.0, 120.0)
_BAD = (FAILED, OUT_OF_TIME)


class ClockNotSet(SafekeptError):
    code, retry = "clock-not-set", True


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did. `idle`: nothing was due, or all of it waits for mains or another network."""

    operation: str
    started: float
    state: str  # idle, done, incomplete, failed
    seconds: float
    steps: tuple[StepNote, ...]
    next: float  # when something is due again

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "started": self.started,
            "state": self.state,
            "seconds": round(self.seconds, 3),
            "steps": [step.as_dict() for step in self.steps],
            "next": self.next,
        }


def plan_of(context: UserContext) -> Plan:
    return context.choices.schedule or Plan()


class Runner:
    """One run, under the lock."""

    def __init__(
        self,
        context: UserContext,
        request: RunRequest,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        listener: Listener,
    ) -> None:
        self._context, self._request = context, request
        self._clock, self._sleep, self._listener = clock, sleep, listener
        self._plan, self._path = plan_of(context), file_of(context, "state.json")
        self._state = read_state(self._path)
        self._operation, self._began, self._started = new_id(), time.monotonic(), clock()

    def run(self, power: Callable[[], Power]) -> Run:
        now = self._started
        if now < CLOCK_FLOOR:
            raise ClockNotSet(
                f"The clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}, so it was not set yet",
                kept="Nothing was done; what is due stays due",
                next_steps=("Set the clock; the next run does what is due",),
            )
        wanted = tasks_of(self._context, self._plan, self._request)
        # What belongs to other homes stays: a run may be for one of several.
        self._state.tasks |= {task.name: wanted_from(self._state.past(task.name), now) for task in wanted}
        self._state.looked, self._state.slept = now, clocks()[1]
        due = [task for task in wanted if self._request.everything or self._due(task) <= now]
        doable, waiting = self._possible(_without_small_drills(due), power) if due else ([], [])
        steps = list(waiting)
        telling = RunAlarms(self._context, self._state, now, self._listener, works=bool(doable))
        if doable:
            with self._noted():
                steps += self._do(doable)
        ended = self._ended(steps)
        telling.tell(wanted, ended, self._plan.cadence)
        self._save()
        return ended

    def _due(self, task: Task) -> float:
        return due_at(task, self._state.past(task.name), self._plan.cadence, self._started)

    def _possible(self, due: list[Task], power: Callable[[], Power]) -> tuple[list[Task], list[StepNote]]:
        facts, doable, waiting = power(), [], []
        for task in due:
            rule = self._plan.battery if facts.battery else "run"
            if rule == WAIT or (rule == LIGHT and task.kind != tasks.SNAPSHOT):
                waiting.append(StepNote(task.name, POSTPONED, text="it waits for mains"))
            elif task.kind == tasks.PUSH and facts.metered and self._plan.metered == WAIT:
                waiting.append(StepNote(task.name, POSTPONED, text="it waits for a network without a meter"))
            elif task.kind == tasks.PUSH and absent(self._context, task.subject):
                waiting.append(StepNote(task.name, ABSENT, text="the disk is not there"))
            else:
                doable.append(task)
        return doable, waiting

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """The run is visible while it works, and however it ends."""
        from ..alarms.notify import Notice, notify

        self._state.run = RunNote(self._operation, self._started, "begun", process=os.getpid())
        self._save()
        self._record("begun", {})
        notify(self._context, Notice("start", "safekept: a run begins"), self._listener)
        try:
            yield
        except BaseException as error:
            seconds = round(time.monotonic() - self._began, 3)
            self._record("interrupted", {"seconds": seconds, "error": error_facts(error)})
            raise

    def _do(self, doable: list[Task]) -> list[StepNote]:
        notes: list[StepNote] = []
        for number, task in enumerate(doable):
            left = self._time_left()
            # Work that was ended in the middle may have left threads and locks in this process. They end
            # with it, so the rest is done by the next one, which looks in within the hour.
            if left <= 0 or any(note.state == OUT_OF_TIME for note in notes):
                notes.append(StepNote(task.name, POSTPONED, text="the time was over; the next run does it"))
                continue
            # The snapshot may take what there is; of the rest no step may starve the others.
            share = left if task.kind == tasks.SNAPSHOT else left / (len(doable) - number)
            self._listener(Event("schedule", number, len(doable), "steps", path=task.name))
            note = self._step(task, share)
            notes.append(note)
            self._remember(task, note)
        return notes

    def _time_left(self) -> float:
        limit = self._plan.time_limit
        return limit - (time.monotonic() - self._began) if limit else float("inf")

    def _step(self, task: Task, share: float) -> StepNote:
        began = time.monotonic()
        try:
            with time_limit(share if share != float("inf") else 0.0):
                ended = self._tries(task)
        except OutOfTime:
            text = f"it was not done within {share:,.0f} s; the next run goes on"
            ended = Ended(OUT_OF_TIME, text, "out-of-time")
        return StepNote(task.name, ended.state, time.monotonic() - began, ended.text, ended.error)

    def _tries(self, task: Task) -> Ended:
        for pause in (*_PAUSES[: self._request.tries - 1], None):
            work = Work(self._context, self._plan, self._request, self._clock(), self._listener)
            try:
                return perform(work, task)
            except SafekeptError as error:
                if not error.retry or pause is None:
                    return Ended(FAILED, error.what, error.code)
                self._listener(Event("schedule", text=f"Note: {task.name}: {error.clause}; trying again"))
            except Exception as error:  # one bad step never keeps the others from being done
                return Ended(FAILED, f"{type(error).__name__}: {error}", "unexpected")
            self._sleep(pause)
        raise AssertionError("unreachable")

    def _remember(self, task: Task, note: StepNote) -> None:
        now, past = self._clock(), self._state.past(task.name)
        past = replace(past, tried=now)
        if note.state == DONE:
            past = replace(past, done=now, succeeded=now, failures=0, error="", text="")
        elif note.state == INCOMPLETE:
            past = replace(past, done=now, failures=0, error=note.error, text=note.text)
        elif note.state in (*_BAD, ABSENT):
            past = replace(past, failures=past.failures + 1, error=note.error, text=note.text)
        self._state.tasks[task.name] = past
        small = Task(tasks.SMALL_DRILL, task.subject).name
        if task.kind == tasks.DRILL and note.state == DONE and small in self._state.tasks:
            # A full drill proves what a small one would.
            self._state.tasks[small] = replace(self._state.tasks[small], done=now, succeeded=now, failures=0)
        self._save()

    def _ended(self, steps: list[StepNote]) -> Run:
        states = {step.state for step in steps}
        worked = states - {POSTPONED, ABSENT}
        snapshots = [step for step in steps if step.task.startswith(tasks.SNAPSHOT)]
        state = DONE if worked else IDLE
        if states & {INCOMPLETE, FAILED, OUT_OF_TIME}:
            state = INCOMPLETE
        if any(step.state in _BAD for step in snapshots):
            state = FAILED
        seconds = time.monotonic() - self._began
        run = Run(self._operation, self._started, state, seconds, tuple(steps), self._next())
        if state != IDLE:
            self._state.run = RunNote(self._operation, self._started, state, round(seconds, 3), run.steps)
            facts = {"seconds": round(seconds, 3), "steps": [step.as_dict() for step in steps]}
            self._record(state, facts)
        return run

    def _next(self) -> float:
        now = self._clock()
        wanted = tasks_of(self._context, self._plan, self._request)
        return min(due_at(one, self._state.past(one.name), self._plan.cadence, now) for one in wanted)

    def _record(self, state: str, facts: dict[str, object]) -> None:
        work = ScheduleFacts()
        work.add(facts)
        entry = replace(work.line(self._operation, state), time=self._clock())
        record(self._context, entry, self._listener)

    def _save(self) -> None:
        try:
            private_directory(os.path.dirname(self._path))
            write_state(self._path, self._state)
        except OSError as error:
            text = f"Note: what was done cannot be remembered in {self._path}: {error.strerror or error}"
            self._listener(Event("schedule", text=text))


def _without_small_drills(due: list[Task]) -> list[Task]:
    full = {task.subject for task in due if task.kind == tasks.DRILL}
    return [task for task in due if task.kind != tasks.SMALL_DRILL or task.subject not in full]
