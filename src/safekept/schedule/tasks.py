"""One piece of regular work, how it went so far, and when it is due again. Pure: the clock is an argument.

Work that failed is tried again after an hour, then after two, four, …, and in any case when its next
regular moment comes. Work that was only done in part is done for this time, but it is no success: what is
overdue is judged by successes alone.

Clocks jump. A success that lies in the future says that the clock was put back since: it counts for
nothing, and the work is due. Nothing is ever overdue by a moment in the future.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import Any

from safekept.core.ages import clock_of
from safekept.core.files.small import read_document, write_document
from safekept.core.records import dataclass

# At which moments regular work is due: times of the day where the machine is, or every hour. A moment is
# a number of seconds since 1970, so that a clock that is put forward or back for the summer changes
# nothing but the distance of two moments. A time of the day that does not exist that day (03:30 in
# Athens when summer begins) stands for the moment it would have been; one that exists twice is its
# first.

HOURLY = "hourly"
HOUR = 3600.0
_AROUND = range(-2, 3)  # days: no zone is further than that from where the date changes


@dataclass(frozen=True, slots=True)
class Cadence:
    """Times of the day as (hour, minute); none of them: every hour."""

    times: tuple[tuple[int, int], ...] = ((3, 30),)
    zone: datetime.tzinfo | None = None  # None: where this machine is

    @classmethod
    def parse(cls, text: str, zone: datetime.tzinfo | None = None) -> Cadence:
        """`03:30`, `3am`, `03:30, 15:30` or `hourly`. ValueError for anything else."""
        if text.strip() == HOURLY:
            return cls((), zone)
        found = []
        for part in text.split(","):
            if "." in part or (clock := clock_of(part)) is None:
                raise ValueError(f"not a time of the day: {part.strip()!r}")
            found.append(clock)
        return cls(tuple(sorted(set(found))), zone)

    def __str__(self) -> str:
        return ", ".join(f"{hour:02}:{minute:02}" for hour, minute in self.times) or HOURLY

    def next(self, moment: float) -> float:
        """The first of our moments after that one."""
        if not self.times:
            return (moment // HOUR + 1) * HOUR
        return min(slot for slot in self._around(moment) if slot > moment)

    def latest(self, moment: float) -> float:
        """The last of our moments that is not after that one."""
        if not self.times:
            return moment // HOUR * HOUR
        return max(slot for slot in self._around(moment) if slot <= moment)

    def _around(self, moment: float) -> list[float]:
        today = datetime.datetime.fromtimestamp(moment, self.zone).date()
        days = [today + datetime.timedelta(days=number) for number in _AROUND]
        return [
            datetime.datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone).timestamp()
            for day in days
            for hour, minute in self.times
        ]


# What is to be done how often: the settings `schedule.*` as plain values.

RUN, LIGHT, WAIT = "run", "light", "wait"
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person would choose: every night, and a drill now and then."""

    cadence: Cadence = field(default_factory=Cadence)  # snapshot, archive and push
    homes: tuple[str, ...] = ()  # empty: the home that is meant when no other is named
    archives: str = ""  # the directory of sealed archives
    keep: int = 14  # how many of them stay
    #: 0: never, here and below. Rarely: a prune repacks, and what is repacked is pushed again.
    prune_days: float = 30.0
    checkpoint_days: float = 7.0
    small_drill_days: float = 7.0
    drill_days: float = 91.0
    time_limit: float = 4 * 3600.0  # seconds for one run; 0: none
    overdue_hours: float = 48.0  # a home without a good snapshot for so long
    push_overdue_days: float = 7.0  # a destination that got nothing for so long
    battery: str = LIGHT  # on battery: everything, the snapshot only, or nothing
    metered: str = WAIT  # on a metered network: push all the same, or wait


SNAPSHOT = "snapshot"
ARCHIVE = "archive"
PUSH = "push"
PRUNE = "prune"
CHECKPOINTS = "checkpoints"
SMALL_DRILL = "small-drill"
DRILL = "drill"
#: The order of a run: the snapshot first, copies leave this machine before anything is deleted on it.
ORDER = (SNAPSHOT, ARCHIVE, PUSH, PRUNE, CHECKPOINTS, DRILL, SMALL_DRILL)

#: So far ahead of the clock a moment is believed: clocks are set right by seconds all the time.
AHEAD = 300.0
_LONGEST_PAUSE = 12 * HOUR
_SLACK = 12 * HOUR  # weekly work that ended at 04:00 is due at 03:30 a week later, not a night later


