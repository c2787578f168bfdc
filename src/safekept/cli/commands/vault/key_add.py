"""`safekept vault key add`: one more passphrase that opens the vault."""

from __future__ import annotations

import click

from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.opening import open_vault

from ...console import path_text
from ...options import start
from .options import json_option, new_passphrase, passphrase_options


@click.command("add")
@click.option("--recovery", is_flag=True, help="Call it the recovery passphrase in lists.")
@passphrase_options
@json_option
def command(
    recovery: bool,
    passphrase_fd: int | None,
    passphrase_file: str,
    passphrase_command: str,
    as_json: bool,
) -> int:
    """Add a passphrase that opens the vault too. It is asked for at a terminal.

    A recovery passphrase is for the day on which the key file is gone: remember it, or keep it on
    paper somewhere else. It is never written anywhere by safekept.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        what = "New recovery passphrase" if recovery else "New passphrase"
        secret = new_passphrase(console, passphrase_command, passphrase_file, passphrase_fd, what)
        added = add_passphrase(context, repository, secret, recovery=recovery)
    console.document({"vault": context.places.vault, "key": added, "recovery": recovery})
    name = "recovery passphrase" if recovery else "passphrase"
    console.heading(f"The vault {path_text(context.places.vault)} opens with this {name} too")
    console.fact("Key", added[:8])
    console.line(f"Take it away again with: `{console.command('vault', 'key', 'remove', added[:8])}`")
    return 0
