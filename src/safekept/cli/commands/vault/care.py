"""`safekept vault check`: prove that everything stored can be given back."""

from __future__ import annotations

import click

from safekept.actions.vault.care import (
    Checked,
    VaultRepair,
    check_vault,
    plan_vault_prune,
    plan_vault_repair,
    prune_vault,
    repair_vault,
)
from safekept.actions.vault.opening import open_vault
from safekept.core.errors import ConsentNeeded
from safekept.core.next_step import NextStep
from safekept.vault.care import Pruned, PrunePlan, RepairPlan, Report
from safekept.vault.snapshots import public_id

from ...console import Console, count_text, path_text, size_text, time_text
from ...options import source_options, start
from ...words.grace import first_to_go
from .options import json_option

_LISTED = 10


def _share(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`100%`, `5%` or `5` as a share between 0 and 1."""
    if value is None:
        return None
    try:
        percent = float(value.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent <= 100:
        raise click.BadParameter(f"{value} is not a share such as 5% or 100%")
    return percent / 100


@click.command("check")
@click.option(
    "--read-data",
    metavar="[N%]",
    is_flag=False,
    flag_value="100%",
    callback=_share,
    help="Also read and prove every stored byte, or a random share of them, as in `--read-data=5%`.",
)
@source_options
@json_option
def check_command(read_data: float | None, as_json: bool) -> int:
    """Prove that everything stored can be given back.

    Without options the structure is checked: every snapshot, every directory, and that every piece
    is where it should be, with the right size. --read-data also reads and proves the bytes; a
    share of them every day comes round to all. Nothing is changed. Exit code 0: whole; 1: damaged.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        checked = check_vault(context, repository, read_data, console.listener())
    console.finish()
    console.document(checked.as_dict())
    _show(console, checked)
    return 0 if checked.report.sound else 1


def _show(console: Console, checked: Checked) -> None:
    report = checked.report
    console.heading(
        f"The vault {path_text(checked.vault)} is whole"
        if report.sound
        else f"The vault {path_text(checked.vault)} is damaged: {count_text(len(report.damage), 'finding')}",
        report.sound,
    )
    console.fact(
        "Looked at", f"{count_text(report.snapshots, 'snapshot')}, {count_text(report.packs, 'pack')}"
    )
    if report.packs_read:
        console.fact("Read", f"{size_text(report.bytes_read)} in {count_text(report.packs_read, 'pack')}")
    else:
        console.fact("Read", "the structure; `--read-data` reads the bytes too")
    console.fact("Time", time_text(checked.seconds))
    for finding in report.damage:
        console.line(finding.what, fg="yellow")
        for touched in finding.touches[:_LISTED]:
            shown = ", ".join(path_text(path) for path in touched.paths[:3])
            more = f" and {touched.count - 3:,} more" if touched.count > 3 else ""
            console.line(f"    Snapshot {touched.snapshot[:8]}: {shown}{more}")
        if len(finding.touches) > _LISTED:
            console.line(f"    … and {len(finding.touches) - _LISTED:,} more snapshots")
        if not finding.touches:
            console.line("    No file of a snapshot is touched")
    notes = [finding for finding in report.findings if finding not in report.damage]
    for note in notes[:_LISTED]:
        console.line(f"Note: {note.what}")
    if len(notes) > _LISTED:
        console.line(f"Note: … and {len(notes) - _LISTED:,} more of these")
    console.next(checked.next_steps)


# `safekept vault repair`: keep every sound piece of a damaged vault; the rest may come back.


@click.command("repair")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be mended; change nothing.")
@json_option
def repair_command(yes: bool, dry_run: bool, as_json: bool) -> int:
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
        _show_repair_plan(console, context.places.vault, report, plan)
        if dry_run or plan.empty:
            document = {"dry_run": dry_run, "plan": plan.as_dict(), "result": None}
            console.document(document)
            if dry_run:
                console.line("Nothing was changed")
            return 0 if report.sound else 1
        if not yes:
            if not console.can_ask():
                raise ConsentNeeded(
                    "Mending the vault needs your consent",
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
    _show_repaired(console, result)
    return 0 if result.after.sound else 3


def _show_repair_plan(console: Console, vault: str, report: Report, plan: RepairPlan) -> None:
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


def _show_repaired(console: Console, result: VaultRepair) -> None:
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


# `safekept vault prune`: give the room of forgotten snapshots back.


@click.command("prune")
@click.option("--now", is_flag=True, help="Without the three days in which a forgotten one can come back.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would go; delete nothing.")
@json_option
def prune_command(now: bool, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Delete what forgotten snapshots alone needed, and give the room back.

    A forgotten snapshot can be called back for three days; then it goes for good here. Snapshots
    that are not forgotten are never touched.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        plan = plan_vault_prune(repository, now=now, listener=console.listener())
        console.finish()
        _show_prune_plan(console, context.places.vault, plan)
        if dry_run or plan.empty:
            console.document({"dry_run": dry_run, "plan": plan.as_dict(), "pruned": None})
            if dry_run:
                console.line("Nothing was deleted")
            return 0
        if not yes:
            if not console.can_ask():
                again = "safekept vault prune --now" if now else "safekept vault prune"
                raise ConsentNeeded(
                    "Deleting for good needs your consent",
                    kept="Nothing was deleted",
                    next_steps=(f"See the plan: `{again} --dry-run`", f"Agree to it: `{again} --yes`"),
                )
            if not console.ask("Delete?"):
                raise click.Abort
        pruned = prune_vault(context, repository, plan, listener=console.listener())
        console.finish()
    console.document({"dry_run": False, "plan": plan.as_dict(), "pruned": pruned.as_dict()})
    _show_pruned(console, pruned)
    return 0


def _show_prune_plan(console: Console, vault: str, plan: PrunePlan) -> None:
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


def _show_pruned(console: Console, pruned: Pruned) -> None:
    console.heading(f"Gave back {size_text(max(pruned.bytes_freed, 0))}", not pruned.damaged)
    console.fact("For good", count_text(pruned.snapshots, "snapshot"))
    packs = f"{count_text(pruned.packs_deleted, 'pack')} deleted, {pruned.packs_repacked:,} repacked"
    console.fact("Packs", packs)
    if pruned.no_room:
        console.line("The disk was too full to repack anything; run it again for more")
    for pack, reason in pruned.damaged.items():
        console.line(
            NextStep(
                "vault check", ("--read-data",), before=f"Kept, and damaged: pack {pack[:8]}: {reason}; see"
            )
        )
