"""`safekept destinations …`: the places off this host."""

from __future__ import annotations

import time

import click

from safekept.actions.offsite.destinations import (
    Examined,
    ListedDestination,
    contents_of,
    examine_destination,
    list_destinations,
)
from safekept.core.ages import seconds_text

from ...console import Console, count_text, path_text, size_text
from ...groups import LazyGroup
from ...options import place_argument, start


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_command(as_json: bool) -> int:
    """See the destinations of the settings, what each takes, and how the last push to it ended.

    Nothing is contacted for this; `safekept destinations test` does that.
    """
    _, context, console = start(as_json)
    found = list_destinations(context)
    console.document({"destinations": [one.as_dict() for one in found]})
    for one in found:
        console.heading(path_text(one.setting.name), good=one.last is not None and one.last.state == "done")
        console.fact("Place", path_text(one.setting.url))
        console.fact("Takes", " and ".join(one.setting.takes))
        console.fact("Last push", _last(one))
    if not found:
        console.line("No destinations yet; describe one in `config.toml`: `[[destination]]`")
    return 0


def _last(one: ListedDestination) -> str:
    last = one.last
    if last is None:
        return "never"
    age = f"{seconds_text(max(0.0, time.time() - last.time))} ago"
    good = f"; the last good one {seconds_text(max(0.0, time.time() - last.done))} ago" if last.done else ""
    if last.state == "done":
        return f"{age}: {count_text(last.snapshots, 'new snapshot')}, {size_text(last.bytes)}"
    if last.state == "absent":
        return f"{age}: it was not there{good}"
    return f"{age}: {last.state}{f' ({last.error})' if last.error else ''}{good}"


@click.command("show")
@click.argument("place", metavar="DESTINATION|URL")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show_command(place: str, as_json: bool) -> int:
    """See what a destination holds: the copies of vaults, and the archives of every host.

    No key is needed for this; what is in a vault says `safekept snapshot list --destination NAME`.
    """
    _, context, console = start(as_json)
    found = contents_of(context, place_argument(place))
    console.document(found.as_dict())
    console.heading(path_text(found.place))
    for vault in found.vaults:
        when = f", the newest of {_when(vault.newest)}" if vault.newest else ""
        whole = "" if vault.whole else "; not whole yet, its `config` is missing"
        console.fact("Vault", f"{vault.directory}: {count_text(vault.snapshots, 'snapshot')}{when}{whole}")
    for archive in found.archives:
        note = "" if archive.checked else "; no checksum, so it may not have arrived whole"
        name = f"{path_text(archive.host)}/{path_text(archive.name)}"
        console.fact("Archive", f"{name}: {size_text(archive.size)}{note}")
    if not found.vaults and not found.archives:
        console.line("Nothing of safekept's is there")
    return 0


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


@click.command("test")
@click.argument("places", metavar="[DESTINATION|URL]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def test_command(places: tuple[str, ...], as_json: bool) -> int:
    """Find out by doing it: write, read back, overwrite, delete, and how fast. Without a name: all of them.

    A credential that may not delete is good news for a backup: whoever takes over this host cannot
    delete its copies either. Versioning helps in the same way. Exit code 1: one of them cannot
    be used, or one that was named is not there.
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


#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": (
        "safekept.cli.commands.offsite.destinations:list_command",
        "See them, and when each was last pushed to.",
    ),
    "show": (
        "safekept.cli.commands.offsite.destinations:show_command",
        "See the vaults and archives in one.",
    ),
    "test": (
        "safekept.cli.commands.offsite.destinations:test_command",
        "Find out what one lets you do, and how fast it is.",
    ),
}


@click.group("destinations", cls=LazyGroup, table=TABLE)
def command() -> None:
    """The places off this host that receive the vault and archives."""
