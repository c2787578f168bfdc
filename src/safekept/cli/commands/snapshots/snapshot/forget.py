"""`safekept snapshot forget`: let snapshots go, by name or by policy, with a plan first."""

from __future__ import annotations

import time
from typing import Any

import click

from safekept.actions.snapshots.forgetting import (
    Forgetting,
    call_back,
    carry_out_forgetting,
    pin_snapshots,
    plan_forgetting,
    plan_reclaiming,
    reclaim,
)
from safekept.actions.vault.opening import open_vault
from safekept.core.errors import ConsentNeeded
from safekept.vault.care import DEFAULT_POLICIES, GRACE, Policy, PrunePlan, Span, for_every_kind
from safekept.vault.tags import KINDS, OTHER

from ....console import Console, count_text, path_text, size_text
from ....options import common_options, start
from ....words.grace import date_text, first_to_go
from ....words.snapshots import age_text, named_home

_RULES = ("last", "hourly", "daily", "weekly", "monthly", "yearly")


def _keep_options(function: Any) -> Any:
    for name in reversed(_RULES):
        text = (
            "Keep the last N of each kind; -1 keeps all."
            if name == "last"
            else f"Keep one for each of the last N {_PERIODS[name]}."
        )
        function = click.option(
            f"--keep-{name}", f"keep_{name}", metavar="N", type=click.IntRange(-1), default=0, help=text
        )(function)
    return click.option(
        "--keep-within", metavar="TIME", default="", help="Keep all of the last so long, as in 1y6m14d12h."
    )(function)


_PERIODS = {"hourly": "hours", "daily": "days", "weekly": "weeks", "monthly": "months", "yearly": "years"}