@dataclass(frozen=True, slots=True)
class Task:
    """What to do, and to what: `snapshot` of a home, `push` to a destination."""

    kind: str
    subject: str = ""
    every: float = 0.0  # seconds; 0: at each moment of the cadence
    limit: float = 0.0  # seconds without success after which it is overdue; 0: never
    again: bool = True  # whether it is tried again before its next night when it failed

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.subject}" if self.subject else self.kind


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What is known of a task; moments in seconds since 1970, 0 for never."""

    since: float = 0.0  # when it was first seen to be wanted
    tried: float = 0.0
    done: float = 0.0  # the last time it came to an end, whole or in part
    succeeded: float = 0.0
    failures: int = 0  # in a row
    error: str = ""  # the code of the last one
    text: str = ""  # and what happened, in a line
    told: float = 0.0  # when a notice of it was last sent
    told_of: str = ""  # and what it was: the code, or `incomplete`
    alarmed: float = 0.0  # when it was found overdue; 0: it is not


def wanted_from(past: TaskHistory, now: float) -> TaskHistory:
    """The same, known to be wanted from now on at the latest."""
    return past if past.since else replace(past, since=now)


def due_at(task: Task, past: TaskHistory, cadence: Cadence, now: float) -> float:
    """The moment from which the task may be done; a moment that is not after `now` means: now."""
    moment = _regular(task, past, cadence, now)
    if past.failures and 0 < past.tried <= now + AHEAD:
        pause = min(HOUR * 2 ** min(past.failures - 1, 10), _LONGEST_PAUSE)
        night = cadence.next(past.tried)
        moment = max(moment, min(past.tried + pause, night) if task.again else night)
    return moment


def _regular(task: Task, past: TaskHistory, cadence: Cadence, now: float) -> float:
    if past.done > now + AHEAD:
        return now
    if not task.every:
        return cadence.next(past.done) if past.done else now
    if past.done:
        slack = min(_SLACK, task.every / 4)
        return cadence.next(past.done + task.every - slack)
    # Never done: at the first regular moment after it was first wanted, not in the middle of the day.
    return now if not past.since or past.since > now + AHEAD else cadence.next(past.since)


def overdue_since(task: Task, past: TaskHistory, now: float) -> float:
    """The moment at which it became overdue; 0 where it is not."""
    known = past.succeeded or past.since
    if not task.limit or not known or known + task.limit >= now:
        return 0.0
    return known + task.limit


# What is remembered between two runs: one small file, replaced whole, and never a condition for working.
# A file that is missing, torn or of a later kind is an empty memory: everything is then due, which costs
# a run and loses nothing.

VERSION = 1


@dataclass(frozen=True, slots=True)
class StepNote:
    """How one piece of work of a run ended."""

    task: str
    state: str  # done, incomplete, failed, postponed, absent, out-of-time
    seconds: float = 0.0
    text: str = ""
    error: str = ""  # its code

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class RunNote:
    """How one run ended. A run that says `begun` and is not at work any more was cut off."""

    operation: str
    started: float
    state: str  # begun, done, incomplete, failed
    seconds: float = 0.0
    steps: tuple[StepNote, ...] = ()
    process: int = 0  # who works on it, while it is `begun`

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "steps": [step.as_dict() for step in self.steps]}


@dataclass(slots=True)
class ScheduleState:
    """All of it."""

    tasks: dict[str, TaskHistory] = field(default_factory=dict)
    run: RunNote | None = None  # the last one that had anything to do
    looked: float = 0.0  # when it was last looked whether anything is due
    slept: float = 0.0  # seconds that this machine had slept since its start, at that moment

    def past(self, name: str) -> TaskHistory:
        return self.tasks.get(name) or TaskHistory()


def read_state(path: str) -> ScheduleState:
    return read_document(path, _state, ScheduleState())


def _state(document: Mapping[str, Any]) -> ScheduleState:
    if document["version"] != VERSION:
        return ScheduleState()
    tasks = {str(name): _past(fields) for name, fields in document["tasks"].items()}
    looked, slept = (float(document.get(name) or 0.0) for name in ("looked", "slept"))
    return ScheduleState(tasks, _run(document.get("run")), looked, slept)


def write_state(path: str, state: ScheduleState) -> None:
    """OSError where it cannot be written; the caller decides what that is worth."""
    document = {
        "version": VERSION,
        "looked": state.looked,
        "slept": state.slept,
        "run": asdict(state.run) if state.run else None,
        "tasks": {name: asdict(past) for name, past in sorted(state.tasks.items())},
    }
    write_document(path, document)


def _past(fields: Mapping[str, object]) -> TaskHistory:
    known = asdict(TaskHistory())
    values = {name: fields[name] for name in known if name in fields}
    return TaskHistory(**{name: type(known[name])(value) for name, value in values.items()})


def _run(fields: Mapping[str, object] | None) -> RunNote | None:
    if not fields:
        return None
    steps = fields.get("steps")
    return RunNote(
        str(fields["operation"]),
        float(str(fields["started"])),
        str(fields["state"]),
        float(str(fields["seconds"])),
        tuple(StepNote(**step) for step in steps) if isinstance(steps, list) else (),
        int(str(fields.get("process") or 0)),
    )
