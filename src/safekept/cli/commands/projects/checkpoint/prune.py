"""`safekept checkpoint prune`: drop what the limits say, with a plan first, and reclaim its room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from safekept.settings.policies import policy_from

from ....console import Console, count_text, path_text, size_text
from ....options import Amount, common_options, start
from ....words.grace import gone_text
from ....words.lists import ago, consent, listing

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.care import Pruned
    from safekept.checkpoints.upkeep import ProjectPoints, RetentionPlan


_REASONS = {
    "count": "beyond the number kept per project",
    "age": "older than the retention",
    "size": "the oldest over all, down to the size limit",
    "orphan": "of deleted projects",
    "looked": "taken for a look, not needed any more",
    "clear": "all of them",
}


@click.command("prune")
@click.option(
    "--retention-days",
    metavar="N",
    type=Amount(min=0),
    help="Drop those that are older; 0: none for their age; default: the setting "
    "`checkpoints.retention_days`.",
)
@click.option(
    "--max-size-mb",
    metavar="N",
    type=Amount(min=0),
    help="Drop the oldest over all projects until N MB are left; 0: no limit; default: the setting"
    " `checkpoints.max_total_size_mb`.",
)
@click.option("--keep-orphans", is_flag=True, help="Keep those of deleted projects.")
@click.option(
    "--now", is_flag=True, help="For good: nothing that was dropped, now or before, can be brought back."
)
@click.option(
    "--undo",
    is_flag=True,
    help="Bring back all that was dropped and is still kept, by anyone.",
)
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask; the plan is carried out.")
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@common_options
def prune_command(
    retention_days: float | None,
    max_size_mb: float | None,
    keep_orphans: bool,
    now: bool,
    undo: bool,
    force: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Drop checkpoints as the limits say, oldest first and no more than needed, and reclaim their room.

    The newest of each living project always stays, so do undo points of the last day and what a rollback in
    progress needs; projects that cannot be reached are left alone. For three days what is dropped can be
    brought back, for an hour where the store is beyond its limit, and not at all on a disk that is nearly
    full; `--now` gives its room back at once.
    """
    if undo and (now or keep_orphans or retention_days is not None or max_size_mb is not None):
        raise click.UsageError("--undo brings back what was dropped; it goes with no limit and no --now.")
    from safekept.actions.projects.care import PruneRequest, carry_out_prune, plan_prune

    settings, context, console = start(as_json)
    if undo:
        return _bring_back(console, context, dry_run)
    policy = policy_from(settings, context, home, layout)
    request = PruneRequest(retention_days, max_size_mb, keep_orphans)
    plan, projects = plan_prune(context, policy, request)
    show_plan(console, plan, projects)
    if dry_run:
        console.document({"dry_run": True, "plan": plan.as_dict()})
        console.line("Nothing was changed")
        return 0
    if plan.drop:
        again = console.command(*_again(retention_days, max_size_mb, keep_orphans, now))
        what = f"{count_text(len(plan.drop), 'checkpoint')} would be dropped{' for good' if now else ''}"
        consent(console, force, what, again)
    pruned = carry_out_prune(context, policy, plan, now=now)
    show_pruned(console, pruned, policy.maintenance.limits.max_total_bytes)
    return 0


def _bring_back(console: Console, context: UserContext, dry_run: bool) -> int:
    from safekept.actions.undo.dropped import recall_checkpoints

    found = recall_checkpoints(context, lambda entry: True, dry_run=dry_run)
    console.document({"dry_run": dry_run, "brought_back": found.as_dict()})
    verb = "Would bring back" if dry_run else "Brought back"
    console.heading(f"{verb} {count_text(len(found.back), 'checkpoint')}", not found.lost)
    listing(console, "Back", found.back)
    listing(console, "Gone", found.lost)
    for note in found.notes:
        console.fact("Note", note)
    return 3 if found.lost else 0


def _again(
    retention_days: float | None, max_size_mb: float | None, keep_orphans: bool, now: bool
) -> list[str]:
    words = ["checkpoint", "prune"]
    words += ["--retention-days", f"{retention_days:g}"] if retention_days is not None else []
    words += ["--max-size-mb", f"{max_size_mb:g}"] if max_size_mb is not None else []
    return words + (["--keep-orphans"] if keep_orphans else []) + (["--now"] if now else [])


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


def show_pruned(console: Console, pruned: Pruned, limit: int) -> None:
    """What went, until when it can be brought back, and how."""
    undo = console.command("undo", pruned.operation) if pruned.kept_until else ""
    sizes = pruned.facts.document("size_before", "size_after")
    console.document(
        {
            "operation": pruned.operation,
            "plan": pruned.plan.as_dict(),
            **pruned.facts.document("dropped"),
            **sizes,
            "remarks": pruned.upkeep.remarks,
            "kept_until": pruned.kept_until or None,
            "undo": undo or None,
        }
    )
    console.heading(f"Dropped {count_text(pruned.upkeep.dropped, 'checkpoint')}")
    console.fact("Size", f"{size_text(sizes['size_before'])} before, {size_text(sizes['size_after'])} now")
    if pruned.upkeep.dropped:
        sooner = f"the store is beyond its limit of {size_text(limit)}" if limit and pruned.kept_until else ""
        console.fact("Kept", gone_text(pruned.kept_until, sooner))
    if undo:
        console.fact("", f"bring them back: `{undo}`")
    for remark in pruned.upkeep.remarks:
        console.fact("Note", remark)


# `safekept checkpoint clear`: drop all checkpoints of all projects.


@click.command("clear")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask; the plan is carried out.")
@click.option(
    "--now", is_flag=True, help="For good: without the three days in which they can be brought back."
)
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@common_options
def clear_command(force: bool, now: bool, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
    """Drop all checkpoints of all projects. The projects themselves are not touched.

    For three days they can be brought back by the command that is printed, unless the disk is nearly
    full or the store beyond its limit; `--now` gives their room back at once.
    """
    from safekept.actions.projects.care import carry_out_prune, plan_clear

    settings, context, console = start(as_json)
    plan = plan_clear(context)
    show_plan(console, plan, [])
    if dry_run:
        console.document({"dry_run": True, "plan": plan.as_dict()})
        console.line("Nothing was changed")
        return 0
    if plan.drop:
        what = f"all {count_text(len(plan.drop), 'checkpoint')} would be dropped{' for good' if now else ''}"
        again = console.command("checkpoint", "clear", *(["--now"] if now else []))
        consent(console, force, what, again)
    policy = policy_from(settings, context, home, layout)
    pruned = carry_out_prune(context, policy, plan, everything=True, now=now)
    show_pruned(console, pruned, policy.maintenance.limits.max_total_bytes)
    return 0
