"""`safekept log [ID]`: every operation, who did it and how it ended; one of them with everything about it."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ...console import Console, count_text, document_text, path_text, size_text, time_text
from ...options import start
from ...screen import Screen, width
from ...words.remarks import census_lines

if TYPE_CHECKING:
    from safekept.actions.base.operations.facts import Facts
    from safekept.actions.base.operations.homes import LandingFacts
    from safekept.actions.undo.log import Log
    from safekept.actions.undo.operation import Operation
    from safekept.actions.undo.undo_availability import UndoAvailability

_MOST = 20
_GOOD = frozenset({"done", "running"})
#: The most that each column before the last one takes; that one has what is left of the line.
_COLUMNS = (("ID", 6), ("WHEN", 12), ("WHO", 8), ("WHAT", 15), ("OUTCOME", 11), ("SIZE", 7), ("TOOK", 6))
_RIGHT = frozenset({"SIZE", "TOOK"})
_SHOWN = 10  # of a long list
_MEASURED = 200  # operations that say how wide a column is: a journal may be longer than memory


@click.command("log")
@click.argument("word", metavar="[ID]", required=False, default="")
@click.option(
    "-n", "most", metavar="N", type=click.IntRange(min=1), default=_MOST, help="How many; default: 20."
)
@click.option("--all", "every", is_flag=True, help="All of them.")
@click.option(
    "--verb",
    metavar="VERB",
    default="",
    help="Only these: snapshot, backup, restore, import, undo, rollback, push, drill, …",
)
@click.option(
    "--since",
    metavar="TIME",
    default="",
    help="Not older than `3h`, `2d`, `1w`, `2026-11-01` or `2026-11-01 14:30`.",
)
@click.option("--home", metavar="PATH", default="", help="Only those of this home or project.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(word: str, most: int, every: bool, verb: str, since: str, home: str, as_json: bool) -> int:
    """See what was done, newest first: id, time, who, what, outcome, size, and how long it took.

    With an ID, the start of one, or its last six letters: everything about that one, whether it can be
    taken back, and the command that does it.
    """
    from safekept.actions.undo.log import LogRequest, find_operation, parse_since, read_log

    _, context, console = start(as_json)
    if word:
        from safekept.actions.undo.undo_availability import undo_availability

        found = find_operation(context, word)
        _show_one(console, found, undo_availability(context, found), context.places.user_home)
        return 0
    request = LogRequest(
        most=None if every else most,
        verb=verb,
        home=os.path.realpath(os.path.expanduser(home)) if home else "",
        since=parse_since(since) if since else 0.0,
    )
    asked = [
        word
        for name, value in (("--verb", verb), ("--since", since), ("--home", home))
        for word in ((name, value) if value else ())
    ]
    _show_all(console, read_log(context, request), asked)
    return 0


# ── many ───────────────────────────────────────────────────────────────────────────────────────────


def _show_all(console: Console, log: Log, asked: list[str]) -> None:
    if console.as_json:
        _write_document(log)
        return
    operations = iter(log.operations)
    first = list(itertools.islice(operations, _MEASURED))
    rooms = _rooms([_cells(one) for one in first])
    if first:
        console.line(_line([name for name, _ in _COLUMNS], "ABOUT", rooms), dim=True)
    for one in itertools.chain(first, operations):
        style = {} if one.outcome in _GOOD else {"fg": "yellow"}
        console.line(_line(_cells(one), _about(one), rooms), **style)
    if not first:
        console.line("Nothing was done yet that fits" if asked else "Nothing was done yet")
    elif log.reading.more:
        console.line(f"There is more: `{console.command('log', '--all', *asked)}`")
    if log.reading.newer:
        count = count_text(log.reading.newer, "operation was", "operations were")
        console.line(f"{count} written by a later safekept (*): shown as far as understood")
    if log.reading.unreadable:
        console.line(f"{count_text(log.reading.unreadable, 'line')} of the journal cannot be read")


def _write_document(log: Log) -> None:
    """One document, written as it is read: a journal may be longer than memory."""
    beginning = document_text({}, None)
    start = f'{beginning[:-1]}, "operations": ['
    for one in log.operations:
        click.echo(f"{start}\n  {json.dumps(one.as_dict())}", nl=False)
        start = ","
    ending = {"more": log.reading.more, "unreadable_lines": log.reading.unreadable}
    click.echo(("" if start == "," else start) + "], " + json.dumps(ending)[1:])


def _rooms(rows: list[list[str]]) -> list[int]:
    """The width of each column but the last: no more than it needs."""
    needed = [max(map(len, column)) for column in zip([name for name, _ in _COLUMNS], *rows, strict=True)]
    return [min(most, need) for (_, most), need in zip(_COLUMNS, needed, strict=True)]


def _line(cells: list[str], about: str, rooms: list[int]) -> str:
    parts = []
    for (name, _), room, cell in zip(_COLUMNS, rooms, cells, strict=True):
        cell = cell if len(cell) <= room else cell[: room - 1] + "…"
        parts.append(cell.rjust(room) if name in _RIGHT else cell.ljust(room))
    start = " ".join(parts)
    left = width() - len(start) - 1
    about = about if len(about) <= left else about[: max(0, left - 1)] + "…"
    return f"{start} {about}".rstrip()


def _cells(one: Operation) -> list[str]:
    return [
        path_text(one.short)[-6:],
        _when(one.time),
        path_text(one.actor.removeprefix("agent:")),
        path_text(one.verb),
        path_text(one.outcome).upper() if one.outcome not in _GOOD else one.outcome,
        _tight(one.bytes) if one.bytes is not None else "",
        _brief(one.seconds) if one.seconds is not None else "",
    ]


def _about(one: Operation) -> str:
    """What tells it from its neighbours, in a word."""
    star = "*" if one.newer else ""
    if code := one.error.get("code"):
        return star + path_text(str(code))
    work = one.work
    if told := _told_of(work):
        return star + path_text(told)
    for name in ("snapshot", "id", "target", "archive", "name", "destination", "text"):
        value = getattr(work, name, None)  # each is a text, of the verbs that have it
        if value:
            return star + path_text(_named(value))
    return star + path_text(os.path.basename(one.place))


def _told_of(work: Facts) -> str:
    """For what a home was changed by, and what was kept before that: of what it was, then the id."""
    from safekept.actions.base.operations import care, homes

    match work:
        case homes.SnapshotFacts() if (work.kind or "").startswith("pre-"):
            return f"{(work.snapshot or '')[:8]} before {_BEFORE.get(work.kind or '', 'a change')}"
        case homes.RestoreFacts():
            return _landed(work, (work.snapshot or "")[:8])
        case homes.ImportFacts():
            return _landed(work, _named(work.archive or ""))
        case homes.SessionFacts():
            return f"{work.session or ''} {(work.snapshot or '')[:8]}".strip()
        case homes.UndoFacts():
            return f"{work.of or ''} {(work.undoes or '').rpartition('-')[2]}".strip()
        case care.ConnectFacts():
            profiles = {found[1] for path in work.files_changed or () if (found := _PROFILE.search(path))}
            return " ".join((work.agent or "", *sorted(profiles))).strip()
        case care.DeclineFacts(declined=(first, *_)):
            return first.rpartition(":")[2]  # the agent or the home that is meant
    return ""


def _landed(work: LandingFacts, source: str) -> str:
    names = [os.path.basename(path) for path in work.only or ()]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0] if names else 'all'}{more} {source}".rstrip()


#: What a snapshot that was taken by itself was taken before.
_BEFORE = {"pre-restore": "restore", "pre-import": "import", "pre-update": "update"}
_PROFILE = re.compile(r"/profiles/([^/]+)/")


def _named(value: str) -> str:
    """The start of a long id, the last part of a path."""
    if len(value) == 64 and all(sign in "0123456789abcdef" for sign in value):
        return value[:8]
    return os.path.basename(value) if value.startswith("/") else value


def _when(seconds: float) -> str:
    """`Nov 15 12:31`, and the year where it is another one."""
    then = time.localtime(seconds)
    if abs(time.time() - seconds) < 300 * 86_400:
        return time.strftime("%b %d %H:%M", then)
    return time.strftime("%Y-%m-%d", then)


def _tight(count: int) -> str:
    return size_text(count).replace(" ", "")


def _brief(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f}s"
    return f"{seconds / 60:.0f}min" if seconds < 6000 else f"{seconds / 3600:.0f}h"


# ── one ────────────────────────────────────────────────────────────────────────────────────────────


def _show_one(console: Console, one: Operation, back: UndoAvailability, user_home: str) -> None:
    console.document(
        {
            **one.as_dict(),
            "lines": [
                {"time": record.time, "state": record.state, "version": record.version, "facts": record.facts}
                for record in one.records
            ],
            "undo": back.as_dict(console.program),
        }
    )
    screen = Screen(console, user_home)
    screen.headline(f"{one.verb} {one.outcome}", fg="green" if one.outcome in _GOOD else "yellow")
    screen.fact("Operation", one.id)
    screen.fact("By", path_text(one.actor))
    for record in one.records:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.time))
        screen.fact(record.state.capitalize(), when)
    if one.seconds is not None:
        screen.fact("Took", time_text(one.seconds))
    _show_facts(screen, one)
    if one.error:
        screen.fact("Failed", str(one.error.get("what", "")))
        if one.error.get("kept"):
            screen.fact("Kept", str(one.error["kept"]))
    if one.newer:
        screen.fact("Note", "a later safekept wrote of this; there may be more to it")
    if back.command:
        screen.fact("Undo", back.command)
        first = replace(back.command, arguments=(*back.command.arguments, "--dry-run"))
        screen.fact("", replace(first, before="see first what that would do:"))
    else:
        screen.fact("Undo", f"no: {back.text}")
        for step in back.next_steps:
            screen.fact("", step)


#: What is shown by itself above, and what only a machine compares.
_TOLD = frozenset({"actor", "seconds", "error", "process", "operation", "timings", "database_bytes"})


def _show_facts(screen: Screen, one: Operation) -> None:
    for name, value in one.facts.items():
        if name in _TOLD or value in (None, "", [], {}, False):
            continue
        label = name.replace("_", " ").capitalize()
        text = _fact(name, value)
        if len(label) <= 10:
            screen.fact(label, text)
        else:
            screen.fact("", f"{label}: {text}")


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, int) and ("bytes" in name or name in _SIZES):
        return f"{size_text(value)} ({value:,} bytes)"
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str)]
        if len(texts) < len(value):
            return f"{len(value):,} (`--json` has them)"
        more = f" … and {len(value) - _SHOWN:,} more (`--json` has all)" if len(value) > _SHOWN else ""
        return path_text(", ".join(texts[:_SHOWN])) + more
    if isinstance(value, dict):
        if name == "census":
            return path_text("; ".join(census_lines(value)))
        plain = [f"{key} {item}" for key, item in value.items() if isinstance(item, str | int | float)]
        return path_text(", ".join(plain)) if plain else f"{len(value):,} (`--json` has them)"
    return path_text(str(value))


_SIZES = frozenset({"added", "size_before", "size_after"})
