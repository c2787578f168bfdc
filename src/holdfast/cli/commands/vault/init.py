"""`holdfast vault init`: make the vault now."""

from __future__ import annotations

import click

from holdfast.actions.vault import initialise
from holdfast.cli.commands.vault.options import json_option, new_passphrase, passphrase_options
from holdfast.cli.console import path_text
from holdfast.cli.options import start


@click.command("init")
@click.option("--passphrase", is_flag=True, help="Open it with a passphrase of yours, not a key file.")
@passphrase_options
@json_option
def command(
    passphrase: bool,
    passphrase_fd: int | None,
    passphrase_file: str,
    passphrase_command: str,
    as_json: bool,
) -> int:
    """Make the vault. The first snapshot would do it too.

    It gets a generated key in a file that only you can read; with --passphrase it opens with a
    passphrase instead. An init that was cut short is finished. A vault that is there is not touched.
    """
    _, surroundings, console = start(as_json)
    secret = None
    if passphrase or passphrase_fd is not None or passphrase_file or passphrase_command:
        secret = new_passphrase(
            console, passphrase_command, passphrase_file, passphrase_fd, "New passphrase of the vault"
        )
    with initialise(surroundings, secret=secret) as made:
        key_file = "" if secret or surroundings.vault_wants_passphrase else surroundings.vault_key_file
        kit = console.command("vault", "kit")
        console.document(
            {"vault": surroundings.vault, "id": made.id, "key_file": key_file or None, "kit": kit}
        )
        console.heading(f"Made the vault {path_text(surroundings.vault)}")
        console.fact("Id", made.id[:16])
        console.fact("Opens with", path_text(key_file) if key_file else "your passphrase")
        if key_file:
            console.line("Without that key nobody can read the vault, you included")
        console.line(f"Write the page that opens it on a bare machine: `{kit}`")
    return 0
