"""`safekept snapshot prune [N]`: forget older quick snapshots, then give the room of forgotten ones back."""

from __future__ import annotations

import time

import click

from safekept.actions.snapshots.forgetting import Forgetting, plan_reclaiming, reclaim
from safekept.actions.vault.opening import open_vault
from safekept.vault.care import GRACE, PrunePlan

from ....console import Console, count_text, size_text
from ....options import common_options, start
from ....words.grace import first_to_go, moment_text
from ....words.snapshots import named_home
from .forget import consent, show_plan


@click.command("prune")
@click.argument("keep", metavar="[N]", type=click.IntRange(1), default=20)
@click.option(
    "--now", is_flag=True, help="Without the three days in which a forgotten snapshot can be called back."
)
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
def command(keep: int, now: bool, dry_run: bool, yes: bool, home: str, layout: str, as_json: bool) -> int:
    """Forget the quick snapshots of a home beyond the newest N (20), then give room back.

    Only what was forgotten three days ago is deleted, or at once with `--now` and where the disk is nearly
    full. Nothing that any other snapshot needs is touched. Exit code 3: a damaged pack had to stay, or the
    disk was too full to pack anything anew.
    """
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with open_vault(context, listener=console.listener()) as repository:
        forgetting, plan = plan_reclaiming(repository, place, keep, now=now, listener=console.listener())
        console.finish()
        document = {"home": place.home, "forget": forgetting.as_dict(), "prune": plan.as_dict()}
        _show(console, forgetting, plan, now)
        if dry_run or (plan.empty and not forgetting.go):
            console.document({"dry_run": dry_run, **document, "pruned": None})
            console.line("Nothing was changed" if dry_run else "There is nothing to do")
            return 0
        if not yes:
            again = ["snapshot", "prune", str(keep), *(["--now"] if now else []), *named_home(home, layout)]
            consent(console, _question(forgetting, plan, now), again, "--yes")
        chosen = [one.snapshot for one, _ in forgetting.go]
        ids, pruned = reclaim(context, repository, place, chosen, now=now, listener=console.listener())
    console.finish()
    console.document({"dry_run": False, **document, "forgotten": ids, "pruned": pruned.as_dict()})
    console.heading(f"Freed {size_text(pruned.bytes_freed)}", not pruned.damaged and not pruned.no_room)
    console.fact("Forgotten", count_text(len(ids), "quick snapshot"))
    console.fact("Deleted", count_text(pruned.snapshots, "forgotten snapshot"))
    console.fact("Packs", f"{pruned.packs_deleted:,} deleted, {pruned.packs_repacked:,} packed anew")
    if ids and not now and not plan.grace_waived:
        until, names = moment_text(time.time() + GRACE), (one[:8] for one in ids)
        call = console.command("snapshot", "forget", "--undo", *names, *named_home(home, layout))
        console.fact("Kept", f"until {until}; call back: `{call}`")
    if pruned.no_room:
        console.fact("Note", "the disk was too full to pack anything anew; what could be deleted was")
    for name, reason in sorted(pruned.damaged.items()):
        console.fact("Damaged", f"pack {name[:12]} stays as it is: {reason}")
    return 3 if pruned.damaged or pruned.no_room else 0


def _question(forgetting: Forgetting, plan: PrunePlan, now: bool) -> str:
    parts = []
    if forgetting.go:
        parts.append(f"{count_text(len(forgetting.go), 'quick snapshot')} would be forgotten")
    gone = len(plan.snapshots) + (len(forgetting.go) if now else 0)
    if gone:
        parts.append(f"{count_text(gone, 'forgotten snapshot')} would be deleted for good")
    if plan.bytes_freed:
        parts.append(f"about {size_text(plan.bytes_freed)} would be freed")
    return "; ".join(parts) or "the vault would be tidied up"


def _show(console: Console, forgetting: Forgetting, plan: PrunePlan, now: bool) -> None:
    if forgetting.go:
        show_plan(console, forgetting, by_name=True)
    console.heading("Prune")
    deleted = len(plan.snapshots) + (len(forgetting.go) if now else 0)
    console.fact("Deletes", f"{count_text(deleted, 'forgotten snapshot')} for good")
    if plan.waiting or (forgetting.go and not now):
        waiting = len(plan.waiting) + (0 if now else len(forgetting.go))
        console.fact("Waiting", f"{count_text(waiting, 'forgotten snapshot')}; {first_to_go(plan)}")
    if plan.grace_waived:
        console.fact("Note", "the disk is nearly full, so there is no grace")
    console.fact("Frees", f"about {size_text(plan.bytes_freed)} of {size_text(plan.bytes_before)}")
    if plan.repack:
        packs = count_text(len(plan.repack), "pack")
        console.fact("Packs anew", f"{packs}, {size_text(plan.bytes_repacked)}")
