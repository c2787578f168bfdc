"""What happened to one home or project, in one list, newest first, a page at a time.

Snapshots and home points come from the vault, checkpoints from their store, everything else from the journal.
A vault that does not open takes its part away and nothing else: then the journal says which snapshots there
were.
"""

from __future__ import annotations

import contextlib
import heapq
import os
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.store import Store
from safekept.core.ages import count_text, size_text
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.vault.errors import NoSuchVault
from safekept.vault.tags import PRE_CHANGE

from ..base.context import UserContext
from ..base.operations.care import AlarmFacts, ConnectFacts, DrillFacts
from ..base.operations.facts import Facts
from ..base.operations.homes import LandingFacts
from ..base.operations.stores import PushFacts
from ..projects.home_points.stored import point_of
from ..projects.project import checkpoint_directory
from ..snapshots.listing import Listed, as_stored
from ..undo.log import JournalUnreadable, LogRequest, read_log
from ..undo.operation import Operation
from ..vault.place import vault_was_here
from .listings import Listings

#: Kinds that a list can be narrowed to, and what each is called.
SNAPSHOTS, CHECKPOINTS, CHANGES, PROOFS, COPIES, ALARMS, OTHER = (
    "snapshots",
    "checkpoints",
    "changes",
    "proofs",
    "copies",
    "alarms",
    "other",
)
GROUPS = {
    SNAPSHOTS: "Snapshots",
    CHECKPOINTS: "Checkpoints and home points",
    CHANGES: "Restores, rollbacks, updates",
    PROOFS: "Drills and checks",
    COPIES: "Copies elsewhere",
    ALARMS: "Alarms",
    OTHER: "Everything else",
}
#: What has a button that takes it back.
_UNDOABLE = frozenset("restore import rollback undo rollback-undo rollback-turn rollback-turn-undo".split())
#: Verbs of the journal: their group, and what they are called.
_VERBS = {
    "snapshot": (SNAPSHOTS, "Snapshot"),
    "checkpoint": (CHECKPOINTS, "Checkpoint"),
    "restore": (CHANGES, "Restore"),
    "restore-session": (CHANGES, "Conversation restored"),
    "import": (CHANGES, "Import"),
    "rebuild": (CHANGES, "Rebuild"),
    "rollback": (CHANGES, "Rollback"),
    "rollback-undo": (CHANGES, "Rollback taken back"),
    "rollback-turn": (CHANGES, "Turn taken back"),
    "rollback-turn-undo": (CHANGES, "Rollback of a turn taken back"),
    "undo": (CHANGES, "Undo"),
    "undo-session": (CHANGES, "Conversation taken back"),
    "guard": (CHANGES, "Guarded command"),
    "pre-update": (CHANGES, "Before an update"),
    "pre-migration": (CHANGES, "Before a migration"),
    "drill": (PROOFS, "Drill"),
    "vault-check": (PROOFS, "Vault check"),
    "push": (COPIES, "Push"),
    "pull": (COPIES, "Pull"),
    "backup": (COPIES, "Backup"),
    "alarm": (ALARMS, "Alarm"),
    "alarm-over": (ALARMS, "Alarm over"),
    "alarm-acknowledged": (ALARMS, "Alarm seen to"),
}
#: What is done to all that a vault holds: it belongs to the history of each of its homes.
_OF_EVERY_HOME = ("push", "pull", "vault-check", "alarm", "alarm-over", "alarm-acknowledged")
#: What an event opens to.
SNAPSHOT, POINT = "snapshot", "checkpoint"
_STORED = ("done", "incomplete")
_MARKS = {"before": "Checkpoint", "manual": "Checkpoint", "after": "Mark after a turn", "undo": "Undo point"}


@dataclass(frozen=True, slots=True)
class PageEvent:
    """One thing that happened."""

    time: float
    group: str
    title: str
    id: str
    detail: str = ""
    actor: str = ""
    session: str = ""
    turn: str = ""
    opens: str = ""  # SNAPSHOT or POINT, by its id; nothing: an operation of the journal
    bad: bool = False  # it failed, or is an alarm
    undoable: bool = False

    def says(self, text: str) -> bool:
        words = f"{self.title} {self.id} {self.detail} {self.actor} {self.session}".casefold()
        return all(word in words for word in text.casefold().split())

    def as_dict(self) -> dict[str, object]:
        return {
            "time": self.time,
            "group": self.group,
            "title": self.title,
            "id": self.id,
            "detail": self.detail,
            "actor": self.actor,
            "session": self.session or None,
            "turn": self.turn or None,
            "bad": self.bad,
        }


