"""`safekept snapshot restore`: bring a home, or parts of it, back from the vault, with a plan first."""

from __future__ import annotations

import os
from typing import Any

import click

from safekept.actions.base.scope import damaged_in
from safekept.actions.restoring.prepared import LandingResult
from safekept.actions.restoring.restore import (
    PreparedRestore,
    RestoreRequest,
    going_text,
    prepare_restore,
)
from safekept.actions.snapshots.listing import Listed
from safekept.core.ages import seconds_text
from safekept.core.entries import Outcome
from safekept.vault.tags import QUICK

from ....console import Console, path_text, time_text
from ....options import common_options, source_options, start
from ....words.grace import kept_text
from ....words.landing_plan import (
    SHOWN,
    not_made,
    settle,
    show_changes,
    show_doubt,
    show_losses,
    show_obstacles,
    show_passed_over,
    show_stayed,
    show_wrappers,
)
from ....words.lists import standing_in
from ....words.remarks import show_census
from ....words.snapshots import age_text, incomplete_text, named_home


def restore_options(function: Any) -> Any:
    """What both ways to say it take: `snapshot restore` and `restore`."""
    for option in reversed(
        (
            click.option(
                "-f", "--yes", "--force", "yes", is_flag=True, help="Do not ask; carry the plan out."
            ),
            click.option(
                "--exact",
                is_flag=True,
                help="Also remove what the snapshot does not hold; what it could not speak for stays.",
            ),
            click.option(
                "--into",
                metavar="DIR",
                default="",
                help="Restore into this directory instead of the home; nothing outside it is written.",
            ),
            click.option("--allow-damaged", is_flag=True, help="Take databases that fail their check, too."),
            click.option(
                "--without-search",
                is_flag=True,
                help="Leave search indexes empty that were not stored; how to fill them later is printed.",
            ),
            click.option(
                "--wait",
                is_flag=True,
                help="Fill large search indexes before anything is replaced, and not behind the restore.",
            ),
            click.option("--dry-run", is_flag=True, help="Show the plan; change nothing."),
        )
    ):
        function = option(function)
    return function


