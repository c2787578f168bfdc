"""`safekept destinations …`: the places off this host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from safekept.actions.offsite.destinations import (
    Examined,
    ListedDestination,
    contents_of,
    examine_destination,
    list_destinations,
    record_rights,
)
from safekept.core.ages import seconds_text
from safekept.core.next_step import NextStep
from safekept.core.objects.sftp import ADD_ONLY

from ...console import Console, count_text, path_text, size_text
from ...groups import LazyGroup
from ...options import context_from, only_destination, place_argument, start
from ...words.grace import date_text
from ...words.kit import kit_document, show_kit

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.vault.keys.kit_record import KitStatus
    from safekept.settings import Settings


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
        console.fact("Takes", _listed(one.setting.takes))
        console.fact("Last push", _last(one))
        if one.last is not None and one.last.rights is not None:
            tried = f", as it was tried {seconds_text(max(0.0, time.time() - one.last.done))} ago"
            console.fact("Safe", _safe(one.last.rights.get("keeps") is True) + tried)
    if not found:
        console.line(f"No destinations yet. Add one: `{console.command('destinations', 'add', 'PLACE')}`")
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
@click.argument("place", metavar="[DESTINATION|PLACE]", default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show_command(place: str, as_json: bool) -> int:
    """See what a destination holds: the copies of vaults, and the archives of every host.

    Where there is only one, it need not be named.
    No key is needed for this; what is in a vault says `safekept snapshot list --destination NAME`.
    """
    _, context, console = start(as_json)
    found = contents_of(context, place_argument(place) if place else only_destination(context))
    console.document(found.as_dict())
    console.heading(path_text(found.place))
    for vault in found.vaults:
        if vault.reason:
            console.fact("Vault", f"{vault.directory}: cannot be read: {path_text(vault.reason)}")
            continue
        when = f", the last one arrived {date_text(vault.newest)}" if vault.newest else ""
        whole = "" if vault.whole else "; not whole yet, its `config` is missing"
        console.fact("Vault", f"{vault.directory}: {count_text(vault.snapshots, 'snapshot')}{when}{whole}")
    for archive in found.archives:
        note = "" if archive.checked else "; no checksum, so it may not have arrived whole"
        name = f"{path_text(archive.host)}/{path_text(archive.name)}"
        console.fact("Archive", f"{name}: {size_text(archive.size)}{note}")
    if not found.vaults and not found.archives:
        console.line("Nothing of safekept's is there")
    return 0


@click.command("test")
@click.argument("places", metavar="[DESTINATION|PLACE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def test_command(places: tuple[str, ...], as_json: bool) -> int:
    """Find out by doing it: write, read back, overwrite, delete, and how fast. Without a name: all of them.

    A credential that may not delete is good news for a backup: an intruder on this host cannot
    delete its copies either. Versioning helps in the same way. Exit code 1: one of them cannot
    be used, or one that was named is not there.
    """
    _, context, console = start(as_json)
    words = [place_argument(word) for word in places] or [one.name for one in context.choices.destinations]
    found = []
    for word in words:
        examined = examine_destination(context, word, console.listener())
        if examined.setting in context.choices.destinations:
            record_rights(context, examined, console.listener())
        console.finish()
        found.append(examined)
        _show(console, context, examined)
    console.document({"destinations": [one.as_dict() for one in found]})
    if not found:
        console.line(f"No destinations yet. Add one: `{console.command('destinations', 'add', 'PLACE')}`")
    absent = [one for one in found if one.state == "absent"]
    return 1 if any(one.state == "failed" for one in found) or (absent and places) else 0


def _show(console: Console, context: UserContext, found: Examined) -> None:
    name = path_text(found.setting.name)
    if found.state != "usable":
        console.heading(f"{name}: {'not there now' if found.state == 'absent' else 'cannot be used'}", False)
        console.fact("Place", path_text(found.place))
        console.fact("Why", found.reason)
        console.next(found.error.next_steps if found.error else ())
        return
    can = found.abilities
    assert can is not None
    console.heading(f"{name}: usable")
    console.fact("Place", path_text(found.place))
    console.fact("Write", "yes")
    if found.readable is not None:
        console.fact("Read back", "the same bytes")
    console.fact("Delete", {True: "yes", False: "no", None: "unknown"}[can.delete])
    console.fact("Overwrite", {True: "yes", False: "no", None: "unknown"}[can.overwrite])
    console.fact("Versioning", {True: "on", False: "off", None: "unknown"}[can.versioning])
    console.fact("Safe", _safe(can.keeps, versions=can.versioning is True))
    if found.write_speed:
        speeds = f"{size_text(found.write_speed)}/s to it, {size_text(found.read_speed)}/s from it"
        console.fact("Speed", speeds)
    if found.room:
        console.fact("Free", f"{size_text(found.room[0])} of {size_text(found.room[1])}")
    console.fact("Used", "yes, safekept's marker is there" if found.used else "not yet")
    if not can.keeps and found.setting.url.startswith("sftp://"):
        _add_only(console, context, found)
    if not can.keeps and found.setting.url.startswith("rest:"):
        console.line("Started with `--append-only`, that server lets clients add, and none of them delete")
    if can.left:
        console.line(f"Note: the probe `{can.left}` could not be deleted and stays there")
    for note in found.notes:
        console.line(f"Note: {note}")


def _add_only(console: Console, context: UserContext, found: Examined) -> None:
    """What the administrator of a server pastes, so that this machine's key can add and do nothing else."""
    from safekept.core.objects.ssh_host import ssh_public_key

    setting = found.setting
    key = ssh_public_key(setting.url, setting.options.get("ssh_config", ""), context.caller.environment)
    line = f'restrict,command="internal-sftp -P {ADD_ONLY}"'
    if key:
        console.line(
            "So that this machine can add and no more, let that server's ~/.ssh/authorized_keys say:"
        )
        console.verbatim(f"  {line} {key}")
        console.line("in place of the line with this key, for an account that is not root's")
    else:
        console.line("On that server, this before the key in ~/.ssh/authorized_keys lets it add and no more:")
        console.verbatim(f"  {line}")


