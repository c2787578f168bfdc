"""`safekept vault key export`: show the key, or write it to a file."""

from __future__ import annotations

import os

import click

from safekept.actions.vault.keys.keys import export_key, write_exported_key
from safekept.actions.vault.opening import open_vault

from ...console import path_text
from ...options import start
from .options import json_option


@click.command("export")
@click.option("-o", "--output", metavar="FILE", default="", help="Write it there (0600), not to the screen.")
@json_option
def command(output: str, as_json: bool) -> int:
    """Show the key in the key file, proven to open the vault, or write it to FILE.

    Whoever has it can read everything in the vault. restic takes it as its password.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        secret = export_key(context, repository)
    if output:
        path = os.path.abspath(output)
        write_exported_key(path, secret.text)
        console.document({"vault": context.places.vault, "written": path})
        console.heading(f"Wrote the key of the vault {path_text(context.places.vault)}")
        console.fact("File", path_text(path))
        console.line("Whoever has this file can read everything in the vault")
        return 0
    console.document({"vault": context.places.vault, "key": secret.text})
    if not as_json:
        console.say("Whoever has this key can read everything in the vault; it is also your restic password")
    console.line(secret.text)
    return 0
