"""`safekept snapshot [create]`: take a point in time of a home into the vault."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from safekept.actions.snapshots.create import SnapshotRequest, SnapshotResult, create_snapshot
from safekept.actions.snapshots.databases import CHECK_EVERY_NS, HOUR_NS
from safekept.core.finding import MEANT
from safekept.core.next_step import NextStep, read_step
from safekept.core.trash import GRACE
from safekept.home.scan import Selection

from ....console import Console, count_text, path_text, size_text, time_text
from ....options import common_options, selection_options, start
from ....words.grace import date_text
from ....words.remarks import left_out_bytes, show_census, show_missing, show_remarks

if TYPE_CHECKING:
    from safekept.actions.snapshots.preview import SnapshotPreview

KINDS = ("manual", "quick", "scheduled", "pre-update", "pre-migration")
#: Kinds that stand before something risky: one of three outcomes, and a zip on request.
GUARDS = ("pre-update", "pre-migration")


@click.command("create")
@click.option(
    "-l",
    "--label",
    metavar="TEXT",
    default="",
    help="A few words to know it by: one line of at most 200 characters.",
)
@click.option(
    "-q",
    "--quick",
    is_flag=True,
    help="Only the state files: persona, memories, conversations, schedules, settings and keys.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What it is for; default: manual; each kind has its own retention.",
)
@click.option(
    "--backup/--no-backup",
    "backup",
    default=None,
    help="With the kinds pre-update and pre-migration: also write a zip into the home, or switch "
    "all of it off for once.",
)
@click.option("--all", "every", is_flag=True, help="Of every agent's home here, one after the other.")
@click.option("--no-secrets", is_flag=True, help="Leave out what the layout knows as keys and tokens.")
@selection_options
@click.option(
    "--full",
    is_flag=True,
    help="Every byte of every database, search indexes included, whatever the setting `databases` says.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be taken and left out; write nothing, make no vault."
)
@common_options
def command(
    label: str,
    quick: bool,
    kind: str | None,
    backup: bool | None,
    every: bool,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    profile: str,
    full: bool,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Take a point in time of a home into the vault, even while the agent runs.

    It costs what changed since the last one. The vault is made on first use: outside the home,
    encrypted, with a generated key in a file that only you can read. Exit code 0: complete; 3: stored,
    but something is missing, torn or damaged, and everything is listed; 1: no snapshot was stored.
    """
    if kind == "quick" or (quick and kind is None):
        kind, quick = "quick", True
    kind = kind or "manual"
    if backup is not None and kind not in GUARDS:
        raise click.UsageError("--backup and --no-backup go with --kind pre-update or pre-migration.")
    if every:
        if home or layout or profile or dry_run or kind in GUARDS:
            raise click.UsageError(
                "--all takes every home whole: not with --home, --layout, --profile, --dry-run or that kind."
            )
        from .every import take_every

        return take_every(kind, label, quick, full, no_secrets, include, exclude, as_json)
    return take(
        kind,
        label=label,
        quick=quick,
        backup=backup,
        no_secrets=no_secrets,
        include=include,
        exclude=exclude,
        profile=profile,
        full=full,
        dry_run=dry_run,
        home=home,
        layout=layout,
        as_json=as_json,
    )


