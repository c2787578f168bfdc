"""Reading the journal for people: the newest operations first, as many as are asked for.

It is read from its end, in bounded memory, whatever its length. Lines that are torn or foreign are
counted and passed over; those of a later safekept are shown as far as they are understood, and said to be.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import field

from safekept.core.ages import time_of
from safekept.core.errors import SafekeptError
from safekept.core.journal import Journal, Record, parse_line
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.facts import AnyFacts
from .operation import Operation, operation_of
from .other_places import REMEMBERED, OtherPlaces, spelled

#: After so many lines in a row that are too old, nothing younger is expected further up.
_TOO_OLD = 2_000


class JournalUnreadable(SafekeptError):
    code = "journal-unreadable"


class BadTime(SafekeptError):
    code, exit_code = "bad-moment", 2


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which operations to show."""

    most: int | None = 20  # None: all of them
    verb: str = ""
    home: str = ""  # or a project
    unplaced: tuple[str, ...] = ()  # verbs that count for every place where they name none
    since: float = 0.0
    counted: bool = True  # also lines of other places that cannot be read: then every line is taken apart


@dataclass(slots=True)
class Reading:
    """What was noticed on the way; whole once the operations have been taken."""

    unreadable: int = 0  # lines
    newer: int = 0  # operations that a later safekept wrote of
    more: bool = False  # there are older ones


@dataclass(slots=True)
class Log:
    """The operations, newest first; taken one at a time, so that any number of them costs little."""

    operations: Iterator[Operation]
    reading: Reading = field(default_factory=Reading)


def read_log(context: UserContext, request: LogRequest) -> Log:
    """The newest operations that fit. Raises JournalUnreadable, at once or while they are taken."""
    reading = Reading()
    return Log(_newest(context.journal, request, reading), reading)


def _newest(journal: Journal, request: LogRequest, reading: Reading) -> Iterator[Operation]:
    seen: OrderedDict[str, None] = OrderedDict()
    given = 0
    for record in _records(journal, request, reading):
        if record.operation in seen:
            continue  # an earlier line of an operation whose end was shown
        seen[record.operation] = None
        if len(seen) > REMEMBERED:
            seen.popitem(last=False)
        if request.verb and record.verb != request.verb:
            continue
        facts = AnyFacts.read(record)
        if facts.part_of:
            continue  # the operation that it is a part of is listed
        places = (facts.home, facts.project, *(facts.homes or ()), *(facts.places or ()))
        everywhere = record.verb in request.unplaced and not any(places)
        if request.home and request.home not in places and not everywhere:
            continue
        if request.most is not None and given >= request.most:
            reading.more = True
            return
        found = operation_of((record,))
        reading.newer += found.newer
        given += 1
        yield found


def _records(journal: Journal, request: LogRequest, reading: Reading) -> Iterator[Record]:
    old = 0
    quick = request.home and not request.counted and not request.since  # for which lines are counted, too
    others = OtherPlaces(journal, request.home, request.unplaced) if quick else None
    try:
        for line in journal.lines_backwards(*spelled(request.verb)):
            if others is not None and others.passes(line):
                continue
            record = parse_line(line)
            if record is None:
                reading.unreadable += 1
                continue
            # Clocks jump: one old line says nothing, thousands of them do.
            old = old + 1 if record.time < request.since else 0
            if old > _TOO_OLD:
                return
            if not old and not (others is not None and others.ended(record)):
                yield record
    except OSError as error:
        raise _unreadable(journal, error) from error


def require_journal(context: UserContext) -> None:
    """Raise JournalUnreadable where it cannot be read: that is not the same as nothing done."""
    try:
        next(context.journal.lines_backwards(), None)
    except OSError as error:
        raise _unreadable(context.journal, error) from error


def find_operation(context: UserContext, word: str) -> Operation:
    """The operation with this id, or with one that starts so, or whose last letters these are."""
    from .undo_refusals import NoSuchOperation

    found: dict[str, list[Record]] = {}
    fits = _fitting(word)
    try:
        for line in context.journal.lines_backwards(*spelled(word)):
            record = parse_line(line)
            if record is not None and fits(record.operation):
                found.setdefault(record.operation, []).insert(0, record)
    except OSError as error:
        raise _unreadable(context.journal, error) from error
    if word in found:
        found = {word: found[word]}
    if len(found) == 1:
        return operation_of(next(iter(found.values())))
    if not found:
        raise NoSuchOperation(
            f"The journal knows no operation `{word}`",
            kept="Nothing was changed",
            next_steps=(NextStep("log", before="See what was done:"),),
            operation=word,
        )
    names = list(found)
    raise NoSuchOperation(
        f"{len(names):,} operations are called or start with `{word}`",
        kept="Nothing was changed",
        next_steps=tuple(NextStep("log", (name,), before="See one of them:") for name in names[:5]),
        operations=names,
    )


def _fitting(word: str) -> Callable[[str], bool]:
    return lambda name: bool(word) and (name.startswith(word) or name.endswith("-" + word))


def parse_since(text: str, now: float | None = None) -> float:
    """`3h`, `2 days`, `2026-11-01` or `2026-11-01 14:30`, where this machine is. BadTime for the rest."""
    found = time_of(text, time.time() if now is None else now)
    if found is None:
        raise BadTime(
            f"`{text}` is no time that safekept understands",
            kept="Nothing changed",
            next_steps=("Use `3h`, `2d`, `1w`, `yesterday 18:00`, `2026-11-01` or `2026-11-01 14:30`",),
        )
    return found


def _unreadable(journal: Journal, error: OSError) -> JournalUnreadable:
    return JournalUnreadable(
        f"The journal `{journal.path}` cannot be read: {error.strerror or error}",
        kept="Nothing was changed; what is stored does not depend on the journal",
        next_steps=("Run the command as the user that it belongs to, or mend its permissions",),
        path=journal.path,
    )
