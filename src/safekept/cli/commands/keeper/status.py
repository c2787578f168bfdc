"""`safekept keeper status` and `acknowledge`: what it holds, for a user and for root."""

from __future__ import annotations

import os
import pwd

import click

from safekept.actions.keeper.keeper_status import KeeperStatus, asked
from safekept.core.ages import ago_text
from safekept.core.next_step import NextStep
from safekept.core.owner import by_root

from ...console import Console, count_text, size_text
from ...options import start

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@click.command("status")
@json_option
def status_command(as_json: bool) -> int:
    """What the keeper of this machine holds of you, since when, and whether that counts.

    It counts where you cannot become root: who can, can delete what belongs to the keeper. Exit code 4:
    a person has to look; 10: there is no keeper.
    """
    _, context, console = start(as_json)
    found = asked(context)
    rooms = _rooms(context.choices.keeper_socket) if os.geteuid() == 0 and not found.wrong else []
    console.document({**found.as_dict(), **({"rooms": rooms} if rooms else {})})
    _show(console, found)
    for one in rooms:
        _show_room(console, one)
    alarms = found.pinned or found.full or any(one["alarm"]["pinned"] for one in rooms)  # type: ignore[index]
    return 4 if alarms or found.wrong else 0


def _show(console: Console, found: KeeperStatus) -> None:
    if found.wrong:
        console.heading(found.wrong, False)
        return
    newest = found.newest
    if newest is None:
        console.heading("The keeper runs, and holds nothing of yours yet", False)
    else:
        held = f"{count_text(newest.points, 'point')} in {count_text(newest.files, 'file')}"
        age = ago_text(found.confirmed)
        console.heading(f"The keeper holds your stores as they were {age}: {held}", found.counts)
    if found.why_not:
        console.line(f"It does not count: {found.why_not}")
        console.line("Run the agent as a user of its own that cannot, or use a destination off this host")
    console.line(f"  {size_text(found.used)} of {size_text(found.quota)} used")
    console.line(f"  {count_text(found.manifests, 'state')}, each kept for {found.keep_days:g} days")
    if found.full:
        console.line(f"  FULL since {ago_text(found.full)}: nothing new is taken, and nothing is deleted")
    if found.pinned:
        console.line(
            f"  ALARM: {ago_text(found.shrunk)} your stores shrank to less than half. What they were "
            f"before is kept until root says that this was meant"
        )
        console.line(f"  {by_root(_line(console, os.geteuid()))}")


def _line(console: Console, user: int) -> str:
    return console.command("keeper", "acknowledge", _name(user))


def _rooms(path: str) -> list[dict[str, object]]:
    from safekept.keeper.client import Keeper

    with Keeper(path, 10.0) as keeper:
        return [one for one in keeper.rooms()["rooms"] if one["user"] != 0]


def _show_room(console: Console, one: dict[str, object]) -> None:
    newest, alarm = one["newest"], one["alarm"]
    assert isinstance(alarm, dict)
    age = f"as of {ago_text(float(newest['confirmed']))}" if isinstance(newest, dict) else "nothing yet"
    user = int(str(one["user"]))
    console.line(f"{_name(user)}: {age}, {size_text(int(str(one['used'])))}")
    if alarm["pinned"]:
        said = "  ALARM, shrank to less than half:"
        console.line(NextStep("keeper acknowledge", (_name(user),), before=said))


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


@click.command("acknowledge")
@click.argument("user")
@json_option
def acknowledge_command(user: str, as_json: bool) -> int:
    """Say, as root, that it was meant that the stores of USER shrank.

    A state that names less than half of what was there is an alarm, and the larger one is kept until
    this is said. From then on it goes by its age. Nothing is deleted by this command.
    """
    from safekept.keeper.client import Keeper

    from .install import require_root

    _, context, console = start(as_json)
    require_root(console, "keeper", "acknowledge", user)
    asked(context)
    number = _number(user)
    with Keeper(context.choices.keeper_socket, 10.0) as keeper:
        was = keeper.acknowledge(number)["was"]
    console.document({"user": number, "pinned": was["pinned"] or None})
    said = "the alarm is over" if was["pinned"] or was["full"] else "there was no alarm"
    console.heading(f"{user}: {said}")
    return 0


def _number(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        if user.isdecimal():
            return int(user)
        raise click.UsageError(f"There is no user `{user}`.") from None