def take(
    kind: str,
    *,
    label: str,
    quick: bool,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    profile: str,
    dry_run: bool,
    home: str,
    layout: str,
    as_json: bool,
    backup: bool | None = None,
    full: bool = False,
) -> int:
    """Take one snapshot as the options say, and show it."""
    settings, context, console = start(as_json)
    place = context.locate(home, layout)
    selection = Selection(
        include=include or settings.texts("backup.include"),
        exclude=exclude or settings.texts("backup.exclude"),
        secrets=not no_secrets,
        profile=profile,
        quick=quick,
    )
    deadline = settings.number("database.deadline")
    # Whole is what the settings select: an exclusion of this run alone makes it a part.
    usual = Selection(include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude"))
    narrowed = bool(
        set(selection.exclude) - set(usual.exclude) or set(usual.include) - set(selection.include)
    )
    request = SnapshotRequest(place, kind, label, selection, deadline=deadline, full=full, narrowed=narrowed)
    named = [*(("--home", place.home) if home else ()), *(("--layout", layout) if layout else ())]
    if dry_run:
        from safekept.actions.snapshots.preview import preview_snapshot

        preview = preview_snapshot(context, request, console.listener())
        return show_preview(console, preview)
    if kind in GUARDS:
        from .protection import protect

        return protect(console, settings, context, request, backup, named)
    listener = console.listener()
    if console.draws():
        from safekept.actions.snapshots.preview import with_estimate

        listener = with_estimate(context, request, listener)
    result = create_snapshot(context, request, listener)
    console.finish()
    return show_result(console, result, named)


def restore_command(console: Console, result: SnapshotResult, named: list[str]) -> str:
    return console.command("snapshot", "restore", result.id[:8], *named)


def result_document(console: Console, result: SnapshotResult, named: list[str]) -> dict[str, object]:
    """What `--json` says of a snapshot that was taken."""
    return {
        "operation": result.operation,
        **result.facts.document(),
        "time": result.snapshot.time,
        "reused_files": result.reused,
        "complete": result.complete,
        "databases": {path: dict(facts) for path, facts in result.databases.items()},
        "remarks": [remark.as_dict() for remark in result.remarks],
        "alarm": result.alarm.as_dict() if result.alarm else None,
        "restore": restore_command(console, result, named),
    }


def show_result(console: Console, result: SnapshotResult, named: list[str]) -> int:
    console.document(result_document(console, result, named))
    return show_taken(console, result, named)


def show_taken(console: Console, result: SnapshotResult, named: list[str]) -> int:
    """In words what was taken; the exit code that it stands for."""
    console.heading(
        f"Snapshot {result.id[:8]} {'complete' if result.complete else 'incomplete'}", result.complete
    )
    show_facts(console, result)
    show_remarks(console, result.remarks)
    show_alarm(console, result)
    restore = restore_command(console, result, named)
    if not result.complete:
        show_missing(console, result.remarks, result.sound, named)
    if result.alarm is not None or result.open_losses:
        words = "What this snapshot has can be restored with"
    else:
        words = "Restore with" if result.complete else "What else is in it can be restored with"
    console.line(f"{words}: `{restore}`")
    return 0 if result.complete else 3


def show_facts(console: Console, result: SnapshotResult) -> None:
    """The lines about one snapshot, without what was left out."""
    console.fact("Home", f"{path_text(result.place.home)} ({result.place.layout.name})")
    console.fact("Kind", result.kind + (f", {path_text(result.label)}" if result.label else ""))
    unchanged = f"; {result.reused:,} unchanged, not read again" if result.reused else ""
    console.fact("Files", f"{result.files:,}, {size_text(result.bytes)}{unchanged}")
    console.fact("New data", f"{size_text(result.added)} ({size_text(result.stored)} compressed)")
    if result.databases:
        console.fact("Databases", databases_text(result))
        lean = {path: dict(facts.get("lean") or {}) for path, facts in result.databases.items()}  # type: ignore[call-overload]
        if left_out := sum(map(left_out_bytes, lean.values())):
            console.fact("", f"search indexes left out ({size_text(left_out)}); a restore rebuilds them")
    console.fact("Time", time_text(result.seconds))
    show_census(console, result.census)
    if result.forgotten:
        names = [name[:8] for name in result.forgotten]
        until = date_text(time.time() + GRACE)
        console.fact("Let go", f"{count_text(len(names), 'older snapshot')}, as the retention says")
        call = console.command("snapshot", "forget", "--undo", *names)
        console.fact("", f"kept until {until}; call back: `{call}`")


def show_alarm(console: Console, result: SnapshotResult) -> None:
    """What fell since the snapshot before, and the way back. The alarm itself was said when it was raised."""
    for lost in result.open_losses:
        console.line(f"Lost before this snapshot, and not in it: {lost.text}")
        for command in lost.restore:
            console.item(read_step(f"Bring it back: `{command}`"))
    alarm = result.alarm
    if alarm is None:
        return
    console.line(f"Fewer than before: {alarm.text}")
    if alarm.pinned:
        console.item(f"Snapshot {alarm.pinned[:8]} still has it, and is pinned for 30 days")
    for command in alarm.restore:
        console.item(read_step(f"Bring it back: `{command}`"))
    console.item(NextStep("status", ("--acknowledge", alarm.id), before=MEANT))


def databases_text(result: SnapshotResult) -> str:
    """`3 checked and sound, 1 not checked again so soon: …`."""
    states = [_state(facts) for facts in result.databases.values()]
    words = {
        "sound": "checked and sound",
        "damaged": "damaged",
        "uncheckable": "could not be checked",
        "unverified": f"not checked again so soon: a check is due every {CHECK_EVERY_NS // HOUR_NS} hours",
    }
    return ", ".join(f"{states.count(state):,} {text}" for state, text in words.items() if state in states)


def _state(facts: Mapping[str, object]) -> str:
    state = str(facts.get("state", "unverified"))
    return "uncheckable" if state == "unverified" and facts.get("detail") else state


def show_preview(console: Console, preview: SnapshotPreview) -> int:
    console.finish()
    console.document(
        {
            "dry_run": True,
            "home": preview.place.home,
            "layout": preview.place.layout.name,
            "vault": preview.vault,
            "vault_exists": preview.vault_exists,
            "files": preview.files,
            "bytes": preview.bytes,
            "remarks": [remark.as_dict() for remark in preview.remarks],
        }
    )
    console.heading(f"Would take a snapshot of {path_text(preview.place.home)}")
    console.fact(
        "Vault", path_text(preview.vault) + ("" if preview.vault_exists else ", which would be made")
    )
    console.fact("Files", f"{preview.files:,}, {size_text(preview.bytes)}")
    show_remarks(console, preview.remarks)
    console.line("Nothing was written")
    return 0
