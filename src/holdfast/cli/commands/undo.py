"""`holdfast undo [ID]`: take the last import back."""

from __future__ import annotations

import click

from holdfast.actions.undo import undo_last
from holdfast.cli.console import path_text, time_text
from holdfast.cli.options import common_options, start


@click.command("undo")
@click.argument("operation", metavar="[ID]", required=False, default="")
@common_options
def command(operation: str, home: str, layout: str, as_json: bool) -> int:
    """Take the last import into a home back, or the one with the given ID.

    What the import replaced returns; what it created, and anything changed since, is set aside and
    not deleted. An undo can itself be undone by calling it again.
    """
    _, surroundings, console = start(as_json)
    undone = undo_last(
        surroundings, surroundings.locate(home, layout, existing=False), operation, console.listener()
    )
    console.finish()
    landed = undone.landed
    console.document({"operation": undone.operation, "home": undone.place.home, "landed": landed.as_dict()})
    console.heading(f"Taken back in {path_text(undone.place.home)}")
    console.fact(
        "Files", f"{landed.replaced:,} returned, {landed.created:,} new, {landed.removed:,} set aside"
    )
    console.fact("Time", time_text(landed.seconds))
    console.line("Changed your mind? Run `holdfast undo` again")
    return 0
