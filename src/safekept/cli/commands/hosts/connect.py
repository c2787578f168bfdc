"""`safekept connect`: let an agent call safekept before it changes anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ...console import path_text
from ...options import start
from ...words.connecting import agree, lines_to_copy, show_hosts, show_plan
from ...words.coverage import show_kept

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.hidden.coverage import ProjectCoverage
    from safekept.integrations.connecting.host import HostSettings
    from safekept.integrations.connecting.plan import Plan
    from safekept.settings import Settings

    from ...console import Console


# `safekept connect --remove`: take out of an agent's settings what connecting put in.


def disconnect(host: str, project: str, home: str, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Take our entries out of the settings of this host."""
    if not host:
        raise click.UsageError("--remove goes with the name of a host: `safekept connect HOST --remove`.")
    _, context, console = start(as_json)
    from safekept.actions.alarms.declined import decline
    from safekept.actions.hosts.connections import connection_of
    from safekept.actions.status.host_status import ELSEWHERE, GONE
    from safekept.integrations.connecting.carrying_out import carry_out
    from safekept.integrations.connecting.hosts import host_named, scope_of
    from safekept.integrations.connecting.overview import host_statuses
    from safekept.integrations.connecting.plan import plan_disconnect

    chosen = host_named(host)
    where = scope_of(context, chosen, project, home)
    option = chosen.option(context, where)
    plan = plan_disconnect(context, chosen, where)
    recorded = connection_of(context, chosen.name, where, plan.place) is not None
    copies: list[str] = []
    if not as_json:
        show_plan(console, plan)
    if not dry_run and (plan.changes or recorded):
        if plan.changes and not yes:
            agree(console, plan, chosen.title, option)
        copies = carry_out(context, plan, console.notes())
        if not option:  # who takes it out does not miss it
            decline(context, (f"not-connected:{chosen.name}",))
    statuses = () if dry_run else host_statuses(context)
    places = [place for one in statuses if one.host == chosen.name for place in one.places]
    staying = [place for place in places if place.trouble not in (GONE, ELSEWHERE)]
    console.document(
        {
            "host": chosen.name,
            "scope": where or None,
            "dry_run": dry_run,
            "changed": plan.changes and not dry_run,
            "files": [
                {"path": edit.file.path, "changes": edit.changes, "diff": edit.diff()} for edit in plan.edits
            ],
            "copies": copies,
            "staying": [place.scope or place.place for place in staying],
        }
    )
    if not plan.changes:
        what = f"{chosen.title} is not connected{' there' if staying else ''}"
        console.line(f"{what}; nothing was changed")
    elif dry_run:
        console.line("Nothing was changed")
    else:
        console.heading(f"Disconnected {chosen.title}")
        for copy in copies:
            console.fact("Copy", f"what was there: {copy}")
        console.fact("Again", f"`{console.command('connect', chosen.name, *option)}`")
    for place in staying:
        away = console.command("connect", chosen.name, *place.option, "--remove")
        console.fact("Stays", f"{path_text(place.scope or place.place)} is connected; there, too: `{away}`")
    return 0


