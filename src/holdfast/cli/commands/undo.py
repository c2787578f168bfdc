"""`holdfast undo [ID]`: take the last import or restore back."""

from __future__ import annotations

import click

from holdfast.actions.undo import undo_last
from holdfast.cli.console import count_text, path_text, time_text
from holdfast.cli.options import common_options, start


@click.command("undo")
@click.argument("operation", metavar="[ID]", required=False, default="")
@common_options
def command(operation: str, home: str, layout: str, as_json: bool) -> int:
    """Take the last import or restore into a home back, or the one with the given ID.

    What it replaced returns; what it created, and anything changed since, is set aside and
    not deleted. An undo can itself be undone by calling it again.
    """
    _, surroundings, console = start(as_json)
    place = surroundings.locate(home, layout, existing=False)
    undone = undo_last(surroundings, place, operation, console.listener())
    console.finish()
    landed = undone.landed
    again = console.command("undo", *(("--home", place.home) if home else ()))
    console.document(
        {"operation": undone.operation, "home": place.home, "landed": landed.as_dict(), "undo": again}
    )
    console.heading(f"Taken back in {path_text(place.home)}")
    console.fact("Returned", count_text(landed.created + landed.replaced, "file"))
    console.fact("Set aside", count_text(landed.removed + landed.replaced, "file"))
    if landed.replaced_in:
        console.fact("Kept in", path_text(landed.replaced_in))
    console.fact("Time", time_text(landed.seconds))
    console.line(f"Changed your mind? Run `{again}`")
    return 0
