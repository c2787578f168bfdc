"""`safekept vault open` and `safekept vault close`: the seat belt around the stores, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import click

from safekept.actions.vault.seat_belt import BeltedStore, close_stores, open_stores
from safekept.core.next_step import NextStep

from ...console import Console, path_text
from ...options import start
from .options import json_option


@click.command("open")
@json_option
def open_command(as_json: bool) -> int:
    """Let restic, and everybody who is you, write and delete in the stores.

    Between two commands the stores are closed, so that `rm -rf` cannot empty them: the seat belt.
    safekept opens them by itself for what it writes. This is for other programs that write there, as
    `restic prune` does, and to delete a store by hand. They stay open until
    `vault close`.
    """
    _, context, console = start(as_json)
    stores = open_stores(context)
    console.document({"stores": [one.as_dict() for one in stores]})
    console.heading(
        "The stores are open: any program of yours can delete them" if stores else "No store is here yet"
    )
    _show(console, stores)
    if any(one.state == "open" for one in stores):
        console.line(NextStep("vault close", before="Close them when you are done:"))
    return 0


@click.command("close")
@json_option
def close_command(as_json: bool) -> int:
    """Close the stores again after `vault open`.

    Whether they are closed is tried. Exit code 3: one of them is not.
    """
    _, context, console = start(as_json)
    stores = close_stores(context)
    console.document({"stores": [one.as_dict() for one in stores]})
    closed = all(one.closed for one in stores)
    said = "The stores are closed: `rm -rf` leaves what is in them" if closed else "Not every store is closed"
    console.heading(said if stores else "No store is here yet", closed)
    _show(console, stores)
    return 0 if closed else 3


def _show(console: Console, stores: Sequence[BeltedStore]) -> None:
    for one in stores:
        state = "closed" if one.closed else f"open: {one.why}" if one.why else "open"
        console.line(f"{path_text(one.path)}  {state}")
