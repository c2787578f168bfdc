"""Who hears of a scheduled run, and when: of what is wrong, once, and of nothing else.

* Work that failed or was only done in part is reported once a night, or at once when it had succeeded since.
* A destination that fails, and a drill that fails, are alarms: raised when it begins, over when it ends well.
* So is what is overdue: judged after the run has done what it could, so that a machine that slept for a week
  and has just caught up says nothing.
* A healthchecks-style URL hears of every end, good or bad.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.ages import ago_text, minute_text
from safekept.core.events import Listener
from safekept.schedule import tasks
from safekept.schedule.tasks import DAY, Cadence, ScheduleState, StepNote, Task, TaskHistory, overdue_since

from ..alarms.alarms import DESTINATION, DRILL, OVERDUE, Alarm, end_alarms, open_alarms, raise_alarm
from ..alarms.notify import Notice, notify
from ..base.context import UserContext
from .steps import DONE, FAILED, INCOMPLETE, OUT_OF_TIME

if TYPE_CHECKING:
    from .run import Run

#: Work that can only be done in part is reported again after so long.
_REMIND = 7 * DAY
_HOMES = (tasks.SNAPSHOT, tasks.ARCHIVE, tasks.DRILL, tasks.SMALL_DRILL)
_DRILLS = (tasks.DRILL, tasks.SMALL_DRILL)


class RunAlarms:
    """What is reported of one run. Made before it works, so that it knows which alarms are new."""

    def __init__(
        self, context: UserContext, state: ScheduleState, now: float, listener: Listener, *, works: bool
    ) -> None:
        self._context, self._state, self._now, self._listener = context, state, now, listener
        targets = context.choices.notify
        self._beats = works and targets is not None and bool(targets.ping)
        self._before = {alarm.id for alarm in open_alarms(context)} if self._beats else set()

    def tell(self, wanted: Iterable[Task], run: Run, cadence: Cadence) -> None:
        """Notify; the state is changed where that is to be remembered."""
        by_name = {task.name: task for task in wanted}
        steps = {step.task: step for step in run.steps}
        for name, step in steps.items():
            self._alarms(by_name[name], step)
        self._failures(by_name, steps, cadence)
        for task in by_name.values():
            self._overdue(task, steps.get(task.name))
        self._forget_destinations(by_name)
        if self._beats and run.state != "idle":
            self._heartbeat(run)

    def _forget_destinations(self, by_name: Mapping[str, Task]) -> None:
        """A destination that is not in the settings any more raises no alarm."""
        for name in [one for one in self._state.tasks if one.startswith(f"{tasks.PUSH}:")]:
            if name not in by_name:
                del self._state.tasks[name]
                for kind in (OVERDUE, DESTINATION):
                    why = "it is not a destination any more"
                    end_alarms(self._context, kind, "", name, reason=why, listener=self._listener)

    def _alarms(self, task: Task, step: StepNote) -> None:
        """Destinations and drills: an alarm while it fails."""
        kind = DESTINATION if task.kind == tasks.PUSH else DRILL if task.kind in _DRILLS else ""
        if not kind:
            return
        home = task.subject if kind == DRILL else ""
        if step.state == DONE:
            end_alarms(self._context, kind, home, task.name, reason="it succeeded", listener=self._listener)
        elif step.state == FAILED and step.error == "drill-failed":
            return  # the drill itself has raised its alarm, with what to do about it
        elif step.state == FAILED and self._state.past(task.name).failures == 1:
            text = f"{_what(task)} failed: {step.text}"
            alarm = Alarm(time=self._now, home=home, kind=kind, text=text, about=task.name)
            raise_alarm(self._context, alarm, self._listener)

    def _failures(self, by_name: Mapping[str, Task], steps: Mapping[str, StepNote], cadence: Cadence) -> None:
        night = cadence.latest(self._now)
        news = []
        for name, step in steps.items():
            past = self._state.past(name)
            if step.state == DONE:
                self._state.tasks[name] = replace(past, told=0.0, told_of="")
                continue
            if by_name[name].kind in (tasks.PUSH, *_DRILLS) or step.state not in (
                FAILED,
                INCOMPLETE,
                OUT_OF_TIME,
            ):
                continue
            again = self._now - past.told >= _REMIND if step.state == INCOMPLETE else past.told < night
            # What a clock that was ahead wrote counts for nothing.
            if again or past.told > self._now or past.told_of != (step.error or step.state):
                news.append(name)
                told_of = step.error or step.state
                self._state.tasks[name] = replace(past, told=self._now, told_of=told_of)
        if not news:
            return
        lines = [f"{_what(by_name[name])}: {steps[name].state}: {steps[name].text}" for name in news]
        homes = {by_name[name].subject for name in news if by_name[name].kind in _HOMES}
        notice = Notice(
            "failure",
            f"safekept: {_what(by_name[news[0]])} {_ended(steps[news[0]])} on {os.uname().nodename}",
            "\n".join([*lines, "See: safekept schedule show"]),
            homes.pop() if len(homes) == 1 else "",
            {"steps": [steps[name].as_dict() for name in news]},
            self._now,
        )
        notify(self._context, notice, self._listener)

    def _overdue(self, task: Task, step: StepNote | None) -> None:
        past = self._state.past(task.name)
        home = task.subject if task.kind in _HOMES else ""
        if not overdue_since(task, past, self._now):
            if past.alarmed:
                why = "it was done"
                end_alarms(self._context, OVERDUE, home, task.name, reason=why, listener=self._listener)
                self._state.tasks[task.name] = replace(past, alarmed=0.0)
            return
        if past.alarmed:
            return
        text = _overdue_text(task, past, step, self._now)
        alarm = Alarm(time=self._now, home=home, kind=OVERDUE, text=text, about=task.name)
        raise_alarm(self._context, alarm, self._listener)
        self._state.tasks[task.name] = replace(past, alarmed=self._now)

    def _heartbeat(self, run: Run) -> None:
        """Also not good: an alarm that came up while it worked, such as fewer memories than last night."""
        new = [alarm for alarm in open_alarms(self._context) if alarm.id not in self._before]
        lines = [f"{step.task}: {step.state}: {step.text}" for step in run.steps]
        good = run.state == DONE and not new
        notice = Notice(
            "success" if good else "fail",
            f"safekept: {run.state} in {run.seconds:.0f} s",
            "\n".join([*lines, *(f"alarm: {alarm.text}" for alarm in new)]),
            time=self._now,
        )
        notify(self._context, notice, self._listener)


_WORDS = {
    tasks.SNAPSHOT: "the snapshot of {}",
    tasks.ARCHIVE: "the sealed archive of {}",
    tasks.PUSH: "the push to {}",
    tasks.PRUNE: "the prune of the vault",
    tasks.CHECKPOINTS: "the care for checkpoints",
    tasks.DRILL: "the drill of {}",
    tasks.SMALL_DRILL: "the small drill of {}",
}


def _what(task: Task) -> str:
    return _WORDS[task.kind].format(task.subject)


def _ended(step: StepNote) -> str:
    words = {INCOMPLETE: "is not complete", OUT_OF_TIME: "ran out of time"}
    return words.get(step.state, "failed")


def _overdue_text(task: Task, past: TaskHistory, step: StepNote | None, now: float) -> str:
    since = past.succeeded or past.since
    when = minute_text(since)
    last = f"last done well {when}" if past.succeeded else f"never done well since {when}"
    why = step.text if step is not None and step.text else past.text
    return f"{_what(task)} is overdue: {last}, {ago_text(since, now)}" + (f"; {why}" if why else "")
