"""`safekept destinations test`: what a destination lets us do, and how fast it is."""

from __future__ import annotations

import click

from safekept.actions.offsite.destinations import Examined, examine_destination

from ....console import Console, path_text, size_text
from ....options import place_argument, start


@click.command("test")
@click.argument("places", metavar="[DESTINATION|URL]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(places: tuple[str, ...], as_json: bool) -> int:
    """Find out by doing it: write, read back, delete, and how fast. Without a name: all destinations.

    A credential that may not delete is good news for a backup: whoever takes over this host cannot
    delete its copies either. Versioning helps in the same way. Exit code 1: one of them cannot be used.
    """
    _, context, console = start(as_json)
    words = [place_argument(word) for word in places] or [one.name for one in context.choices.destinations]
    found = []
    for word in words:
        examined = examine_destination(context, word, console.listener())
        console.finish()
        found.append(examined)
        _show(console, examined)
    console.document({"destinations": [one.as_dict() for one in found]})
    if not found:
        console.line("No destinations yet; describe one in `config.toml`: `[[destination]]`")
    absent = [one for one in found if one.state == "absent"]
    return 1 if any(one.state == "failed" for one in found) or (absent and places) else 0


def _show(console: Console, found: Examined) -> None:
    name = path_text(found.setting.name)
    if found.state != "usable":
        console.heading(f"{name}: {'not there now' if found.state == 'absent' else 'cannot be used'}", False)
        console.fact("Place", path_text(found.place))
        console.fact("Why", found.reason)
        for step in found.error.next_steps if found.error else ():
            console.fact("Next", step)
        return
    can = found.abilities
    assert can is not None
    console.heading(f"{name}: usable")
    console.fact("Place", path_text(found.place))
    console.fact("Write", "yes")
    if found.readable is not None:
        console.fact("Read back", "the same bytes")
    console.fact("Delete", _delete(can.delete))
    console.fact("Overwrite", {True: "yes", False: "no", None: "unknown"}[can.overwrite])
    console.fact("Versioning", {True: "on", False: "off", None: "unknown"}[can.versioning])
    if found.write_speed:
        speeds = f"{size_text(found.write_speed)}/s to it, {size_text(found.read_speed)}/s from it"
        console.fact("Speed", speeds)
    if found.room:
        console.fact("Free", f"{size_text(found.room[0])} of {size_text(found.room[1])}")
    console.fact("Used", "yes, safekept's marker is there" if found.used else "not yet")
    if can.left:
        console.line(f"Note: the probe `{can.left}` could not be deleted and stays there")
    for note in found.notes:
        console.line(f"Note: {note}")


def _delete(can: bool | None) -> str:
    if can is None:
        return "unknown"
    if can:
        return "yes: whoever takes over this host could delete the copies too"
    return "no: copies are safe from whoever takes over this host"
