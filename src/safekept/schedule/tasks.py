"""One piece of regular work, how it went so far, and when it is due again. Pure: the clock is an argument.

Work that failed is tried again after an hour, then after two, four, …, and in any case when its next
regular moment comes. Work that was only done in part is done for this time, but it is no success: what is
overdue is judged by successes alone.

Clocks jump. A success that lies in the future says that the clock was put back since: it counts for
nothing, and the work is due. Nothing is ever overdue by a moment in the future.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .cadence import HOUR, Cadence

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
class Past:
    """What is known of a task; moments in seconds since 1970, 0 for never."""

    since: float = 0.0  # when it was first seen to be wanted
    tried: float = 0.0
    done: float = 0.0  # the last time it came to an end, whole or in part
    succeeded: float = 0.0
    failures: int = 0  # in a row
    error: str = ""  # the code of the last one
    text: str = ""  # and what happened, in a line
    told: float = 0.0  # when somebody was last told of it
    told_of: str = ""  # and what it was: the code, or `incomplete`
    alarmed: float = 0.0  # when it was found overdue; 0: it is not


def seen(past: Past, now: float) -> Past:
    """The same, known to be wanted from now on at the latest."""
    return past if past.since else replace(past, since=now)


def due_at(task: Task, past: Past, cadence: Cadence, now: float) -> float:
    """The moment from which the task may be done; a moment that is not after `now` means: now."""
    moment = _regular(task, past, cadence, now)
    if past.failures and 0 < past.tried <= now + AHEAD:
        pause = min(HOUR * 2 ** min(past.failures - 1, 10), _LONGEST_PAUSE)
        night = cadence.next(past.tried)
        moment = max(moment, min(past.tried + pause, night) if task.again else night)
    return moment


def _regular(task: Task, past: Past, cadence: Cadence, now: float) -> float:
    if past.done > now + AHEAD:
        return now
    if not task.every:
        return cadence.next(past.done) if past.done else now
    if past.done:
        slack = min(_SLACK, task.every / 4)
        return cadence.next(past.done + task.every - slack)
    # Never done: at the first regular moment after it was first wanted, not in the middle of the day.
    return now if not past.since or past.since > now + AHEAD else cadence.next(past.since)


def overdue_since(task: Task, past: Past, now: float) -> float:
    """The moment at which it became overdue; 0 where it is not."""
    known = past.succeeded or past.since
    if not task.limit or not known or known + task.limit >= now:
        return 0.0
    return known + task.limit
