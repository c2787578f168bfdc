"""Alarms: what a person must hear of, later too, until they acknowledge it.

An alarm is a line of the journal, so it outlives the command that raised it, and a notification. It is open
until it is acknowledged or over: a later snapshot counts again what was lost, a late backup came.
Raising one never fails and never changes the outcome of the work that noticed it.

Verbs of the journal, all with the state `done`: `alarm` (raised or renewed; the operation is the alarm's id),
`alarm-acknowledged` and `alarm-over` (fact `alarms`: the ids).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import field, replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import Record, new_id, open_journal
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.health import Shrinkage

from ..base.context import UserContext
from ..base.record import record

LOSS, OVERDUE, DRILL, DESTINATION = "loss", "overdue", "drill", "destination"
KINDS = (LOSS, OVERDUE, DRILL, DESTINATION)

RAISED, ACKNOWLEDGED, OVER = "alarm", "alarm-acknowledged", "alarm-over"


class NoSuchAlarm(SafekeptError):
    code = "no-such-alarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One thing that a person must look at."""

    id: str = field(default_factory=new_id)
    time: float = field(default_factory=time.time)
    home: str = ""
    kind: str  # LOSS, OVERDUE, DRILL or DESTINATION
    text: str  # one line: `18 of 19 cron jobs are gone`
    restore: tuple[str, ...] = ()  # commands that bring back what is lost; they run as printed
    pinned: str = ""  # the id of the snapshot that still has it, pinned for 30 days
    about: str = ""  # a destination, for example: one about the same that is open is renewed
    losses: tuple[Shrinkage, ...] = ()  # the counts that fell
    paths: tuple[str, ...] = ()  # what a restore from the pinned snapshot must cover for it to be over
    #: A loss that is none any more: since when, or since which snapshot. Older ones still lack it.
    back_since: float = 0.0
    back_in: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.time)),
            "home": self.home,
            "kind": self.kind,
            "about": self.about,
            "text": self.text,
            "restore": list(self.restore),
            "pinned": self.pinned,
            "losses": [one.as_dict() for one in self.losses],
            "paths": list(self.paths),
        }


_TITLES = {
    LOSS: "fewer than before",
    OVERDUE: "no backup for too long",
    DRILL: "a restore could not be proven",
    DESTINATION: "the copy off this machine has a problem",
}


def raise_alarm(context: UserContext, alarm: Alarm, listener: Listener = silent) -> bool:
    """Write it into the journal and notify; False where the same one is open already.

    Two alarms are the same where kind, home and `about` are; one about a loss is always its own. One that is
    open is renewed: it keeps its id, and has the date, the reason and the commands of this one. The same
    reason is notified only once.
    """
    same = [other for other in open_alarms(context, alarm.home) if alarm.kind != LOSS and _same(alarm, other)]
    if same:
        alarm = replace(alarm, id=same[0].id)
    from ..base.operations.care import AlarmFacts

    facts = AlarmFacts()
    facts.add(_facts(alarm))
    record(context, replace(facts.line(alarm.id, "done"), time=alarm.time), listener)
    if same and same[0].text == alarm.text:
        return False
    listener(Event("alarm", text=f"Alarm: {alarm.text}"))
    from .notify import Notice, notify

    where = f" in {alarm.home}" if alarm.home else ""
    notice = Notice(
        alarm.kind,
        f"safekept: {_TITLES.get(alarm.kind, alarm.kind)}{where}",
        "\n".join([alarm.text, *alarm.restore]),
        alarm.home,
        {"alarm": alarm.id, "restore": list(alarm.restore), "pinned": alarm.pinned},
    )
    notify(context, notice, listener)
    return not same


def losses_in_snapshots(context: UserContext, home: str) -> tuple[Alarm, ...]:
    """The losses of a home that a snapshot may hold: they were not meant; each says since when it is back.

    What a restore brought back is in the home, and in every snapshot that was taken since then.
    """
    return tuple(one for one in _raised(context, home) if one.kind == LOSS)


def open_alarms(context: UserContext, home: str = "") -> tuple[Alarm, ...]:
    """Those that are neither acknowledged nor over; newest first. `home`: of this one only."""
    return tuple(one for one in _raised(context, home) if not (one.back_since or one.back_in))


def _raised(context: UserContext, home: str) -> list[Alarm]:
    """Those that are not acknowledged, newest first; losses that are back are among them, and say so."""
    ended: set[str] = set()
    back_in: dict[str, str] = {}
    restores = _Restores()
    found: list[Alarm] = []
    try:
        if not _ever_raised(context.journal.path):
            return found
        for entry in context.journal.backwards(RAISED, ACKNOWLEDGED, OVER, "restore", "undo"):
            if entry.verb == RAISED:
                alarm = read_alarm(entry)
                if alarm.id not in ended and home in ("", alarm.home):
                    since = restores.covered(alarm)
                    found.append(replace(alarm, back_since=since, back_in=back_in.get(alarm.id, "")))
                    ended.add(alarm.id)  # what it was before it was renewed
            elif entry.verb in (ACKNOWLEDGED, OVER):
                from ..base.operations.care import AlarmEndFacts

                facts = AlarmEndFacts.read(entry)
                if entry.verb == OVER and facts.snapshot:
                    back_in.update(dict.fromkeys(facts.alarms or (), facts.snapshot))
                else:
                    ended.update(facts.alarms or ())
            else:
                restores.take(entry)
    except OSError:
        pass  # another finding names a journal that cannot be read; what was read counts
    return found