@click.command("connect")
@click.argument("host", metavar="[HOST]", default="")
@click.option(
    "--project",
    metavar="DIR",
    default="",
    help="Write into the settings of this project; default: into yours, for all projects.",
)
@click.option(
    "--home", metavar="PATH", default="", help="Of Hermes: this home; default: the one it works in."
)
@click.option("--remove", is_flag=True, help="Take out exactly what connecting put in.")
@click.option("--dry-run", is_flag=True, help="Show the diff; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(host: str, project: str, home: str, remove: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Write into the settings of an agent that it calls safekept before each change; without HOST: list them.

    Hosts: hermes, claude-code, codex, gemini, cursor, opencode, qwen, copilot, cline. What would be written
    is shown first, a copy of the settings is kept, and everything else in them stays as it is, to the byte. A
    second call changes nothing. A file that cannot be edited safely is left alone, and the lines to put into
    it are printed; exit code 1.

    With --project the plan also shows what of that project is kept, where, and what is left out, as
    `safekept checkpoint --show` does; what git hides in it is kept for the first time behind you.

    With --remove, a file that only safekept wrote to comes back byte for byte, or goes where connecting made
    it; from others only our entries are taken out. Checkpoints and snapshots stay.
    """
    if remove:
        return disconnect(host, project, home, dry_run=dry_run, yes=yes, as_json=as_json)
    settings, context, console = start(as_json)
    from safekept.integrations.connecting.overview import host_statuses

    if not host:
        if project or home:
            raise click.UsageError("--project and --home go with the name of a host.")
        hosts = host_statuses(context)
        console.document({"hosts": [{**one.as_dict(), "program": one.program or None} for one in hosts]})
        show_hosts(console, settings.user_home, hosts)
        return 0
    from safekept.actions.alarms.declined import take_back
    from safekept.integrations.connecting.carrying_out import carry_out
    from safekept.integrations.connecting.hosts import host_named, scope_of
    from safekept.integrations.connecting.plan import plan_connect
    from safekept.integrations.connecting.program import PASSING, this_program
    from safekept.integrations.connecting.settings_file import SettingsLeftAlone

    chosen = host_named(host)
    where = scope_of(context, chosen, project, home)
    if project and not os.path.isdir(where):
        raise click.UsageError(f"There is no directory {project}.")
    chosen.check(context, where)
    option = chosen.option(context, where)
    here = chosen.found(context) or chosen.program(context)
    program = this_program(settings.environment)
    try:
        plan = plan_connect(context, chosen, program, where)
    except SettingsLeftAlone as error:
        lines_to_copy(console, error)
        raise
    copies: list[str] = []
    guarded = ""
    covered = _covered(settings, context, where, console, dry_run) if project else None
    if not as_json:
        show_plan(console, plan)
        if covered is not None:
            show_kept(console, covered)
    if not dry_run:
        if plan.changes and not yes:
            agree(console, plan, chosen.title, option)
        copies = carry_out(context, plan, console.notes())
        guarded = chosen.guard_again(context, program)
        take_back(context, (f"not-connected:{chosen.name}", f"updates-not-guarded:{chosen.name}"))
        if project:
            _begin_keeping(settings, chosen.name, where)
    off = chosen.switched_off(context, where)
    notes = [*plan.notes, *((PASSING,) if program.passing else ())]
    if not here:
        notes.append(f"{chosen.title} was not found on this machine; it will find this when it comes")
    console.document(
        {
            "host": chosen.name,
            "scope": where or None,
            "dry_run": dry_run,
            "changed": plan.changes and not dry_run,
            "command": list(plan.command),
            "files": [
                {"path": edit.file.path, "changes": edit.changes, "diff": edit.diff()} for edit in plan.edits
            ],
            "copies": copies,
            "coverage": covered.as_dict() if covered is not None else None,
            "switched_off": off or None,
            "updates": guarded or None,
            "notes": notes,
        }
    )
    _show(console, plan, chosen, option, dry_run=dry_run, copies=copies, off=off, notes=notes)
    if guarded:
        console.fact("Updates", guarded)
    return 0


def _covered(
    settings: Settings, context: UserContext, project: str, console: Console, dry_run: bool
) -> ProjectCoverage | None:
    """What of the project will be kept where; None for a directory that is no project, and where a dry run
    would have to make the store to look."""
    from safekept.actions.projects.hidden.coverage import coverage
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.core.errors import SafekeptError
    from safekept.settings.policies import take_settings_from

    if dry_run and not os.path.isdir(checkpoint_directory(context)):
        return None
    try:
        return coverage(context, project, take_settings_from(settings, context), console.listener())
    except SafekeptError:
        return None
    finally:
        console.finish()


def _begin_keeping(settings: Settings, host: str, project: str) -> None:
    """What git hides is first kept right after a connect, so that no command waits for it."""
    from safekept.integrations.calls import Call
    from safekept.integrations.hidden_half import begin_hidden_half
    from safekept.integrations.places import Place

    begin_hidden_half(Call("turn", host, directory=project), Place.load(settings.environment))


def _show(
    console: Console,
    plan: Plan,
    host: HostSettings,
    option: tuple[str, ...],
    *,
    dry_run: bool,
    copies: list[str],
    off: str,
    notes: list[str],
) -> None:
    if dry_run:
        console.line("Nothing was changed" if plan.changes else f"{host.title} is connected already")
    elif not plan.changes:
        console.heading(f"{host.title} is connected already; nothing was changed", not off)
    else:
        console.heading(f"Connected {host.title}", not off)
    if off:
        console.line(f"Switched off by {off}: until that is taken back, nothing is protected", fg="yellow")
    if dry_run or not plan.changes:
        return
    for copy in copies:
        console.fact("Copy", f"what was there: {copy}")
    for note in notes:
        console.fact("Note", note)
    console.fact("See it", f"after its next change: `{console.command('connect')}`")
    console.fact("Undo", f"`{console.command('connect', host.name, *option, '--remove')}`")
