"""Home points in words: a list of them, what going back to one did, and what changed since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, time_text
from .points import ago, fitting, listing, table

if TYPE_CHECKING:
    from safekept.actions.projects.home_points.difference import HomeDifference
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.home_points.rollback import HomeRollback
    from safekept.actions.projects.home_points.timeline import HomeTimeline

_ROWS = 20
_SHOWN_PATHS = 3


def point_row(point: HomePoint) -> tuple[str, ...]:
    """A row in the list of a project: no number, and what it is about."""
    return (
        "",
        point.short,
        ago(point.time_ns),
        "",
        path_text(point.session)[:16],
        _cut(f"home: {told(point)}"),
    )


def show_points(console: Console, points: Sequence[HomePoint]) -> None:
    """Those of homes, where there is no list of a project that they could stand in."""
    if not points:
        return
    console.line("Files of agents' homes were kept:")
    table(console, [("#", "ID", "WHEN", "", "SESSION", "REASON"), *map(point_row, points)], cut=True)
    console.line(f"Bring them back by the id: `{console.command('rollback', points[0].short)}`")


def told(point: HomePoint) -> str:
    """Why it was taken, and of what."""
    names = ", ".join(path_text(path) for path in point.paths[:_SHOWN_PATHS])
    more = f" and {len(point.paths) - _SHOWN_PATHS} more" if len(point.paths) > _SHOWN_PATHS else ""
    reason = path_text(point.reason.split("\n")[0])
    return f"{reason} ({names}{more})" if reason else names + more


def show_home(console: Console, found: HomeTimeline, where: list[str], every: bool, filtered: bool) -> int:
    """The list of one home."""
    home = path_text(found.home)
    if not found.rows:
        what = "match" if filtered else "to go back to: nothing changed since the last one"
        console.line(f"No home points of {home} {what}")
    else:
        console.heading(f"Home points of {home}")
        rows: list[tuple[str, ...]] = [("#", "ID", "WHEN", "THEN CHANGED", "SESSION", "REASON")]
        shown = found.rows if every else found.rows[:_ROWS]
        for row in shown:
            changed = count_text(row.changed, "file") if row.changed else ""
            reason = ("undo point: " if row.point.undo else "") + told(row.point)
            cells = (row.point.short, ago(row.point.time_ns), changed, path_text(row.point.session)[:16])
            rows.append((str(row.number) if row.number else "", *cells, _cut(reason)))
        table(console, rows, cut=True)
        if len(shown) < len(found.rows):
            console.line(f"  … and {len(found.rows) - len(shown):,} older ones: --all")
        first = next((str(row.number) for row in found.rows if row.number), "")
        if first:
            back = console.command("rollback", first, *where)
            console.line(f"Bring the files of one of them back: `{back}`")
            console.line(f"See it first: `{console.command('rollback', first, '--diff', *where)}`")
    if found.hidden and not every:
        more = console.command("rollback", "--all", *where)
        console.line(f"Not shown: {count_text(found.hidden, 'point')} without a number (`{more}`)")
    return 0


def show_home_outcome(console: Console, outcome: HomeRollback) -> int:
    """What was done, what stays and why, and how to take it back; the exit code."""
    point = outcome.point
    undo = console.command("undo", outcome.operation) if outcome.operation else None
    console.document({"dry_run": outcome.dry_run, **outcome.as_dict(), "undo": undo})
    verb = "Would go back to" if outcome.dry_run else "Went back to"
    if not outcome.differs:
        verb = "Would change nothing for" if outcome.dry_run else "Changed nothing for"
    complete = outcome.dry_run or outcome.complete
    console.heading(f"{verb} home point {point.short} of {path_text(point.home)}", complete)
    console.fact("Taken", fitting(f"{ago(point.time_ns)}, {told(point)}", 13))
    tense = ("Restores", "Removes") if outcome.dry_run else ("Restored", "Removed")
    listing(console, tense[0], sorted((*outcome.create, *outcome.replace)))
    listing(console, tense[1], outcome.remove)
    listing(console, "Left", [f"{path}: {reason}" for path, reason in outcome.left])
    for note in outcome.notes:
        console.fact("Note", note)
    if not outcome.differs:
        console.line("Nothing differs: no file had to be changed")
    if outcome.dry_run:
        console.line("Nothing was changed")
        return 0
    if outcome.landed is not None:
        console.fact("Time", time_text(outcome.landed.seconds))
        console.line("Restart the agent to use what came back")
        console.line(f"Changed your mind? `{undo}`")
    return 0 if outcome.complete else 3


def show_home_difference(console: Console, found: HomeDifference) -> int:
    console.document(found.as_dict())
    if not found.paths:
        console.line(f"Nothing changed since home point {found.point.short}")
        return 0
    from .points import styled

    for line in found.lines:
        console.line(line, **styled(line))
    count = count_text(len(found.paths), "file")
    console.line(f"{count} changed since home point {found.point.short}")
    return 0


def _cut(text: str) -> str:
    return text if len(text) <= 76 else text[:75] + "…"
