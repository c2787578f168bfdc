"""`safekept rollback`: see the checkpoints of a project, and go back to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from safekept.settings.policies import policy_from

from ...console import Console, count_text, path_text
from ...options import common_options, start
from ...words.points import SHOWN, ago, at_directory, changes_text, directory_of, styled, table

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.checkpoint import CheckpointPolicy
    from safekept.actions.projects.timeline import Timeline
    from safekept.checkpoints.checkpoint import Checkpoint

_ROWS = 20
_KINDS = {"after": "mark", "undo": "undo point"}


@click.command("rollback")
@click.argument("target", metavar="[N|ID]", required=False, default="")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--diff", is_flag=True, help="Show what changed since then; change nothing.")
@click.option("--undo", is_flag=True, help="Take the last rollback back.")
@click.option("--dir", "directory", metavar="DIR", default="", help="The project; default: where you are.")
@click.option("--session", metavar="ID", default="", help="List only what this session of an agent left.")
@click.option("--turn", metavar="ID", default="", help="List only this turn.")
@click.option("--all", "every", is_flag=True, help="List everything: marks, undo points, unchanged ones.")
@click.option("--all-projects", is_flag=True, help="List the points of every project in one timeline.")
@click.option("--overwrite-mine", is_flag=True, help="Also take back what you changed after the agent.")
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@common_options
def command(
    target: str,
    files: tuple[str, ...],
    diff: bool,
    undo: bool,
    directory: str,
    session: str,
    turn: str,
    every: bool,
    all_projects: bool,
    overwrite_mine: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Without N, list the checkpoints of the project you are in; with N or an ID, go back to it.

    `rollback 1` undoes the last change. It shows what it does and does it, without asking: what it
    replaces is kept first, and `rollback --undo` brings that back. With FILE only those files. Files
    that you changed after the agent's last turn stay as they are, and are listed.

    Files of an agent's own home (skills, jobs, memories) that were kept before a change are in the same
    list, without a number: their ID brings them back. In the home itself they have numbers.
    """
    if undo and (files or diff):
        raise click.UsageError("--undo takes back a whole rollback; it goes with no FILE and no --diff.")
    if any(not name.strip() for name in files) or (files and not target.strip()):
        raise click.UsageError("An empty name means no file; without FILE everything goes back.")
    settings, context, console = start(as_json)
    policy = policy_from(settings, context, home, layout)
    place = directory_of(directory)
    if all_projects:
        return show_everything(console, context, session, turn, every)
    from safekept.actions.projects.home_points.timeline import named_point

    from ...words.home_rollback import difference_home, go_back_home, undo_home

    if diff:
        if target and not files and not _is_address(target):
            target, files = "1", (target,)
        if point := named_point(context, place, target or "1"):
            return difference_home(console, context, point, place, files)
        return _difference(console, context, place, target or "1", files, policy)
    if not target and not undo:
        from safekept.actions.projects.rollback import list_timeline

        found = list_timeline(context, place, settings=policy.take, session=session, turn=turn, every=every)
        return _show_timeline(console, found, at_directory(directory), every, bool(session or turn))
    from safekept.actions.projects.home_points.rollback import last_home_rollback

    if undo and not target and (operation := last_home_rollback(context, place)):
        return undo_home(console, context, operation, dry_run)
    if not undo and (point := named_point(context, place, target)):
        days = settings.number("import.keep_days")
        return go_back_home(console, context, point, place, files, dry_run, session, days)
    from safekept.actions.projects.rollback import RollbackRequest, rollback

    request = RollbackRequest(
        directory=place,
        target=target,
        files=files,
        overwrite_mine=overwrite_mine,
        undo=undo,
        dry_run=dry_run,
        session=session,
        settings=policy.take,
    )
    from ...words.rolled_back import show_outcome

    outcome = rollback(context, request, console.listener())
    console.finish()
    return show_outcome(console, outcome, at_directory(directory), undo)


def _is_address(word: str) -> bool:
    from safekept.actions.projects.home_points.point import may_be_point
    from safekept.checkpoints.checkpoint import SHORTEST_PREFIX, is_checkpoint_id

    word = word.lower()
    return word.isdecimal() or is_checkpoint_id(word, SHORTEST_PREFIX) or may_be_point(word)


# ── lists ──────────────────────────────────────────────────────────────────────────────────────────