def _safe(keeps: bool, *, versions: bool = False) -> str:
    """Whether the copies outlive an intruder on this host."""
    if keeps:
        return "yes: nothing on this host can delete or change the copies"
    if versions:
        # A delete was not refused: it hid what was there. Whether older versions are locked was not tried.
        return "partly: an intruder on this host could hide the copies behind new versions"
    return "no: an intruder on this host could delete the copies too"


def _listed(words: tuple[str, ...]) -> str:
    """`vault`, `vault and archives`, `vault, archives and hidden`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


@click.command("add")
@click.argument("url", metavar="PLACE")
@click.option("--name", metavar="NAME", default="", help="What to call it; default: from the place.")
@click.option(
    "--takes",
    metavar="WHAT",
    multiple=True,
    help="`vault`, `archives`, `hidden` (what git hides in projects). Repeat it; default: the first two.",
)
@click.option("--keep", type=int, metavar="N", help="Archives of each host and kind that stay; 0 keeps all.")
@click.option("--unsealed", is_flag=True, help="Archives that the place could read may go there.")
@click.option("--same-disk", is_flag=True, help="Yes, it lies on the same disk; I mean it.")
@click.option("--elsewhere", is_flag=True, help="It looks like this machine, and is another: a tunnel.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, help="endpoint, region, profile, …")
@click.option("--no-test", is_flag=True, help="Do not try the place before it is written down.")
@click.option("--dry-run", is_flag=True, help="Try the place; write nothing into the settings.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def add_command(
    url: str,
    name: str,
    takes: tuple[str, ...],
    keep: int | None,
    unsealed: bool,
    same_disk: bool,
    elsewhere: bool,
    options: tuple[str, ...],
    no_test: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Try a place off this host, and write it into the settings as a destination.

    A directory, `sftp://user@host/path`, `s3://bucket/path`, `rest:https://user@host/path/` or
    `rclone:remote:path`. Keys and passwords stay where they are: `~/.ssh`, the environment, a profile,
    `~/.netrc`, `rclone.conf`. The next step, `safekept push NAME`, takes the first copy there.
    """
    from safekept.actions.offsite.destination import parse_destination
    from safekept.actions.offsite.destination_changes import note_change
    from safekept.actions.offsite.elsewhere import not_elsewhere
    from safekept.settings.file import add_destination, settings_path
    from safekept.settings.table import bad

    settings, context, console = start(as_json)
    place = place_argument(url)
    fields: dict[str, object] = {"name": name or name_for(place), "url": place}
    given = {"takes": list(takes), "keep": keep, "unsealed": unsealed}
    given |= {"same_disk": same_disk, "elsewhere": elsewhere}
    fields |= {key: value for key, value in given.items() if value not in (None, [], False)}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise click.UsageError(f"--option takes KEY=VALUE, and not `{option}`.")
        fields[key] = value
    try:
        setting = parse_destination(fields)
    except ValueError as error:
        raise bad(f"The destination is not as it must be: {error}", "Correct it and run it again") from error
    if any(one.name == setting.name for one in context.choices.destinations):
        raise bad(
            f"There is a destination called `{setting.name}` already",
            NextStep(
                "destinations remove",
                (setting.name,),
                before="Give the new one another name with `--name`, or take the old one out:",
            ),
        )
    examined = None
    if not no_test:
        tried = context.changed(destinations=(*context.choices.destinations, setting))
        examined = examine_destination(tried, setting.name, console.listener(), make=not dry_run)
        console.finish()
        _show(console, context, examined)
        if examined.state == "failed" or examined.error is not None:
            console.document({"added": False, "tested": examined.as_dict()})
            console.line("Nothing was written into the settings")
            return 1
    kits = None
    if not dry_run:
        note_change(context, add_destination(settings.config_directory, fields), console.notes())
        kits = _kit_follows(console, settings)
    path = settings_path(settings.config_directory)
    console.document(
        {
            "added": not dry_run,
            "dry_run": dry_run,
            "destination": setting.as_dict(),
            "settings": path,
            "tested": examined.as_dict() if examined else None,
            "kit": kit_document(kits) if kits else None,
        }
    )
    done = "Dry run. Would add" if dry_run else "Added"
    console.heading(f"{done} the destination {path_text(setting.name)}: {path_text(setting.url)}")
    if kits is not None:
        show_kit(console, kits)
        if why := not_elsewhere(context, setting):
            console.line(f"Beware: it {why}, so a copy there does not count if the machine is lost")
        console.line(f"Take the first copy there: `{console.command('push', setting.name)}`")
    return 0


