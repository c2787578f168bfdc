"""`safekept vault key list`: which keys open the vault."""

from __future__ import annotations

import click

from safekept.actions.vault.keys.keys import listed_keys
from safekept.actions.vault.opening import open_vault

from ...console import count_text, path_text
from ...options import source_options, start
from .options import json_option


@click.command("list")
@source_options
@json_option
def command(as_json: bool) -> int:
    """See which keys open the vault. None of them is shown itself."""
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        found = listed_keys(repository)
    console.document({"vault": context.places.reads_from, "keys": [key.as_dict() for key in found]})
    console.heading(f"{count_text(len(found), 'key')} of the vault {path_text(context.places.reads_from)}")
    for key in found:
        mark = "*" if key.current else " "
        text = key.reason or f"{key.kind:<20}  {key.created[:16].replace('T', ' ')}  {key.person}"
        console.line(f"{mark} {key.id[:8]}  {path_text(text)}")
    console.line("* opened the vault just now")
    if not any(key.kind != "generated key" for key in found if not key.reason):
        console.line("No passphrase opens it yet; add one for bad days: `safekept vault key add --recovery`")
    return 0
