"""`safekept vault kit`: write the page that opens the vault on a bare machine."""

from __future__ import annotations

import os

import click

from safekept.actions.base.context import UserContext
from safekept.actions.vault.keys.keys import acknowledge_kit
from safekept.actions.vault.keys.kit import write_kit
from safekept.actions.vault.opening import open_vault
from safekept.core.next_step import NextStep

from ...console import Console, path_text
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
@click.option(
    "--stored", is_flag=True, help="Write nothing: say that the kit is kept elsewhere; status counts on it."
)
@json_option
def command(output: str, stored: bool, as_json: bool) -> int:
    """Write the page that opens the vault on a bare machine: with `safekept rebuild`, or with plain restic.

    Two files with the same content, for you only: a text, and HTML to print. They say where the
    vault is, hold its key, and give the commands. Only an older kit is replaced.
    Keep a copy away from this machine, and say so with --stored.
    """
    if stored and output:
        raise click.UsageError("--stored writes nothing, and does not go with --output.")
    _, context, console = start(as_json)
    if stored:
        return _stored(console, context)
    with open_vault(context, listener=console.notes()) as repository:
        text, html = write_kit(context, repository, os.path.abspath(output) if output else "")
    console.document({"vault": context.places.vault, "text": text, "html": html})
    console.heading(f"Wrote the kit of the vault {path_text(context.places.vault)}")
    console.fact("Text", path_text(text))
    console.fact("To print", path_text(html))
    console.line("It holds the key: keep it away from this machine, where only you can reach it")
    console.line(NextStep("vault kit", ("--stored",), before="When it is there, say so:"))
    return 0


def _stored(console: Console, context: UserContext) -> int:
    """A person keeps the kit elsewhere: from now on the key does not exist once."""
    with open_vault(context, listener=console.notes()) as repository:
        acknowledge_kit(context, repository, console.notes())
    console.document({"vault": context.places.vault, "stored": True})
    console.heading("Noted: the kit is kept elsewhere, and opens the vault when this machine is gone")
    return 0
