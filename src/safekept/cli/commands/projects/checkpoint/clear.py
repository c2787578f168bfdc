"""`safekept checkpoint clear`: drop all checkpoints of all projects."""

from __future__ import annotations

import click

from safekept.settings.policies import policy_from

from ....console import count_text
from ....options import common_options, start
from ....words.lists import consent
from .prune import show_plan, show_pruned


@click.command("clear")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask; the plan is carried out.")
@click.option(
    "--now", is_flag=True, help="For good: without the three days in which they can be brought back."
)
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@common_options
def command(force: bool, now: bool, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
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
    pruned = carry_out_prune(context, policy, plan, "checkpoints-clear", now=now)
    show_pruned(console, pruned, policy.maintenance.limits.max_total_bytes)
    return 0
