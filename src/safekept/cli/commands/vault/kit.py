"""`safekept vault kit`: write the page that opens the vault on a bare machine."""

from __future__ import annotations

import os

import click

from safekept.actions.vault.keys.kit import write_kit
from safekept.actions.vault.opening import open_vault

from ...console import path_text
from ...options import start
from .options import json_option


@click.command("kit")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    default="",
    help="A directory, or a name without suffix; default: your home directory.",
)
@json_option
def command(output: str, as_json: bool) -> int:
    """Write the page that opens the vault on a bare machine with plain restic.

    Two files with the same content, for you only: a text, and HTML to print. They say where the
    vault is, hold its key, and give the commands. Only an older kit is replaced.
    Keep a copy away from this machine.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        text, html = write_kit(context, repository, os.path.abspath(output) if output else "")
    console.document({"vault": context.places.vault, "text": text, "html": html})
    console.heading(f"Wrote the kit of the vault {path_text(context.places.vault)}")
    console.fact("Text", path_text(text))
    console.fact("To print", path_text(html))
    console.line("It holds the key: keep it away from this machine, where only you can reach it")
    return 0
