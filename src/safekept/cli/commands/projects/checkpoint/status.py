"""`safekept checkpoint status`: how large the checkpoints are, of what, and whether taking them works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from safekept.settings.policies import policy_from

from ....console import Console, count_text, path_text, size_text
from ....options import common_options, start
from ....words.grace import date_text
from ....words.lists import ago, table

if TYPE_CHECKING:
    from safekept.actions.projects.care import CheckpointStatus, ProjectStatus
    from safekept.checkpoints.upkeep import Upkeep


_ROWS = 20
#: What became of a project that is not where it was.
_PRESENCE = {"orphan": "Gone", "unreachable": "Not reached"}


@click.command("status")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=_ROWS,
    help="How many projects to show; default: 20.",
)
@common_options
def status_command(limit: int, home: str, layout: str, as_json: bool) -> int:
    """How large the checkpoints are, of which projects, and whether taking and keeping them works."""
    from safekept.actions.projects.care import checkpoint_status

    settings, context, console = start(as_json)
    found = checkpoint_status(context, policy_from(settings, context, home, layout))
    console.document(found.as_dict())
    show(console, found, limit)
    return 0


def show(console: Console, found: CheckpointStatus, limit: int) -> None:
    points = sum(project.checkpoints for project in found.projects)
    console.heading(
        f"{count_text(points, 'checkpoint')} of {count_text(len(found.projects), 'project')}", found.healthy
    )
    cap = f" of {size_text(found.limits.max_total_bytes)}" if found.limits.max_total_bytes else ""
    console.fact("Size", f"{size_text(found.size.total)}{cap}")
    console.fact("Place", path_text(found.directory))
    kept = [f"{found.limits.max_snapshots:,} per project"] if found.limits.max_snapshots else []
    kept += [f"{found.limits.retention_days:g} days"] if found.limits.retention_days else []
    console.fact("Keeps", ", ".join([*kept, "and always the newest of each"]))
    _show_upkeep(console, found.upkeep)
    if found.dropped:
        until = f"kept until {date_text(found.dropped_until)}"
        undo = console.command("checkpoint", "prune", "--undo")
        console.fact("Dropped", f"{count_text(found.dropped, 'checkpoint')}, {until}; bring back: `{undo}`")
    if found.damage.packs:
        packs = count_text(len(found.damage.packs), "pack")
        console.fact("Damage", f"{packs} of the store cannot be trusted: {found.damage.what}")
        console.fact("", "points that need them may be lost; each project is stored again at its next turn")
    for archive in found.legacy:
        names = count_text(len(archive.repositories), "older repository", "older repositories")
        console.fact(
            "Archived", f"{path_text(archive.path)}: {names} of Hermes's, {size_text(archive.bytes)}"
        )
    if found.projects:
        console.line()
        rows: list[tuple[str, ...]] = [("POINTS", "HIDDEN", "NEWEST", "STATE", "PROJECT")]
        rows += [_row(project) for project in found.projects[:limit]]
        table(console, rows)
        if any(project.checkpoints > project.numbered for project in found.projects):
            every = console.command("rollback", "--all")
            console.line(f"Hidden: marks, and points that only take a rollback back; `{every}` lists them")
        if len(found.projects) > limit:
            console.line(f"  … and {len(found.projects) - limit:,} more projects: --limit")
    _show_trouble(console, found)


def _row(project: ProjectStatus) -> tuple[str, ...]:
    return (
        f"{project.numbered:,}",
        f"{hidden:,}" if (hidden := project.checkpoints - project.numbered) else "",
        ago(project.newest_ns) if project.newest_ns else "never",
        "FAILING" if project.failing else project.presence,
        path_text(project.project),
    )


def _show_upkeep(console: Console, upkeep: Upkeep) -> None:
    if not upkeep.started:
        console.fact("Upkeep", "has not run yet")
        return
    if upkeep.failures:
        times = count_text(upkeep.failures, "time")
        console.fact(
            "Upkeep", f"FAILED {times} in a row, last {ago(int(upkeep.ended * 1e9))}: {upkeep.error}"
        )
        return
    freed = f", freed {size_text(upkeep.freed)}" if upkeep.freed else ""
    dropped = f", dropped {upkeep.dropped:,}" if upkeep.dropped else ""
    console.fact("Upkeep", f"{ago(int(upkeep.succeeded * 1e9))}{dropped}{freed}")
    if upkeep.still_over:
        console.fact("", f"{size_text(upkeep.still_over)} over the limit: what is left may not be dropped")
    if upkeep.damage:
        console.fact(
            "Damage", f"{count_text(len(upkeep.damage), 'object')} cannot be read; others are not affected"
        )


def _show_trouble(console: Console, found: CheckpointStatus) -> None:
    """Projects in which the last attempt failed, and those that are not where they were."""
    for project in found.projects:
        failure, name = project.state.last_failure, path_text(project.project)
        if project.failing:
            when = ago(int(str(failure.get("time_ns", 0))))
            console.line(f"Not protected: {name}: {failure.get('what')} ({when})", fg="yellow")
        if project.state.unprotected:
            console.line(
                f"Commands not protected: {name} {project.state.unprotected.get('what')}", fg="yellow"
            )
        if project.state.limited:
            console.line(f"Named files only: {name}: {project.state.limited.get('what')}", fg="yellow")
        if project.damaged:
            names = ", ".join(project.damaged[:5]) + (" …" if len(project.damaged) > 5 else "")
            one = count_text(len(project.damaged), "checkpoint")
            console.line(f"Damaged: {name}: {one} not whole any more ({names}); the others are not affected")
        if project.presence != "live":
            console.line(f"{_PRESENCE[project.presence]}: {name}: {project.reason}")
            back = console.command("rollback", "1", "--dir", project.project)
            console.line(f"  What is kept of it comes back with `{back}`")


# `safekept checkpoint list`: every checkpoint of every project.


@click.command("list")
@click.option("--all", "every", is_flag=True, help="Marks and undo points, too, and all of them.")
@common_options
def list_command(every: bool, home: str, layout: str, as_json: bool) -> int:
    """Every checkpoint of every project, newest first: the same as `safekept rollback --all-projects`."""
    from safekept.actions.projects.points import Points

    from ....words.points import show_every_point

    _, context, console = start(as_json)
    with Points(context, "") as points:
        return show_every_point(console, points.everywhere(every=every), every)
