"""What was changed in homes and projects and could be taken back: one list, the last change last.

The truth is beside what was changed: the records of landings beside each home, the records of rollbacks
beside each project's checkpoints. The journal says in which order things happened, who did them, and
which homes there are; what it has lost is found without it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping

from safekept.checkpoints.points import NAME as ROLLBACKS
from safekept.checkpoints.points import RollbackJournal
from safekept.core.errors import SafekeptError
from safekept.core.journal import Record, parse_line
from safekept.core.records import dataclass
from safekept.home.landing import existing_areas, landings

from ..base.context import UserContext
from ..base.operations.facts import AnyFacts
from ..base.operations.homes import LandingFacts, RebuildFacts, RestoreFacts, SessionFacts
from ..base.operations.projects import RollbackFacts
from ..projects.project import checkpoint_directory

LANDING, ROLLBACK, SESSION, TURN = "landing", "rollback", "session", "turn"
FINISHED = ("done", "incomplete")
_LANDED = ("import", "restore", "undo")
#: Something lands outside of a home that is rebuilt, too: by an operation of its own.
_AT_HOMES = (*_LANDED, "rebuild")
#: What a change is called, by its verb of the journal.
_NOUNS = {
    "rollback-undo": "undo of a rollback",
    "rollback-turn": "rollback of a turn",
    "rollback-turn-undo": "undo of a turn's rollback",
    "restore-session": "return of a conversation",
    "undo-session": "undo of a conversation's return",
}
_CHANGING = (
    *(*_AT_HOMES, "rollback", "rollback-undo", "restore-session", "undo-session"),
    *("rollback-turn", "rollback-turn-undo"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was carried out."""

    operation: str
    verb: str  # of the journal: "import", "restore", "undo", "rollback", "rollback-undo", "restore-session"
    kind: str  # how it is taken back: LANDING, ROLLBACK, SESSION or TURN
    time: float
    home: str = ""
    project: str = ""
    point: str = ""  # of a rollback: the checkpoint that was taken before it
    undone_by: str = ""
    lost: bool = False  # nothing of what it replaced is kept any more
    lines: tuple[Record, ...] = ()  # of the journal, where it knows of it
    also: str = ""  # another id that it is known by
    by_rebuild: bool = False  # what lay outside of a home that was rebuilt
    undoes: int = 0  # of a rollback: how many it stands upon, each taking back the one before
    places: tuple[str, ...] = ()  # of a turn's rollback: every project and home that was changed
    parts: tuple[str, ...] = ()  # and the names of what was done in each: each means the whole

    @property
    def place(self) -> str:
        return self.home or self.project or next(iter(self.places), "")

    @property
    def every_place(self) -> tuple[str, ...]:
        return self.places or (self.place,)

    def is_called(self, name: str) -> bool:
        return name in (self.operation, self.also, *self.parts)

    @property
    def rebuilt(self) -> bool:
        """Whether a rebuild did it: the person asked for their machine, and for no change of this place."""
        return self.by_rebuild or any(AnyFacts.read(one).rebuild for one in self.lines)

    @property
    def noun(self) -> str:
        if self.rebuilt:
            return "part of the rebuild"
        if self.kind == ROLLBACK and self.undoes and not self.takes_back:
            return "rollback that was done again"
        return _NOUNS.get(self.verb, self.verb)

    @property
    def takes_back(self) -> bool:
        """Whether a rollback was taken back by it; the undo of an undo does the rollback again."""
        return self.undoes % 2 == 1

    @property
    def landed(self) -> RestoreFacts:
        """What the journal tells of a landing."""
        return RestoreFacts.read(*self.lines)

    @property
    def open(self) -> bool:
        """Whether it still stands."""
        return not self.undone_by

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "verb": self.verb,
            "time": self.time,
            "home": self.home or None,
            "project": self.project or None,
            "undone_by": self.undone_by or None,
            **({"places": list(self.places)} if self.places else {}),
        }


def changes(context: UserContext, home: str = "", project: str = "", *, apart: bool = False) -> list[Change]:
    """Every change that is known, in the order in which they were made; narrowed to one place if named.

    What belongs to the rollback of one turn is one change, but for `apart`.
    """
    records = journal_of(context, *_CHANGING)
    final = {one.operation: (at, one) for at, one in enumerate(records) if one.state in FINISHED}
    found: list[Change] = []
    if not project:
        for place in [home] if home else _homes(context, records):
            found += _landings(place, final)
            found += _sessions(place, records)
    if not home:
        found += _rollbacks(context, project, final)
    if not apart:
        found = _turns_as_one(context, found, final, home or project)

    def order(change: Change) -> tuple[int, float]:
        if change.operation in final:
            return final[change.operation][0], change.time
        # Not in the journal: by its time, among those that are.
        return sum(1 for one in records if one.time <= change.time) - 1, change.time

    return sorted(found, key=order)


def journal_of(context: UserContext, *verbs: str) -> list[Record]:
    """Every line of the journal, or those of some verbs, which costs little however long it is.

    Nothing where it cannot be read: then what lies beside things must do.
    """
    try:
        if verbs:
            return list(context.journal.backwards(*verbs))[::-1]
        return list(context.journal.read())
    except OSError:
        return []


def journal_mentioning(context: UserContext, word: str) -> list[Record]:
    """The lines that have a word in them, an id or a part of one; cheap however long the journal is."""
    try:
        lines = list(context.journal.lines_backwards(json.dumps(word)[1:-1].encode()))[::-1]
    except OSError:
        return []
    return [one for one in map(parse_line, lines) if one is not None]


