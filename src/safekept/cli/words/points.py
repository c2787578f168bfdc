"""Points in words: the list of a project or a home, the points of every place, and what changed since one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text
from .lists import SHOWN, ago, changes_text, styled, table

if TYPE_CHECKING:
    from safekept.actions.projects.difference import PointDifference
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.timeline import EveryPoint, PointRow, Timeline
    from safekept.checkpoints.checkpoint import Checkpoint

_ROWS = 20
_SHOWN_PATHS = 3
_KINDS = {"after": "mark", "undo": "undo point"}
_HEAD = ("#", "ID", "WHEN", "THEN CHANGED", "SESSION", "REASON")
_COUNTED = "Then changed: files, and lines added (+) and removed (-), up to the next one"
#: Letters of a reason; what a home point is about stands in it, too.
_LONGEST = {"home": 76}


def show_timeline(
    console: Console, found: Timeline, where: list[str], every: bool, filtered: bool, git: bool = False
) -> int:
    """The list that `safekept rollback` shows."""
    console.document(found.as_dict())
    if found.project is None and found.home is None:
        return _show_near(console, found)
    kind = "Checkpoints" if found.home is None else "Home points"
    place = path_text(found.project or found.home or "")
    rows = found.in_order
    if not rows:
        what = "match" if filtered else "to go back to: nothing changed since the last one"
        console.line(f"No {kind[0].lower()}{kind[1:]} of {place} {what}")
    else:
        console.heading(f"{kind} of {place}" + (", which is gone" if found.gone else ""), not found.gone)
        shown = rows if every else _first(rows, found.words)
        cells = [_cells(row, found.home is not None) for row in shown]
        table(console, [_HEAD, *cells], cut=True, headings=_headings(shown, found.words))
        if len(shown) < len(rows):
            console.line(f"  … and {len(rows) - len(shown):,} older ones: --all")
        if any(row.changes and (row.changes.added or row.changes.removed) for row in shown):
            console.line(_COUNTED)
        _show_ways_back(console, found, where, git)
    _show_moved(console, found, where)
    _show_left_out(console, found)
    if any(row.damaged for row in found.rows):
        console.line(f"Part of it is missing from the store: `{console.command('checkpoint', 'status')}`")
    if found.hidden and not every:
        marks = count_text(found.hidden, "point", "points")
        which = "taken around a rollback, or with nothing changed after them"
        console.line(f"Not shown: {marks} {which} (`{console.command('rollback', '--all', *where)}`)")
    return 0


def _first(rows: list[PointRow], words: Mapping[str, str]) -> list[PointRow]:
    """As many rows as fit on a screen together with the headings of their turns."""
    headings = _headings(rows, words)
    lines = 0
    for number, _ in enumerate(rows):
        lines += 1 + (number + 1 in headings)
        if lines > _ROWS:
            return rows[: max(1, number)]
    return rows


def _headings(rows: list[PointRow], words: Mapping[str, str]) -> dict[int, str]:
    """Above the first row of each turn its id and what the person said, else whose session it was; by the
    number of that row in the table."""
    from safekept.actions.projects.turns.turn import turn_of

    found, above = {}, ""
    for number, row in enumerate(rows, 1):
        turn = turn_of(row.point)
        if turn and turn != above:
            found[number] = f"turn {turn}  {path_text(words.get(turn) or '') or _session(row.point)}".rstrip()
        above = turn
    return found


def _show_moved(console: Console, found: Timeline, where: list[str]) -> None:
    """What git would show as moved, in one line, and what brings it back."""
    if found.moved is None:
        return
    back = console.command("rollback", found.moved.point.short, "--git", *where)
    console.line(f"In git since {found.moved.point.short}: {path_text(found.moved.words)}")
    console.line(f"Bring that back, too: `{back}`")


def _show_left_out(console: Console, found: Timeline) -> None:
    """What would be lost, named before it is."""
    if not found.left_out.count:
        return
    from .remarks import not_kept_text

    show = console.command("checkpoint", found.project or found.directory, "--show")
    console.line(f"In no checkpoint: {not_kept_text(found.left_out)} (`{show}`)")


def _show_ways_back(console: Console, found: Timeline, where: list[str], git: bool) -> None:
    from safekept.actions.projects.turns.turn import turn_of

    first = next((row.point.short for row in found.rows if row.number and not row.here), "")
    if first:
        back = console.command("rollback", first, *(["--git"] if git else []), *where)
        if found.gone:
            console.line(f"Bring it back as it was last: `{back}`")
        else:
            what = "Undo everything since one" if found.home is None else "Bring the files of one"
            console.line(f"{what} of them{'' if found.home is None else ' back'}: `{back}`")
        if turn := next((name for row in found.rows if row.number and (name := turn_of(row.point))), ""):
            back = console.command("rollback", "--turn", turn)
            console.line(f"Take one turn back, everywhere: `{back}`")
        console.line(f"See it first: `{console.command('rollback', first, '--diff', *where)}`")
    if found.home_points:
        newest = console.command("rollback", found.home_points[0].short)
        console.line(f"Bring files of the agent's home back by the id: `{newest}`")


def _show_near(console: Console, found: Timeline) -> int:
    console.line(f"There are no checkpoints of {path_text(found.directory)}")
    for title, projects in (("Below it", found.near.below), ("Around it", found.near.above)):
        for number, project in enumerate(projects[:SHOWN]):
            command = console.command("rollback", "--dir", project)
            console.fact(title if number == 0 else "", f"{path_text(project)}   `{command}`")
    if found.never:
        console.line(f"It is never taken whole; name a project: `{console.command('checkpoint', 'DIR')}`")
    elif not found.near.all:
        console.line(f"Take one: `{console.command('checkpoint')}`")
    if found.home_points:
        console.line("Files of agents' homes were kept:")
        table(console, [_HEAD, *map(_cells, found.in_order)], cut=True)
        back = console.command("rollback", found.home_points[0].short)
        console.line(f"Bring them back by the id: `{back}`")
    console.line(f"Those of every project: `{console.command('rollback', '--all-projects')}`")
    return 0


def show_every_point(console: Console, found: EveryPoint, every: bool) -> int:
    """The points of all projects and homes in one timeline."""
    console.document(found.as_dict())
    if not found.points:
        console.line("There are no checkpoints")
        return 0
    shown = found.points if every else found.points[:_ROWS]
    rows = [("ID", "WHEN", "PROJECT", "SESSION", "REASON")]
    for point in shown:
        place = path_text(point.place) + (" (gone)" if point.place in found.gone else "")
        rows.append((point.short, ago(point.time_ns), place, _session(point), _reason(point)))
    table(console, rows, cut=True)
    if len(shown) < len(found.points):
        console.line(f"  … and {len(found.points) - len(shown):,} older ones: --all")
    for point in found.of_kind(home=False)[:1]:
        newest = console.command("rollback", point.id, "--dir", point.place)
        console.line(f"Go back to one in its project: `{newest}`")
    for point in found.of_kind(home=True)[:1]:
        console.line(f"Bring files of an agent's home back: `{console.command('rollback', point.short)}`")
    return 0


def show_difference(console: Console, found: PointDifference) -> int:
    """What changed since a point."""
    console.document(found.as_dict())
    if not found.files:
        console.line(f"Nothing changed since {found.point.title}")
        return 0
    for line in found.lines:
        console.verbatim(line, **styled(line))
    console.line(f"{count_text(len(found.files), 'file')} changed since {found.point.title}")
    return 0


def about(point: HomePoint, at_home: bool = True) -> str:
    """Why a home point was taken, and of what; among the points of a project, whose that is comes first."""
    names = ", ".join(path_text(path) for path in point.paths[:_SHOWN_PATHS])
    more = f" and {len(point.paths) - _SHOWN_PATHS} more" if len(point.paths) > _SHOWN_PATHS else ""
    reason = path_text(point.reason.split("\n")[0])
    if not at_home:
        return f"agent's {names}{more}, {reason}" if reason else f"agent's {names}{more}"
    return f"{reason} ({names}{more})" if reason else names + more


def _cells(row: PointRow, at_home: bool = False) -> tuple[str, ...]:
    from safekept.actions.projects.turns.turn import turn_of

    point = row.point
    return (
        str(row.number) if row.number else "",
        point.short,
        ago(point.time_ns),
        "DAMAGED" if row.damaged else "you are here" if row.here else changes_text(row.changes),
        "" if turn_of(point) else _session(point),
        _reason(point, at_home),
    )


def _session(point: Checkpoint | HomePoint) -> str:
    return path_text(point.session)[:16]


def _reason(point: Checkpoint | HomePoint, at_home: bool = False) -> str:
    """Why it was taken, after what kind of a point it is."""
    from safekept.actions.projects.home_points.point import HomePoint

    if isinstance(point, HomePoint):
        kind, why = "undo point" if point.undo and at_home else "", about(point, at_home)
    else:
        kind, why = _KINDS.get(point.kind, ""), path_text(point.reason.split("\n")[0])
    text = ": ".join(part for part in (kind, why) if part)
    longest = _LONGEST.get(point.kind, 60)
    return text if len(text) <= longest else text[: longest - 1] + "…"
