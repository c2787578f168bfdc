"""`safekept vault unlock`: remove locks that were left behind."""

from __future__ import annotations

import click

from safekept.actions.vault.opening import open_vault, remove_locks

from ...console import count_text
from ...options import source_options, start
from .options import json_option


@click.command("unlock")
@click.option("--all", "everything", is_flag=True, help="Also locks of work that seems to go on.")
@click.option("--dry-run", is_flag=True, help="Show which would go; remove nothing.")
@source_options
@json_option
def command(everything: bool, dry_run: bool, as_json: bool) -> int:
    """Remove locks that a dead process or a machine switched off left behind.

    safekept clears these away by itself; this is for locks of restic, or of another machine. With
    --all every lock goes: only when you know that nobody works on the vault.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        removed = remove_locks(context, repository, everything=everything, dry_run=dry_run)
    document: dict[str, object] = {"locks": [{"id": lock.id, "holder": lock.holder} for lock in removed]}
    console.document({"dry_run": True, **document} if dry_run else document)
    done = "Would remove" if dry_run else "Removed"
    console.heading(f"{done} {count_text(len(removed), 'lock')}" if removed else "No lock was left behind")
    for lock in removed:
        console.fact("", lock.holder)
    return 0
