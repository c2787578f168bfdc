"""`safekept keeper install` and `remove`: the service on this machine, made and taken back by root."""

from __future__ import annotations

import os

import click

from safekept.actions.keeper.install import (
    NotRoot,
    install,
    plan_keeper,
    plan_removal,
    remove,
)
from safekept.core.next_step import NextStep
from safekept.core.owner import by_root
from safekept.core.spelling import shell_line
from safekept.keeper.store import STORE
from safekept.keeper.units import USER

from ...console import Console, count_text, path_text, size_text
from ...options import Amount, start
from ...words.lists import consent
from ..schedule.options import machine_of
from .status import json_option

_GIGABYTE = 1_000_000_000


def require_root(console: Console, *words: str) -> None:
    if os.geteuid() != 0:
        raise NotRoot(
            "Only root can do this: the keeper belongs to root",
            kept="Nothing was changed",
            next_steps=(f"Run `{by_root(console.command(*words))}`",),
        )


@click.command("install")
@click.option(
    "--quota",
    metavar="GB",
    type=Amount(min=0.001),
    default=None,
    help="Room for each user; default: a fifth of the filesystem.",
)
@click.option(
    "--keep-days",
    metavar="DAYS",
    type=Amount(min=1),
    default=None,
    help="For how long an old state stays; default: 30.",
)
@click.option(
    "--user-name",
    "users",
    metavar="NAME",
    multiple=True,
    help="Let this machine run safekept for that user every night, too; may be given several times.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be made; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def install_command(
    quota: float | None,
    keep_days: float | None,
    users: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make the keeper a service of this machine, as root.

    It gets a user of its own, a store that only this user can enter, and, where systemd runs, a socket
    that starts it. Refused while the program that would run can be changed by another user than root: the
    commands for an installation that cannot are printed. Run again after an upgrade, it keeps the store.

    With `--user-name` a timer of this machine also does, as that user, what `schedule install` would let
    the user's own timer do: a snapshot every night, of which the keeper gets a copy. It is root's, so no
    agent of that user can end it.
    """
    from safekept.actions.keeper.program_trust import refuse_writable_program
    from safekept.integrations.connecting.program import this_program

    settings, _, console = start(as_json)
    program = this_program(settings.environment).words
    machine = machine_of(settings)
    chosen = tuple(dict.fromkeys(users))
    plan = plan_keeper(machine, program, chosen, int((quota or 0) * _GIGABYTE), keep_days or 0.0)
    console.heading("To be installed: the keeper")
    console.fact("User", f"{USER}{', which is made' if plan.makes_user else ''}")
    console.fact("Store", path_text(STORE))
    console.fact("Room", f"{size_text(plan.limits.quota)} for each user of this machine")
    console.fact("Kept", f"what no newer state names, for {plan.limits.keep_days:g} days")
    for nightly in plan.nightly:
        console.fact("Nightly", f"safekept runs as {nightly.user}, by {nightly.host}")
    for files in (plan.files, *(one.files for one in plan.nightly)):
        for path, text in files.items():
            console.fact("File", path_text(path))
            for line in text.splitlines():
                console.verbatim(f"      {line}")
    if dry_run:
        console.document({"dry_run": True, **plan.as_dict()})
        console.line("Nothing was changed")
        return 0
    require_root(console, "keeper", "install")
    refuse_writable_program(program[0])
    if not yes:
        consent(console, False, "This would be installed", console.command("keeper", "install"))
    install(plan)
    console.document({"dry_run": False, **plan.as_dict()})
    console.heading("The keeper is installed")
    if not plan.files:
        console.line("No systemd runs here. Let what supervises services on this machine run, as root:")
        console.verbatim(f"  {shell_line(plan.serve)}")
    console.line(NextStep("keeper status", before="Each user sees what it holds, and whether that counts:"))
    return 0


@click.command("remove")
@click.option("--store", is_flag=True, help="Delete everything that it holds, of every user, too.")
@click.option(
    "--user-name",
    "users",
    metavar="NAME",
    multiple=True,
    help="Only the nightly run of that user; the keeper stays.",
)
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def remove_command(store: bool, users: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> int:
    """Take the keeper's service and the nightly runs away, as root. What it holds stays, unless `--store`
    is given.

    Exit code 3: something was left, and is named.
    """
    _, _, console = start(as_json)
    if store and users:
        raise click.UsageError("--store and --user-name do not go together.")
    plan = plan_removal(users)
    what = "the nightly run" if users else "the keeper's service"
    console.heading(f"To be removed: {what}" + (" and everything that it holds" if store else ""))
    for path in (*plan.files, *(path for files in plan.nightly.values() for path in files)):
        console.fact("File", path_text(path))
    if plan.store:
        console.fact("Store", f"{path_text(plan.store)}: {'DELETED, of every user' if store else 'stays'}")
    if dry_run:
        console.document({"dry_run": True, **plan.as_dict(), "deletes_store": store})
        console.line("Nothing was changed")
        return 0
    words = ["keeper", "remove", *(["--store"] if store else [])]
    words += [word for user in users for word in ("--user-name", user)]
    require_root(console, *words)
    if not yes:
        consent(console, False, "This would be removed", console.command(*words))
    remarks = remove(plan, store=store)
    console.document({"dry_run": False, **plan.as_dict(), "deletes_store": store, "remarks": remarks})
    gone = f"{count_text(len(plan.nightly), 'nightly run')} removed" if users else "The keeper is removed"
    console.heading(gone, not remarks and not plan.left)
    for path in plan.left:
        console.fact("Left", f"{path_text(path)}: written by another program")
    for remark in remarks:
        console.fact("Note", remark)
    return 3 if remarks or plan.left else 0