@dataclass(frozen=True, slots=True)
class EventRequest:
    """Which part of the list."""

    home: str = ""
    project: str = ""  # one of the two
    before: float = float("inf")  # older than this
    most: int = 50
    group: str = ""
    text: str = ""
    agent: str = ""
    session: str = ""
    turn: str = ""
    path: str = ""  # only what changed this file, or names it
    changed: frozenset[str] = frozenset()  # the points in which it did

    def wants(self, event: PageEvent) -> bool:
        return (
            event.time < self.before
            and self.group in ("", event.group)
            and (not self.text or event.says(self.text))
            and (not self.agent or event.actor == self.agent)
            and (not self.session or event.session == self.session)
            and (not self.turn or event.turn == self.turn)
            and (not self.path or event.id in self.changed or self.path in event.detail)
        )


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of it. `more`: there are older ones, before the time of the last one here."""

    events: tuple[PageEvent, ...]
    more: bool = False
    problem: str = ""  # what could not be looked at


def events(context: UserContext, request: EventRequest, listings: Listings | None = None) -> EventPage:
    """The newest that are wanted. Each source is read only as far back as the page reaches."""
    problem, listed = "", None
    if request.home and request.group in ("", SNAPSHOTS, CHECKPOINTS):
        try:
            listed = (listings or Listings()).of_home(context, request.home)
        except (SafekeptError, OSError) as error:
            if not nothing_kept_yet(context, error):
                problem = error.what if isinstance(error, SafekeptError) else str(error)
    found: list[PageEvent] = []
    with contextlib.ExitStack() as opened:
        sources, told = (
            [_of_snapshots(listed or (), request.before)],
            ["snapshot"] if listed is not None else [],
        )
        if request.project and os.path.isdir(checkpoint_directory(context)):
            store = opened.enter_context(Store.open(checkpoint_directory(context)))
            sources.append(_of_checkpoints(store.newest_first(request.project)))
            told.append("checkpoint")
        sources.append(_of_journal(context, request, told))
        try:
            merged = heapq.merge(*sources, key=lambda one: one.time, reverse=True)
            for one in islice(filter(request.wants, merged), request.most + 1):
                found.append(one)
        except JournalUnreadable as error:
            problem = problem or error.what
    found.sort(key=lambda one: one.time, reverse=True)  # clocks jump
    return EventPage(tuple(found[: request.most]), len(found) > request.most, problem)


def nothing_kept_yet(context: UserContext, error: Exception) -> bool:
    """Whether there never was a vault: then there is nothing wrong with it."""
    try:
        return isinstance(error, NoSuchVault) and not vault_was_here(context)
    except OSError:
        return False


def title_of(verb: str) -> str:
    """What a verb of the journal is called."""
    return _VERBS.get(verb, (OTHER, verb.replace("-", " ").capitalize()))[1]


def _of_snapshots(listed: Iterable[Listed], before: float) -> Iterator[PageEvent]:
    for one in listed:
        if one.snapshot.time_ns / 1e9 >= before:
            continue
        point = one.kind == PRE_CHANGE
        about = point_of(one.snapshot) if point else None
        parts = [one.label] if one.label else []
        parts += [count_text(one.files, "file")] if one.files is not None else []
        parts += [f"{size_text(one.added)} new"] if one.added is not None else []
        parts += [one.why_incomplete or "incomplete"] if not one.complete else []
        parts += ["pinned"] if one.pinned else []
        parts += ["proven"] if one.proven_ns else []
        yield PageEvent(
            one.snapshot.time_ns / 1e9,
            CHECKPOINTS if point else SNAPSHOTS,
            "Home point" if point else f"{one.kind.capitalize()} snapshot",
            one.id,
            ", ".join(parts),
            about.host if about else "",
            about.session if about else "",
            about.turn if about else "",
            opens=SNAPSHOT,
            bad=not one.complete,
        )


def _of_checkpoints(points: Iterable[Checkpoint]) -> Iterator[PageEvent]:
    for one in points:
        yield PageEvent(
            one.time_ns / 1e9,
            CHECKPOINTS,
            _MARKS.get(one.kind, one.kind),
            one.id,
            one.reason,
            session=one.session,
            turn=one.turn,
            opens=POINT,
        )


def _of_journal(context: UserContext, request: EventRequest, told: Collection[str]) -> Iterator[PageEvent]:
    """What the stores do not tell by themselves: `told` are the verbs that they do."""
    place = request.home or request.project
    also = _OF_EVERY_HOME if request.home else ()
    for one in read_log(context, LogRequest(most=None, home=place, unplaced=also, counted=False)).operations:
        group = _VERBS.get(one.verb, (OTHER, ""))[0]
        stored = one.outcome in _STORED
        if stored and one.verb in told:
            continue
        work = one.work
        if isinstance(work, PushFacts) and work.wholes is not None and as_stored(place) not in work.wholes:
            continue  # another home's
        failed = isinstance(work, DrillFacts) and work.ok is False
        yield PageEvent(
            one.time,
            group,
            title_of(one.verb),
            one.id,
            detail_of(one, work),
            "" if one.actor == "person" else one.actor,
            bad=not stored or failed or one.verb == "alarm",
            undoable=stored and one.verb in _UNDOABLE,
        )


def detail_of(one: Operation, work: Facts) -> str:
    """The most important of an operation, in a few words."""
    if one.error:
        return str(one.error.get("what") or "it failed")
    parts = []
    if isinstance(work, DrillFacts) and work.ok is not None:
        parts.append("it restores" if work.ok else "NOT proven")
    if isinstance(work, AlarmFacts) and work.text:
        parts.append(work.text)
    if isinstance(work, LandingFacts) and work.only:
        parts.append(", ".join(work.only[:3]) + ("…" if len(work.only) > 3 else ""))
    if isinstance(work, ConnectFacts) and work.command:
        parts.append(" ".join(work.command)[:120])
    if destination := one.common.destination:
        parts.append(destination)
    if one.files is not None:
        parts.append(count_text(one.files, "file"))
    if one.outcome not in _STORED:
        parts.append(one.outcome)
    return ", ".join(parts)