def _show_timeline(console: Console, found: Timeline, where: list[str], every: bool, filtered: bool) -> int:
    from safekept.actions.projects.timeline import Row

    from ...words.home_points import point_row, show_home

    hidden = found.home.hidden if found.home is not None else found.hidden
    console.document({**found.as_dict(), "hidden": hidden})
    if found.home is not None:
        return show_home(console, found.home, where, every, filtered)
    if found.project is None:
        return _show_near(console, found)
    if not found.rows and not found.home_points:
        what = "match" if filtered else "to go back to: nothing changed since the last one"
        console.line(f"No checkpoints of {path_text(found.project)} {what}")
    else:
        console.heading(f"Checkpoints of {path_text(found.project)}")
        rows: list[tuple[str, ...]] = [("#", "ID", "WHEN", "THEN CHANGED", "SESSION", "REASON")]
        points = found.in_order
        shown = points if every else points[:_ROWS]
        for row in shown:
            if isinstance(row, Row):
                changed = "DAMAGED" if row.damaged else changes_text(row.changes)
                rows.append(_row(row.number, row.checkpoint, changed))
            else:
                rows.append(point_row(row))
        table(console, rows, cut=True)
        if len(shown) < len(points):
            console.line(f"  … and {len(points) - len(shown):,} older ones: --all")
        first = next((row.number for row in found.rows if row.number), 0)
        if first:
            console.line(
                f"Undo everything since one of them: `{console.command('rollback', str(first), *where)}`"
            )
            console.line(f"See it first: `{console.command('rollback', str(first), '--diff', *where)}`")
        if found.home_points:
            newest = console.command("rollback", found.home_points[0].short)
            console.line(f"Bring files of the agent's home back by the id: `{newest}`")
    if any(row.damaged for row in found.rows):
        console.line(f"Part of it is missing from the store: `{console.command('checkpoints', 'status')}`")
    if found.hidden and not every:
        marks = count_text(found.hidden, "point")
        console.line(
            f"Not shown: {marks} without a number (`{console.command('rollback', '--all', *where)}`)"
        )
    return 0


def _row(number: int, point: Checkpoint, changed: str) -> tuple[str, ...]:
    kind = _KINDS.get(point.kind, "")
    reason = path_text(": ".join(part for part in (kind, point.reason.split("\n")[0]) if part))
    return (
        str(number) if number else "",
        point.id,
        ago(point.time_ns),
        changed,
        path_text(point.session)[:16],
        reason if len(reason) <= 60 else reason[:59] + "…",
    )


def _show_near(console: Console, found: Timeline) -> int:
    from ...words.home_points import show_points

    console.line(f"There are no checkpoints of {path_text(found.directory)}")
    for title, projects in (("Below it", found.near.below), ("Around it", found.near.above)):
        for number, project in enumerate(projects[:SHOWN]):
            command = console.command("rollback", "--dir", project)
            console.fact(title if number == 0 else "", f"{path_text(project)}   `{command}`")
    if not found.near.all:
        console.line(f"Take one: `{console.command('checkpoint')}`")
    show_points(console, found.home_points)
    console.line(f"Those of every project: `{console.command('rollback', '--all-projects')}`")
    return 0


def show_everything(console: Console, context: UserContext, session: str, turn: str, every: bool) -> int:
    """The points of all projects in one timeline."""
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.home_points.timeline import home_points
    from safekept.actions.projects.rollback import list_everything

    from ...words.home_points import point_row

    points = [
        point
        for point in list_everything(context)
        if (not session or point.session == session)
        and (not turn or point.turn == turn)
        and (every or point.numbered)
    ]
    at_home = home_points(context, session=session, turn=turn, every=every)
    console.document(
        {
            "checkpoints": [point.as_dict() for point in points],
            "home_points": [point.as_dict() for point in at_home],
        }
    )
    if not points and not at_home:
        console.line("There are no checkpoints")
        return 0
    both: list[Checkpoint | HomePoint] = [*points, *at_home]
    both.sort(key=lambda one: one.time_ns, reverse=True)
    shown = both if every else both[:_ROWS]
    rows = [("ID", "WHEN", "PROJECT", "SESSION", "REASON")]
    for point in shown:
        if isinstance(point, HomePoint):
            place, (_, name, when, _, who, reason) = point.home, point_row(point)
        else:
            place, (_, name, when, _, who, reason) = point.project, _row(0, point, "")
        rows.append((name, when, path_text(place), who, reason))
    table(console, rows, cut=True)
    if len(shown) < len(both):
        console.line(f"  … and {len(both) - len(shown):,} older ones: --all")
    if points:
        newest = console.command("rollback", points[0].id, "--dir", points[0].project)
        console.line(f"Go back to one in its project: `{newest}`")
    if at_home:
        back = console.command("rollback", at_home[0].short)
        console.line(f"Bring files of an agent's home back: `{back}`")
    return 0


# ── differences ────────────────────────────────────────────────────────────────────────────────────


def _difference(
    console: Console,
    context: UserContext,
    place: str,
    target: str,
    files: tuple[str, ...],
    policy: CheckpointPolicy,
) -> int:
    from safekept.actions.projects.rollback import show_difference

    found = show_difference(context, place, target, files, settings=policy.take)
    console.document(found.as_dict())
    if not found.pairs:
        console.line(f"Nothing changed since checkpoint {found.checkpoint.id}")
        return 0
    for line in found.lines:
        console.line(line, **styled(line))
    console.line(f"{count_text(len(found.pairs), 'file')} changed since checkpoint {found.checkpoint.id}")
    return 0
