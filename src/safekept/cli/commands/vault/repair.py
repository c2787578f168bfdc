"""`safekept vault repair`: keep every sound piece of a damaged vault; the rest may come back."""

from __future__ import annotations

import click

from safekept.actions.base.consent import ConsentNeeded
from safekept.actions.vault.care import VaultRepair, plan_vault_repair, repair_vault
from safekept.actions.vault.opening import open_vault
from safekept.core.next_step import NextStep
from safekept.vault.care import RepairPlan, Report

from ...console import Console, count_text, path_text, time_text
from ...options import start
from .options import json_option


@click.command("repair")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be mended; change nothing.")
@json_option
def command(yes: bool, dry_run: bool, as_json: bool) -> int:
    """Keep every sound piece of a damaged vault, and let a new snapshot bring the rest back.

    Reads every stored byte. An index that is lost is made again from the packs; sound pieces are
    copied out of damaged packs; what is damaged no longer counts as stored, so that the next
    snapshot stores it again where the home still has it, and older ones that need it are whole again too.
    Snapshots are never touched. Exit code 0: whole again; 3: something is still damaged; with --dry-run
    1: damaged.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        report, plan = plan_vault_repair(repository, listener=console.listener())
        console.finish()
        _show_plan(console, context.places.vault, report, plan)
        if dry_run or plan.empty:
            document = {"dry_run": dry_run, "plan": plan.as_dict(), "result": None}
            console.document(document)
            if dry_run:
                console.line("Nothing was changed")
            return 0 if report.sound else 1
        if not yes:
            if not console.can_ask():
                raise ConsentNeeded(
                    "mending the vault needs your consent",
                    kept="Nothing was changed",
                    next_steps=(
                        NextStep("vault repair", ("--dry-run",), before="See what it would do:"),
                        NextStep("vault repair", ("--yes",), before="Agree to it:"),
                    ),
                )
            if not console.ask("Mend it?"):
                raise click.Abort
        result = repair_vault(context, repository, report, listener=console.listener())
    console.finish()
    console.document({"dry_run": False, "plan": plan.as_dict(), "result": result.as_dict()})
    _show_result(console, result)
    return 0 if result.after.sound else 3


def _show_plan(console: Console, vault: str, report: Report, plan: RepairPlan) -> None:
    if plan.empty:
        text = "is whole: nothing to mend" if report.sound else "is damaged, and nothing of it can be mended"
        console.heading(f"The vault {path_text(vault)} {text}", report.sound)
        for finding in report.damage:
            console.line(finding.what, fg="yellow")
        return
    console.heading(f"The vault {path_text(vault)} can be mended", False)
    if plan.indexes:
        console.fact("Index", f"{count_text(len(plan.indexes), 'damaged file')} made again from the packs")
    if plan.add:
        console.fact("Found", f"{count_text(len(plan.add), 'pack')} that no index names")
    if plan.salvage:
        console.fact("Damaged", f"{count_text(len(plan.salvage), 'pack')}: what is sound in them is kept")
    if plan.missing:
        console.fact("Gone", count_text(len(plan.missing), "pack"))


def _show_result(console: Console, result: VaultRepair) -> None:
    done = result.repaired
    console.heading("Mended what could be mended", result.after.sound)
    console.fact("Saved", f"{count_text(done.saved, 'piece')} out of damaged packs")
    console.fact("Lost", count_text(done.lost, "piece"))
    console.fact("Time", time_text(result.seconds))
    for finding in result.after.damage:
        console.line(finding.what, fg="yellow")
        for touched in finding.touches[:5]:
            console.line(f"    Snapshot {touched.snapshot[:8]}: {', '.join(touched.paths[:3])}")
    if done.lost:
        console.line(
            NextStep(
                "snapshot",
                before="Bring back what the home still has:",
                after=",",
                then=NextStep("vault check", before="then"),
            )
        )
