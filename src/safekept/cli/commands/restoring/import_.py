"""`safekept import FILE`: bring a home back, with a plan first."""

from __future__ import annotations

import os

import click

from safekept.actions.base.scope import damaged_in
from safekept.actions.restoring.import_ import ImportRequest, PreparedImport, prepare_import
from safekept.actions.restoring.prepared import LandingResult
from safekept.archive.errors import ArchiveUnknown
from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, reworded

from ...console import Console, path_text, time_text
from ...options import common_options, start
from ...sealing import identity_options
from ...words.grace import kept_text
from ...words.landing_plan import (
    SHOWN,
    ask_consent,
    not_made,
    show_changes,
    show_losses,
    show_obstacles,
    show_paths,
    show_stayed,
    show_wrappers,
)
from ...words.remarks import show_census


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask; the plan is carried out.")
@click.option(
    "--merge", "merge", is_flag=True, help="Lay the archive over the home and remove nothing (the default)."
)
@click.option(
    "--exact",
    is_flag=True,
    help="Also remove what the archive does not hold; machine-bound files and what a backup would "
    "leave out stay.",
)
@click.option(
    "--only",
    metavar="PATH",
    multiple=True,
    help="Only this file or directory of the archive; may be repeated.",
)
@click.option(
    "--into",
    metavar="DIR",
    default="",
    help="Restore into this directory instead of the home; nothing outside it is written.",
)
@identity_options
@click.option("--allow-damaged", is_flag=True, help="Take databases that fail their check, too.")
@click.option(
    "--without-search",
    is_flag=True,
    help="Leave search indexes empty that were not stored; how to fill them later is printed.",
)
@click.option("--no-limits", is_flag=True, help="Take archives of unusual size or compression.")
@click.option("--dry-run", is_flag=True, help="Show the plan; change nothing.")
@common_options
def command(
    file: str,
    force: bool,
    merge: bool,
    exact: bool,
    only: tuple[str, ...],
    into: str,
    allow_damaged: bool,
    without_search: bool,
    no_limits: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Bring a home back from FILE: an archive of safekept or Hermes, or a tarball made by hand.

    A sealed one is opened with --identity, with your SSH keys or the agent of gpg, or with a
    passphrase; nothing of it is released before it was authenticated.

    Everything is staged beside the home and proven before the first file is replaced. What is
    replaced is kept, and `safekept undo` brings it back. safekept asks only when something would be
    replaced or removed, or written outside the home, or when an archive made elsewhere carries things
    that the agent can run.
    """
    if merge and exact:
        raise click.UsageError("--merge and --exact cannot both be given.")
    if into and home:
        raise click.UsageError("--into and --home cannot both be given.")
    from safekept.integrations.hermes.install import own_hashes

    settings, context, console = start(as_json)
    request = ImportRequest(
        file=file,
        home=home,
        layout=layout,
        into=into,
        exact=exact,
        only=only,
        allow_damaged=allow_damaged,
        without_search=without_search,
        no_limits=no_limits,
        deadline=settings.number("database.deadline"),
        keep_days=settings.whole("import.keep_days"),
        own_files=own_hashes(),
    )
    try:
        with prepare_import(context, request, console.listener()) as prepared:
            console.finish()
            _show_plan(console, prepared)
            if dry_run:
                console.document({"dry_run": True, **_plan_document(prepared)})
                console.line("Nothing was changed")
                return 0
            if prepared.questions and not force:
                opened = [word for path in context.choices.identities for word in ("--identity", path)]
                ask_consent(
                    console,
                    "import",
                    prepared.questions,
                    _again(console, prepared.request, *opened, "--dry-run"),
                    _again(console, prepared.request, *opened, "--force"),
                )
            imported = prepared.carry_out(console.listener())
            console.finish()
            return _show_result(console, prepared, imported)
    except SafekeptError as error:
        # The library does not know what was typed; a printed command must.
        error.next_steps = reworded(error.next_steps, lambda step: _named(step, os.path.abspath(file)))
        if isinstance(error, ArchiveUnknown):
            from safekept.actions.vault.keys.kit_reading import is_kit

            if is_kit(file):
                before = "It is a kit. To have the home back from the copy that it names:"
                error.next_steps = (NextStep("rebuild", (os.path.abspath(file),), before=before),)
        raise


def _named(step: NextStep, file: str) -> NextStep:
    return step.filled(FILE=file) if step.verb == "import" else step


def _again(console: Console, request: ImportRequest, *more: str) -> str:
    """The same import as it was asked for, with something added; runs from any directory."""
    words = ["import", os.path.abspath(request.file)]
    for option, value in (("--home", request.home), ("--into", request.into), ("--layout", request.layout)):
        if value:
            words += [option, os.path.abspath(value) if option != "--layout" else value]
    for path in request.only:
        words += ["--only", path]
    flags = {
        "--exact": request.exact,
        "--allow-damaged": request.allow_damaged,
        "--without-search": request.without_search,
        "--no-limits": request.no_limits,
    }
    words += [flag for flag, given in flags.items() if given]
    return console.command(*words, *more)


def _plan_document(prepared: PreparedImport) -> dict[str, object]:
    return {
        "archive": prepared.archive.path,
        "format": prepared.archive.form,
        "sealed": prepared.archive.sealed or None,
        "home": prepared.place.home,
        "layout": prepared.place.layout.name,
        "made_by_safekept": prepared.archive.head is not None,
        "missing": [{"path": path, "reason": reason} for path, reason in prepared.losses],
        "remarks": [remark.as_dict() for remark in prepared.source.remarks],
        "plan": prepared.plan.as_dict(),
        "wrappers": [wrapper.as_dict() for wrapper in prepared.wrappers],
        "needs_consent": prepared.questions,
    }


def _show_plan(console: Console, prepared: PreparedImport) -> None:
    plan, head = prepared.plan, prepared.archive.head
    console.heading(f"Import into {path_text(prepared.place.home)}")
    origin = f"made {head.get('created')} on {head.get('host')}" if head else "not made by safekept"
    sealed = f", sealed with {prepared.archive.sealed}" if prepared.archive.sealed else ""
    form = prepared.archive.form + sealed
    console.fact("Archive", f"{path_text(prepared.archive.path)} ({form}, {origin})")
    if prepared.doubt:
        console.fact("Doubt", path_text(prepared.doubt))
    show_census(console, head.get("census") if head else None)
    show_losses(console, prepared.losses, damaged_in(head))
    for remark in prepared.source.remarks[:SHOWN]:
        console.fact("Left out", f"{path_text(remark.path)}: {remark.reason}")
    show_changes(console, plan)
    show_wrappers(console, prepared.wrappers)
    if prepared.foreign:
        show_paths(console, "Can run", plan.executable, "plugins, hooks, scripts, jobs: look at them first")
        show_paths(console, "Links out", prepared.links_out, "what is written there lands outside the home")
    show_obstacles(console, plan)


def _show_result(console: Console, prepared: PreparedImport, imported: LandingResult) -> int:
    landed, place = imported.landed, imported.place
    named = prepared.request.into or prepared.request.home
    undo = console.command("undo", imported.operation, *(("--home", place.home) if named else ()))
    console.document(
        {
            **_plan_document(prepared),
            **imported.facts.document("operation", "home", "layout", "undo_point"),
            "landed": imported.facts.landed(),
            "wrappers": [wrapper.as_dict() for wrapper in imported.wrappers],
            "hints": imported.notes,
            "undo": undo,
        }
    )
    whole = not prepared.losses
    console.heading(
        f"Import complete: {path_text(place.home)}" if whole else "Imported what the archive holds", whole
    )
    console.fact(
        "Files",
        f"{landed.created:,} new, {landed.replaced:,} replaced, {landed.same:,} already the same, "
        f"{landed.removed:,} removed",
    )
    if landed.created or landed.replaced:
        console.fact("Proven", _proof(prepared, imported))
    console.fact("Time", time_text(landed.seconds))
    if imported.undo_point:
        console.fact("Before", f"kept as snapshot {imported.undo_point[:8]}")
    show_losses(console, prepared.losses, damaged_in(prepared.archive.head))
    show_stayed(console, prepared.plan)
    for remark in landed.remarks[:SHOWN]:
        console.fact("Note", f"{path_text(remark.path)}: {remark.reason}")
    show_wrappers(console, not_made(imported.wrappers))
    if landed.replaced or landed.removed:
        console.fact("Kept", kept_text(prepared.request.keep_days))
    console.next(imported.notes)
    if landed.replaced or landed.removed or landed.created:
        console.line(f"Take it back with: `{undo}`")
    return 0 if whole else 3


def _proof(prepared: PreparedImport, imported: LandingResult) -> str:
    """Only what was really checked."""
    hashes = "every hash" if prepared.archive.head is not None else "every checksum that the archive has"
    damaged = any(remark.outcome is Outcome.DAMAGED for remark in imported.landed.remarks)
    databases = "every database but those noted below" if damaged else "every database"
    return f"{hashes} and {databases}, before the first file was replaced"