@click.command("forget")
@click.argument("snapshots", metavar="[ID|N|latest]...", nargs=-1)
@_keep_options
@click.option("--kind", type=click.Choice((*KINDS, OTHER)), help="Only this kind.")
@click.option("--undo", "undo", is_flag=True, help="Call the named ones back.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and why the rest stays; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
def forget_command(
    snapshots: tuple[str, ...],
    keep_within: str,
    kind: str | None,
    undo: bool,
    dry_run: bool,
    yes: bool,
    home: str,
    layout: str,
    as_json: bool,
    **keep: int,
) -> int:
    """Let snapshots go: the named ones, or those that the policy does not keep.

    Without names and without a --keep option, each kind has its own policy. Pinned ones, the newest, and
    the newest verified generation of each database never go by policy. What is forgotten is hidden, and
    `--undo` calls it back until a prune deletes it, some days later.
    """
    policy = _policy(keep, keep_within)
    if snapshots and (kind or not policy.empty):
        raise click.UsageError("Name snapshots, or give a policy; not both.")
    if undo and not snapshots:
        raise click.UsageError("Name the snapshots to call back.")
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with open_vault(context, listener=console.listener()) as repository:
        if undo:
            back = call_back(context, repository, place, snapshots, console.listener())
            console.finish()
            console.document({"called_back": [one.id for one in back]})
            for one in back:
                console.line(f"Snapshot {one.short} is back")
            return 0
        policies = DEFAULT_POLICIES if policy.empty else for_every_kind(policy)
        plan = plan_forgetting(repository, place, words=snapshots, policies=policies, kind=kind or "")
        console.finish()
        document = {"home": place.home, "plan": plan.as_dict()}
        show_plan(console, plan, by_name=bool(snapshots))
        if dry_run or not plan.go:
            console.document({"dry_run": dry_run, **document, "forgotten": []})
            console.line("Nothing was changed")
            return 0
        if not yes:
            again = ["snapshot", "forget", *(one.short for one, _ in plan.go), *named_home(home, layout)]
            consent(console, f"{count_text(len(plan.go), 'snapshot')} would be forgotten", again, "--yes")
        chosen = [one.snapshot for one, _ in plan.go]
        done = carry_out_forgetting(context, repository, place, chosen, console.listener())
    console.finish()
    until, ids = time.time() + GRACE, done.snapshots or ()
    console.document({"dry_run": False, **document, **done.document("forgotten"), "kept_until": until})
    console.heading(f"{count_text(len(ids), 'snapshot')} forgotten")
    call = console.command("snapshot", "forget", "--undo", *(i[:8] for i in ids), *named_home(home, layout))
    console.fact("Kept", f"until {date_text(until)}; from then on a prune deletes for good")
    console.line(f"Call back until then: `{call}`")
    prune = console.command("snapshot", "prune", *named_home(home, layout))
    console.line(f"Give the room back after that: `{prune}`, or at once with `--now`")
    return 0


def consent(console: Console, what: str, again: list[str], agree: str) -> None:
    """Ask at a terminal; refuse where there is no person to ask."""
    if not console.can_ask():
        raise ConsentNeeded(
            f"This needs your consent: {what}",
            kept="Nothing was changed",
            next_steps=(
                f"See the plan: `{console.command(*again, '--dry-run')}`",
                f"Agree to it: `{console.command(*again, agree)}`",
            ),
            reasons=[what],
        )
    if not console.ask("Continue?"):
        raise click.Abort


def show_plan(console: Console, plan: Forgetting, *, by_name: bool) -> None:
    console.heading(
        f"Would forget {count_text(len(plan.go), 'snapshot')} of {path_text(plan.listing.home)}"
        + ("" if by_name else f", and keep {len(plan.stay):,}")
    )
    for one, reasons in plan.go:
        label = f"  {path_text(one.label)}" if one.label else ""
        why = f"  ({'; '.join(reasons)})" if by_name and reasons else ""
        console.line(f"  - {one.short}  {age_text(one):>8}  {one.kind}{label}{why}")
    if not by_name:
        for one, reasons in plan.stay:
            console.line(f"    {one.short}  {age_text(one):>8}  {one.kind}  kept: {', '.join(reasons)}")


def _policy(keep: dict[str, int], within: str) -> Policy:
    try:
        span = Span.parse(within) if within else Span()
    except ValueError as error:
        raise click.UsageError(f"--keep-within: {error}") from error
    last, hourly, daily, weekly, monthly, yearly = (keep[f"keep_{name}"] for name in _RULES)
    return Policy(last, hourly, daily, weekly, monthly, yearly, span)


# `safekept snapshot pin`: keep a snapshot whatever the retention says.


@click.command("pin")
@click.argument("snapshots", metavar="ID|N|latest...", nargs=-1, required=True)
@click.option("--days", metavar="N", type=click.IntRange(1, 36500), help="Only for so many days.")
@click.option("--off", "--remove", "off", is_flag=True, help="Take the pin away again.")
@common_options
def pin_command(
    snapshots: tuple[str, ...], days: int | None, off: bool, home: str, layout: str, as_json: bool
) -> int:
    """Pin snapshots: no retention, `forget` or prune touches them until the pin is off or its days are over.

    A snapshot that was forgotten is called back by it.
    """
    if off and days:
        raise click.UsageError("--off and --days cannot both be given.")
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with open_vault(context, listener=console.listener()) as repository:
        chosen, until = pin_snapshots(
            context,
            repository,
            place,
            snapshots,
            days=days or 0,
            off=off,
            listener=console.listener(),
        )
    console.finish()
    ids = [one.id for one in chosen]
    console.document({"snapshots": ids, "pinned": not off, "until": until})
    for one in chosen:
        if off:
            console.line(f"Snapshot {one.short} is no longer pinned")
        else:
            console.line(f"Snapshot {one.short} is pinned" + (f" until {until}" if until else ""))
    return 0


# `safekept snapshot prune [N]`: forget older quick snapshots, then give the room of forgotten ones back.


@click.command("prune")
@click.argument("keep", metavar="[N]", type=click.IntRange(1), default=20)
@click.option(
    "--now", is_flag=True, help="Without the three days in which a forgotten snapshot can be called back."
)
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
def prune_command(
    keep: int, now: bool, dry_run: bool, yes: bool, home: str, layout: str, as_json: bool
) -> int:
    """Forget the quick snapshots of a home beyond the newest N (20), then give room back.

    Only what was forgotten three days ago is deleted, or at once with `--now` and where the disk is nearly
    full. Nothing that any other snapshot needs is touched. Exit code 3: a damaged pack had to stay, or the
    disk was too full to repack anything.
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
            console.line("Nothing was changed" if dry_run else "Already up to date")
            return 0
        if not yes:
            again = ["snapshot", "prune", str(keep), *(["--now"] if now else []), *named_home(home, layout)]
            consent(console, _question(forgetting, plan, now), again, "--yes")
        chosen = [one.snapshot for one, _ in forgetting.go]
        done, pruned = reclaim(context, repository, place, chosen, now=now, listener=console.listener())
    console.finish()
    ids = done.forgotten or ()
    outcome = {**done.document("forgotten"), "pruned": pruned.as_dict()}
    console.document({"dry_run": False, **document, **outcome})
    console.heading(f"Freed {size_text(pruned.bytes_freed)}", not pruned.damaged and not pruned.no_room)
    console.fact("Forgotten", count_text(len(ids), "quick snapshot"))
    console.fact("Deleted", count_text(pruned.snapshots, "forgotten snapshot"))
    console.fact("Packs", f"{pruned.packs_deleted:,} deleted, {pruned.packs_repacked:,} repacked")
    if ids and not now and not plan.grace_waived:
        until, names = date_text(time.time() + GRACE), (one[:8] for one in ids)
        call = console.command("snapshot", "forget", "--undo", *names, *named_home(home, layout))
        console.fact("Kept", f"until {until}; call back: `{call}`")
    if pruned.no_room:
        console.fact("Note", "the disk was too full to repack anything; what could be deleted was")
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
        console.fact("Repacked", f"{packs}, {size_text(plan.bytes_repacked)}")