def known_landings(context: UserContext) -> list[str]:
    """Every home and directory that something ever landed in."""
    return _homes(context, journal_of(context, *_AT_HOMES))


def _homes(context: UserContext, records: Iterable[Record]) -> list[str]:
    found = dict.fromkeys(LandingFacts.read(one).home or "" for one in records if one.verb in _AT_HOMES)
    with contextlib.suppress(SafekeptError):
        found[context.locate(existing=False).home] = None
    return [home for home in found if home]


def _landings(home: str, final: Mapping[str, tuple[int, Record]]) -> list[Change]:
    found = []
    rebuilds = (RebuildFacts.read(one) for _, one in final.values() if one.verb == RebuildFacts.verb)
    outside = {work.outside_operation for work in rebuilds}
    for past in landings(home):
        known = final.get(past.operation)
        found.append(
            Change(
                operation=past.operation,
                verb=known[1].verb if known else "undo" if past.undoes else "import",
                kind=LANDING,
                time=past.time,
                home=home,
                undone_by=past.undone_by,
                lost=not past.replaced,
                by_rebuild=past.operation in outside,
                lines=(known[1],) if known else (),
            )
        )
    kept = {change.operation for change in found}
    if os.path.isdir(home) or existing_areas(home):
        found += _expired(home, kept, final)
    return found


def _expired(home: str, kept: set[str], final: Mapping[str, tuple[int, Record]]) -> list[Change]:
    """Landings that only the journal knows any more: what they replaced is gone."""
    past = [
        one
        for _, one in final.values()
        if one.verb in _LANDED
        and (landed := LandingFacts.read(one)).home == home
        and one.operation not in kept
        and landed.changed
    ]
    undone = {LandingFacts.read(one).undoes or "": one.operation for _, one in final.values()}
    return [
        Change(
            operation=one.operation,
            verb=one.verb,
            kind=LANDING,
            time=one.time,
            home=home,
            undone_by=undone.get(one.operation, ""),
            lost=True,
            lines=(one,),
        )
        for one in past
    ]


def _sessions(home: str, records: Iterable[Record]) -> list[Change]:
    """Conversations that came back, and those that were taken out again."""
    ours = [
        (one, work)
        for one in records
        if one.verb in ("restore-session", "undo-session")
        and one.state in FINISHED
        and (work := SessionFacts.read(one)).home == home
        and not work.already_there
    ]
    undone = {work.undoes: one.operation for one, work in ours if work.undoes}
    return [
        Change(
            operation=one.operation,
            verb=one.verb,
            kind=SESSION,
            time=one.time,
            home=home,
            undone_by=undone.get(one.operation, ""),
            lost=not work.proof,
            lines=(one,),
        )
        for one, work in ours
    ]


def _rollbacks(context: UserContext, project: str, final: Mapping[str, tuple[int, Record]]) -> list[Change]:
    named = {
        work.undo: one
        for _, one in final.values()
        if one.verb in ("rollback", "rollback-undo") and (work := RollbackFacts.read(one)).undo
    }
    found = []
    for place, path in rolled_back_projects(context):
        if project and path != project:
            continue
        # Its two halves, the plain files and the hidden ones, have a line each and the point in common.
        halves = RollbackJournal(place).finished()
        lines = list({str(line.get("undo") or line["operation"]): line for line in halves}.values())
        undone = {str(line.get("target")): str(line.get("undo")) for line in lines}
        depths: dict[str, int] = {}
        for line in lines:
            point, target = str(line.get("undo", "")), str(line.get("target"))
            depths[point] = depths[target] + 1 if target in depths else 0
            known, by = named.get(point), undone.get(point, "")
            found.append(
                Change(
                    operation=known.operation if known else str(line["operation"]),
                    verb=known.verb if known else "rollback",
                    kind=ROLLBACK,
                    time=_number(line.get("time")),
                    project=path,
                    point=point,
                    undone_by=named[by].operation if by in named else by,
                    lines=(known,) if known else (),
                    also=str(line["operation"]),
                    undoes=depths[point],
                )
            )
    return found


def _turns_as_one(
    context: UserContext, found: list[Change], final: Mapping[str, tuple[int, Record]], place: str
) -> list[Change]:
    """The rollbacks of turns in the place of their parts."""
    from ..projects.turns import any_records

    if not any_records(context):
        return found
    from ..projects.turns.record import read_records
    from ..projects.turns.undo import undone_by

    records = read_records(context)
    names = {part.undo for told in records for part in told.done}
    whole = [one for one in found if not names & {one.operation, one.point}]
    for told in records:
        places = tuple(dict.fromkeys(part.place for part in told.done))
        if not places or (place and place not in places):
            continue
        known = final.get(told.operation)
        whole.append(
            Change(
                operation=told.operation,
                verb=told.verb,
                kind=TURN,
                time=told.ended or told.began,
                undone_by=undone_by(records, told),
                lines=(known[1],) if known else (),
                places=places,
                parts=tuple(
                    name
                    for one in found
                    if {part.undo for part in told.done} & {one.operation, one.point}
                    for name in (one.operation, one.also, one.point)
                    if name
                ),
            )
        )
    return whole


def rolled_back_projects(context: UserContext) -> list[tuple[str, str]]:
    """Projects that were ever rolled back: our directory for each, and its path. Makes no store."""
    base = os.path.join(checkpoint_directory(context), "projects")
    found = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        place = os.path.join(base, name)
        with contextlib.suppress(OSError), open(os.path.join(place, "project"), "rb") as file:
            path = os.fsdecode(file.read())
            if path and os.path.isfile(os.path.join(place, ROLLBACKS)):
                found.append((place, path))
    return found


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