@click.command("restore")
@click.argument("snapshot", metavar="ID|N|latest")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@restore_options
@source_options
@common_options
def command(
    snapshot: str,
    paths: tuple[str, ...],
    yes: bool,
    exact: bool,
    into: str,
    allow_damaged: bool,
    without_search: bool,
    wait: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Bring a home, or only some PATHs of it, back from a snapshot.

    The snapshot is named by its number in `safekept snapshot list` (1 is the newest), by its id or the
    start of it, by its label, by a time such as `yesterday 18:00` or `3h`, or as `latest`. Everything is
    staged and proven before the first file is replaced; what is replaced is kept, and `safekept undo`
    brings it back. A database in use is restored through SQLite, under the running agent. Exit code 3:
    something could not be read in the vault, was left as it is, and is listed; the rest was restored.
    """
    settings, context, console = start(as_json)
    request = RestoreRequest(
        word=snapshot,
        paths=paths,
        home=home,
        layout=layout,
        into=into,
        exact=exact,
        allow_damaged=allow_damaged,
        without_search=without_search,
        search_behind=not wait and not into,
        deadline=settings.number("database.deadline"),
        keep_days=settings.whole("import.keep_days"),
        directory=standing_in(),
        offers_sound=console.can_ask() and not yes,
    )
    with prepare_restore(context, request, console.listener()) as prepared:
        console.finish()
        _show_plan(console, prepared)
        if dry_run:
            console.document({"dry_run": True, **_plan_document(prepared)})
            _show_newer(console, prepared)
            console.line("Nothing was changed")
            return 0
        settle(
            console,
            "Restore",
            prepared.questions,
            lambda of, *more: _again(console, prepared, *more, of=of),
            chosen=prepared.chosen,
            doubt=prepared.doubt,
            passed_over=prepared.passed_over,
            yes=yes,
        )
        restored = prepared.carry_out(console.listener())
        console.finish()
        return _show_result(console, prepared, restored)


def _again(console: Console, prepared: PreparedRestore, *more: str, of: Listed | None = None) -> str:
    """The same restore as it was asked for, with something added; runs from any directory."""
    request = prepared.request
    words = ["snapshot", "restore", (of or prepared.chosen).short, *prepared.plan.only]
    words += named_home(request.home, request.layout)
    if request.into:
        words += ["--into", os.path.abspath(request.into)]
    flags = {
        "--exact": request.exact,
        "--allow-damaged": request.allow_damaged,
        "--without-search": request.without_search,
        "--wait": not (request.search_behind or request.into),
    }
    words += [flag for flag, given in flags.items() if given]
    return console.command(*words, *more)


def _plan_document(prepared: PreparedRestore) -> dict[str, object]:
    return {
        "snapshot": prepared.chosen.as_dict(),
        "home": prepared.place.home,
        "layout": prepared.place.layout.name,
        "missing": [{"path": path, "reason": reason} for path, reason in prepared.losses],
        "remarks": [remark.as_dict() for remark in prepared.source.remarks],
        "speaks_for": prepared.removal_scope or None,
        "newer_quick": prepared.newer.id if prepared.newer else None,
        "left_outside": prepared.left_outside,
        "plan": prepared.plan.as_dict(),
        "wrappers": [wrapper.as_dict() for wrapper in prepared.wrappers],
        "going": [one.as_dict() for one in prepared.going],
        "needs_consent": prepared.questions,
        "doubt": prepared.doubt.as_dict() if prepared.doubt else None,
    }


def _show_plan(console: Console, prepared: PreparedRestore) -> None:
    plan, chosen, doubt = prepared.plan, prepared.chosen, prepared.doubt
    show_doubt(console, doubt, _again(console, prepared, of=doubt.sound) if doubt else "")
    show_passed_over(console, prepared.passed_over)
    if prepared.newer is not None:
        newer = f"{prepared.newer.short} ({prepared.newer.kind}) is newer"
        console.line(f"`latest` is the newest snapshot of the whole home; {newer}")
    console.heading(f"Restore into {path_text(prepared.place.home)}")
    label = f", {path_text(chosen.label)}" if chosen.label else ""
    number = f"number {chosen.number}, " if chosen.number else ""
    known = f"{chosen.short} ({number}{chosen.kind}{label}, {age_text(chosen, word='old')})"
    known += incomplete_text(chosen, ", ")
    console.fact("Snapshot", known + (", the newest sound one" if prepared.passed_over else ""))
    if chosen.home and (chosen.home != prepared.place.home or not chosen.here):
        console.fact("Made of", f"{path_text(chosen.home)} on {path_text(chosen.snapshot.hostname)}")
    if prepared.manifest and not plan.only:
        show_census(console, prepared.manifest.get("census"))
    if chosen.kind == QUICK and not plan.only:
        console.fact("Holds", "the quick set only: what the agent knows and is, not the whole home")
    if prepared.request.exact and prepared.removal_scope:
        console.fact("Only for", path_text(prepared.removal_scope))
    show_losses(console, prepared.losses, damaged_in(prepared.manifest))
    for place in prepared.left_outside:
        console.fact("Left out", f"{path_text(place)} lies outside the home; it is not restored with --into")
    show_changes(console, plan)
    show_wrappers(console, prepared.wrappers)
    if prepared.going:
        console.fact("Goes", f"{going_text(prepared.going)} that came after the snapshot; undo has them")
    show_obstacles(console, plan)


def _show_newer(console: Console, prepared: PreparedRestore) -> None:
    """`latest` is a whole home; what the agent stored since then is one command away."""
    if prepared.newer is None:
        return
    request, newer = prepared.request, prepared.newer.short
    into = ["--into", os.path.abspath(request.into)] if request.into else []
    words = ["snapshot", "restore", newer, *prepared.plan.only, *named_home(request.home, request.layout)]
    again = console.command(*words, *into)
    console.line(f"Newer state files are in the quick snapshot {newer}: `{again}`")


def _show_result(console: Console, prepared: PreparedRestore, restored: LandingResult) -> int:
    landed, place = restored.landed, restored.place
    named = ("--home", place.home) if prepared.request.into or prepared.request.home else ()
    undo = console.command("undo", restored.operation, *named)
    console.document(
        {
            **_plan_document(prepared),
            **restored.facts.document("operation", "home", "layout", "undo_point"),
            "landed": restored.facts.landed(),
            "complete": restored.complete,
            "lost": [{"path": path, "reason": reason} for path, reason in restored.lost],
            "wrappers": [wrapper.as_dict() for wrapper in restored.wrappers],
            "undo": undo,
            "notes": list(restored.notes),
        }
    )
    whole = restored.complete
    console.heading(f"Restored: {path_text(place.home)}" if whole else "Restored what can be read", whole)
    console.fact(
        "Files",
        f"{landed.created:,} new, {landed.replaced:,} replaced, {landed.same:,} already the same, "
        f"{landed.removed:,} removed",
    )
    if landed.created or landed.replaced:
        damaged = any(remark.outcome is Outcome.DAMAGED for remark in landed.remarks)
        databases = "every database but those noted below" if damaged else "every database"
        console.fact("Proven", f"every block and {databases}, before the first file was replaced")
    console.fact("Time", time_text(landed.seconds))
    if restored.undo_point:
        console.fact("Before", f"kept as snapshot {restored.undo_point[:8]}")
    show_losses(console, restored.lost, damaged_in(prepared.manifest))
    show_stayed(console, prepared.plan)
    for remark in landed.remarks[:SHOWN]:
        if remark.outcome is not Outcome.UNREADABLE:
            console.fact("Note", f"{path_text(remark.path)}: {remark.reason}")
    for note in restored.notes:
        console.fact("Note", note)
    show_wrappers(console, not_made(restored.wrappers))
    if landed.replaced or landed.removed or landed.created:
        if landed.replaced or landed.removed:
            console.fact("Kept", kept_text(prepared.request.keep_days))
        console.line(f"Take it back with: `{undo}`")
    _show_newer(console, prepared)
    if restored.search_seconds:
        about = seconds_text(max(1.0, restored.search_seconds))
        console.line(f"Your agent can work now; search complete in about {about}")
    return 0 if whole else 3
