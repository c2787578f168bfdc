"""`safekept vault key remove ID`: take a key away."""

from __future__ import annotations

import click

from safekept.actions.base.consent import ConsentNeeded
from safekept.actions.vault.keys.keys import key_to_remove, remove_key
from safekept.actions.vault.opening import open_vault

from ...console import path_text
from ...options import start
from .options import json_option


@click.command("remove")
@click.argument("id")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show which key would go; remove nothing.")
@json_option
def command(id: str, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Take away the key that starts with ID, so that it opens the vault no more.

    Never the one that the vault was opened with. Whoever copied the vault before can still open
    that copy with it.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        key = key_to_remove(repository, id)
        named = f"{key.id[:8]} ({key.kind or 'unreadable'}, {key.person})"
        if dry_run:
            console.document({"dry_run": True, "key": key.as_dict()})
            console.line(f"Would remove the key {path_text(named)}; nothing was changed")
            return 0
        if not yes:
            if not console.can_ask():
                raise ConsentNeeded(
                    f"removing the key {named} needs your consent",
                    kept="No key was removed",
                    next_steps=(f"Agree to it: `safekept vault key remove {key.id[:8]} --yes`",),
                )
            if not console.ask(f"Remove the key {path_text(named)}?"):
                raise click.Abort
        remove_key(context, repository, key.id)
    console.document({"removed": key.as_dict()})
    console.heading(f"Removed the key {path_text(named)}")
    return 0