def _kit_follows(console: Console, settings: Settings) -> KitStatus:
    """The kit says where the copies are: it is written again, with the settings as they are now."""
    from safekept.actions.vault.keys.kit_files import refresh_kit
    from safekept.settings import load_settings

    return refresh_kit(context_from(load_settings(settings.environment)), console.notes())


#: What people call a directory for this on any disk.
_NO_NAME = ("safekept", "backup", "backups")


def name_for(place: str) -> str:
    """A short name for a place: the host, the bucket, the remote, or the last part of a path."""
    import re

    scheme, colon, rest = place.partition(":")
    if colon and scheme in ("sftp", "s3", "rest"):
        rest = rest.rpartition("//")[2] if scheme == "rest" else rest
        word = rest.lstrip("/").partition("/")[0].rpartition("@")[2].partition(":")[0]
    elif colon and scheme == "rclone":
        word = rest.partition(":")[0]
    else:
        *above, word = place.removeprefix("file:").rstrip("/").split("/")
        if word in _NO_NAME and above and above[-1]:
            word = above[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", word).strip("-._")[:40] or "copy"


@click.command("remove")
@click.argument("name", metavar="NAME")
@click.option("--dry-run", is_flag=True, help="Say what would be taken out; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def remove_command(name: str, dry_run: bool, as_json: bool) -> int:
    """Take a destination out of the settings. The copies that lie there are not touched."""
    from safekept.actions.offsite.destination_changes import note_change
    from safekept.settings.file import remove_destination

    settings, context, console = start(as_json)
    kits, known = None, next((one for one in context.choices.destinations if one.name == name), None)
    if not dry_run or known is None:
        remove_destination(settings.config_directory, name)  # an error where there is none
        if known is not None:
            note_change(context, known, console.notes(), removed=True)
        kits = _kit_follows(console, settings)
    document = {"removed": not dry_run, "dry_run": dry_run, "name": name, "url": known.url if known else None}
    console.document({**document, "kit": kit_document(kits) if kits else None})
    done = "Dry run. Would remove" if dry_run else "Removed"
    console.heading(f"{done} the destination {path_text(name)} from the settings")
    console.line("The copies that lie there are untouched")
    if kits is not None:
        show_kit(console, kits)
    return 0


#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "add": ("safekept.cli.commands.offsite.destinations:add_command", "Try a place and set it up."),
    "remove": ("safekept.cli.commands.offsite.destinations:remove_command", "Take one out of the settings."),
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


@click.group("destinations", cls=LazyGroup, table=TABLE, default="list")
def command() -> None:
    """The places off this host that receive the vault and archives."""
