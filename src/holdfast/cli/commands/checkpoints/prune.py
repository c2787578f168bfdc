"""`holdfast checkpoints prune`: drop what the limits say, with a plan first, and reclaim its room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from holdfast.cli.console import Console, count_text, path_text, size_text
from holdfast.cli.options import common_options, start
from holdfast.cli.points import ago, consent, policy_from

if TYPE_CHECKING:
    from holdfast.actions.checkpoints import Pruned
    from holdfast.checkpoints.retention import ProjectPoints, RetentionPlan

_REASONS = {
    "count": "beyond the number kept per project",
    "age": "older than the retention",
    "size": "the oldest over all, down to the size limit",
    "orphan": "of deleted projects",
    "looked": "taken for a look, not needed any more",
    "clear": "all of them",
}


@click.command("prune")
@click.option("--retention-days", metavar="N", type=click.FloatRange(min=0), help="Drop older ones; 0: none.")
@click.option(
    "--max-size-mb", metavar="N", type=click.FloatRange(min=0), help="Drop down to N MB; 0: no limit."
)
@click.option("--keep-orphans", is_flag=True, help="Keep those of deleted projects.")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask; the plan is carried out.")
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@common_options
def command(
    retention_days: float | None,
    max_size_mb: float | None,
    keep_orphans: bool,
    force: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Drop checkpoints as the limits say, oldest first and no more than needed, and reclaim their room.

    The newest of each living project always stays. What is dropped can be reclaimed by the disk only
    after an hour of grace. Projects that cannot be reached are left alone.
    """
    from holdfast.actions.checkpoints import PruneRequest, carry_out_prune, plan_prune

    settings, surroundings, console = start(as_json)
    policy = policy_from(settings, surroundings, home, layout)
    request = PruneRequest(retention_days, max_size_mb, keep_orphans)
    plan, projects = plan_prune(surroundings, policy, request)
    show_plan(console, plan, projects)
    if dry_run:
        console.document({"dry_run": True, "plan": plan.as_dict()})
        console.line("Nothing was changed")
        return 0
    if plan.drop:
        again = console.command(*_again(retention_days, max_size_mb, keep_orphans))
        consent(console, force, f"{count_text(len(plan.drop), 'checkpoint')} would be dropped", again)
    pruned = carry_out_prune(surroundings, policy, plan)
    show_pruned(console, pruned)
    return 0


def _again(retention_days: float | None, max_size_mb: float | None, keep_orphans: bool) -> list[str]:
    words = ["checkpoints", "prune"]
    words += ["--retention-days", f"{retention_days:g}"] if retention_days is not None else []
    words += ["--max-size-mb", f"{max_size_mb:g}"] if max_size_mb is not None else []
    return words + (["--keep-orphans"] if keep_orphans else [])


def show_plan(console: Console, plan: RetentionPlan, projects: list[ProjectPoints]) -> None:
    """What goes and why, and what stays although it looks as if it could go."""
    if not plan.drop:
        console.heading("Nothing has to be dropped")
    else:
        console.heading(f"{count_text(len(plan.drop), 'checkpoint')} to drop", good=False)
    counts = Counter(drop.reason for drop in plan.drop)
    for reason, count in counts.items():
        oldest = min(drop.checkpoint.time_ns for drop in plan.drop if drop.reason == reason)
        console.fact(f"{count:,}", f"{_REASONS[reason]} (the oldest {ago(oldest)})")
    for project in plan.orphans:
        console.fact("Orphan", path_text(project))
    for each in projects:
        if each.presence.state == "unreachable":
            console.fact("Kept", f"{path_text(each.project)}: {each.presence.reason}")
    if plan.still_over:
        console.fact(
            "Over", f"{size_text(plan.still_over)} above the limit stay: the newest are never dropped"
        )


def show_pruned(console: Console, pruned: Pruned) -> None:
    console.document(
        {
            "operation": pruned.operation,
            "plan": pruned.plan.as_dict(),
            "dropped": pruned.upkeep.dropped,
            "size_before": pruned.size_before,
            "size_after": pruned.size_after,
            "remarks": pruned.upkeep.remarks,
        }
    )
    console.heading(f"Dropped {count_text(pruned.upkeep.dropped, 'checkpoint')}")
    console.fact("Size", f"{size_text(pruned.size_before)} before, {size_text(pruned.size_after)} now")
    if pruned.upkeep.dropped and not pruned.upkeep.freed:
        console.fact("", "what only they held is reclaimed after an hour of grace")
    for remark in pruned.upkeep.remarks:
        console.fact("Note", remark)
