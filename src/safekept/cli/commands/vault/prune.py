"""`safekept vault prune`: give the room of forgotten snapshots back."""

from __future__ import annotations

import click

from safekept.actions.base.consent import ConsentNeeded
from safekept.actions.vault.care import plan_vault_prune, prune_vault
from safekept.actions.vault.opening import open_vault
from safekept.core.next_step import NextStep
from safekept.vault.care import Pruned, PrunePlan
from safekept.vault.snapshots import public_id

from ...console import Console, count_text, path_text, size_text
from ...options import start
from ...words.grace import first_to_go
from .options import json_option


@click.command("prune")
@click.option("--now", is_flag=True, help="Without the three days in which a forgotten one can come back.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would go; delete nothing.")
@json_option
def command(now: bool, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete what forgotten snapshots alone needed, and give the room back.

    A forgotten snapshot can be called back for three days; then it goes for good here. Snapshots
    that are not forgotten are never touched.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        plan = plan_vault_prune(repository, now=now, listener=console.listener())
        console.finish()
        _show_plan(console, context.places.vault, plan)
        if dry_run or plan.empty:
            console.document({"dry_run": dry_run, "plan": plan.as_dict(), "pruned": None})
            if dry_run:
                console.line("Nothing was deleted")
            return 0
        if not yes:
            if not console.can_ask():
                again = "safekept vault prune --now" if now else "safekept vault prune"
                raise ConsentNeeded(
                    "deleting for good needs your consent",
                    kept="Nothing was deleted",
                    next_steps=(f"See the plan: `{again} --dry-run`", f"Agree to it: `{again} --yes`"),
                )
            if not console.ask("Delete?"):
                raise click.Abort
        pruned = prune_vault(context, repository, plan, listener=console.listener())
        console.finish()
    console.document({"dry_run": False, "plan": plan.as_dict(), "pruned": pruned.as_dict()})
    _show_result(console, pruned)
    return 0


def _show_plan(console: Console, vault: str, plan: PrunePlan) -> None:
    if plan.empty:
        console.heading(f"Nothing to give back in the vault {path_text(vault)}")
    else:
        console.heading(
            f"Would give back about {size_text(plan.bytes_freed)} of {size_text(plan.bytes_before)}"
        )
    if plan.snapshots:
        console.fact("For good", count_text(len(plan.snapshots), "forgotten snapshot"))
    if plan.waiting:
        console.fact("Waiting", f"{count_text(len(plan.waiting), 'forgotten snapshot')}; {first_to_go(plan)}")
        names = [public_id(one)[:8] for one in plan.waiting]
        console.fact("", f"call back: `{console.command('snapshot', 'forget', '--undo', *names)}`")
    if plan.grace_waived:
        console.fact("Note", "the disk is nearly full, so nothing waits")
    if plan.bytes_repacked:
        console.fact("Rewritten", f"{size_text(plan.bytes_repacked)}, to give the gaps back")


def _show_result(console: Console, pruned: Pruned) -> None:
    console.heading(f"Gave back {size_text(max(pruned.bytes_freed, 0))}", not pruned.damaged)
    console.fact("For good", count_text(pruned.snapshots, "snapshot"))
    packs = f"{count_text(pruned.packs_deleted, 'pack')} deleted, {pruned.packs_repacked:,} packed anew"
    console.fact("Packs", packs)
    if pruned.no_room:
        console.line("The disk was too full to pack anything anew; run it again for more")
    for pack, reason in pruned.damaged.items():
        console.line(
            NextStep(
                "vault check", ("--read-data",), before=f"Kept, and damaged: pack {pack[:8]}: {reason}; see"
            )
        )