def acknowledge(
    context: UserContext, ids: Iterable[str] = (), *, home: str = "", listener: Listener = silent
) -> tuple[Alarm, ...]:
    """Say that they were seen: the named ones, by id or the start of it, else all open ones."""
    waiting = open_alarms(context, home)
    chosen = [_named(waiting, name) for name in ids] or list(waiting)
    _end(context, ACKNOWLEDGED, chosen, {}, listener)
    return tuple(chosen)


def end_alarms(
    context: UserContext,
    kind: str,
    home: str = "",
    about: str = "",
    *,
    reason: str = "",
    listener: Listener = silent,
) -> tuple[Alarm, ...]:
    """What it was about is right again, so it is over; those that this ended."""
    like = Alarm(kind=kind, text="", home=home, about=about)
    chosen = [alarm for alarm in open_alarms(context, home) if _same(alarm, like)]
    _end(context, OVER, chosen, {"reason": reason}, listener)
    return tuple(chosen)


def end_losses(
    context: UserContext, alarms: Iterable[Alarm], snapshot: str, listener: Listener = silent
) -> None:
    """A later snapshot holds again what these missed."""
    _end(context, OVER, list(alarms), {"snapshot": snapshot}, listener)


def _ever_raised(journal: str) -> bool:
    """Whether the journal can hold an alarm at all: most never do, and are searched much faster."""
    word = f'"{RAISED}"'.encode()
    try:
        with os.fdopen(open_journal(journal), "rb") as file:
            rest = b""
            while block := file.read(1 << 20):
                if word in rest + block:
                    return True
                rest = block[-len(word) :]
    except FileNotFoundError:
        pass
    return False


class _Restores:
    """What was brought back, by the journal read backwards; what was then undone does not count."""

    def __init__(self) -> None:
        #: (home, snapshot) -> path, "" is all of it -> when it was first brought back.
        self._paths: dict[tuple[str, str], dict[str, float]] = {}
        self._undone: set[str] = set()  # operations that were taken back, and stayed so

    def take(self, entry: Record) -> None:
        from ..base.operations.homes import RestoreFacts  # costs time, and most journals have no alarm

        landed = RestoreFacts.read(entry)
        if entry.state != "done":
            return
        if entry.operation in self._undone:
            return  # an undo that was itself undone took nothing back
        if entry.verb == "undo":
            self._undone.add(landed.undoes or "")
        else:
            place = (landed.home or "", landed.snapshot or "")
            self._paths.setdefault(place, {}).update(dict.fromkeys(landed.only or ("",), entry.time))

    def covered(self, alarm: Alarm) -> float:
        """When all that an alarm is about was back from the snapshot that it names; 0: it is not."""
        paths = self._paths.get((alarm.home, alarm.pinned), {}) if alarm.pinned else {}
        if not paths or alarm.kind != LOSS:
            return 0.0
        times = [
            min((when for path, when in paths.items() if _covers(path, one)), default=0.0)
            for one in alarm.paths or ("",)
        ]
        return max(times) if all(times) else 0.0


def _covers(path: str, one: str) -> bool:
    return not path or one == path or one.startswith(path + "/")


def _end(
    context: UserContext, verb: str, alarms: list[Alarm], facts: dict[str, object], listener: Listener
) -> None:
    if not alarms:
        return
    from ..base.operations.care import AlarmEndFacts

    homes = {alarm.home for alarm in alarms}
    work = AlarmEndFacts(
        home=homes.pop() if len(homes) == 1 else None,
        alarms=tuple(alarm.id for alarm in alarms),
        texts=tuple(alarm.text for alarm in alarms),
    )
    work.add(facts)
    record(context, work.line(new_id(), "done", verb), listener)


def _same(first: Alarm, second: Alarm) -> bool:
    return (first.kind, first.home, first.about) == (second.kind, second.home, second.about)


def _named(waiting: tuple[Alarm, ...], name: str) -> Alarm:
    matches = [alarm for alarm in waiting if alarm.id == name]
    matches = matches or [alarm for alarm in waiting if name and alarm.id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    how = "No open alarm is" if not matches else f"{len(matches)} open alarms are"
    raise NoSuchAlarm(
        f"{how} called `{name}`",
        kept="Nothing was changed; every alarm that was open still is",
        next_steps=(NextStep("status", before="See those that are open:"),),
        open=[alarm.id for alarm in waiting],
    )


def _facts(alarm: Alarm) -> dict[str, object]:
    facts = alarm.as_dict()
    del facts["id"], facts["time"]
    return facts


def read_alarm(entry: Record) -> Alarm:
    """An alarm out of the journal; what is missing or strange in it is left empty, never an error."""
    from ..base.operations.care import AlarmFacts

    facts = AlarmFacts.read(entry)
    alarm = Alarm(
        id=entry.operation,
        time=entry.time,
        home=facts.home or "",
        kind=facts.kind or "",
        text=facts.text or "",
        restore=facts.restore or (),
        pinned=facts.pinned or "",
        about=facts.about or "",
        paths=facts.paths or (),
    )
    try:
        return replace(alarm, losses=tuple(Shrinkage.from_dict(one) for one in facts.losses or ()))
    except (KeyError, ValueError, TypeError):
        return alarm
