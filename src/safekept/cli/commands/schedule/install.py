"""`safekept schedule install`: show what would be installed, ask, and install it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import chosen_by
from safekept.settings import SETTINGS, SYSTEM_USER, Settings

from ...console import Console, count_text, path_text
from ...options import common_options
from ...words.lists import consent
from .options import begin, machine_of, require_root, user_options

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.schedule.install import Installation
    from safekept.schedule.hosts.call import Call


#: What a run needs to find the same places as this command did.
_PLACES = (
    "SAFEKEPT_HOME",
    "SAFEKEPT_LAYOUT",
    "SAFEKEPT_VAULT_PATH",
    "SAFEKEPT_VAULT_KEY_FILE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
)


class ProgramOfAnother(SafekeptError):
    code = "program-of-another"


@click.command("install")
@click.option(
    "--host", type=click.Choice(["systemd", "launchd", "cron"]), help="What wakes it; default: what there is."
)
@click.option("--dry-run", is_flag=True, help="Show what would be installed; write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@user_options
@common_options
def install_command(
    host: str | None,
    dry_run: bool,
    yes: bool,
    system: bool,
    user_name: str,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Ask this machine to wake safekept at the times of `schedule.at`, and hourly for what was missed.

    That is 03:30 every night unless you set it. Every file and command is shown first. With `--system
    --user-name NAME` root looks after the home of that user, with a vault below /var/lib/safekept that
    neither the user nor an agent of theirs can delete.
    """
    from safekept.actions.schedule.host import find_host, plan_installation
    from safekept.actions.schedule.install import install, installed, refuse_taken
    from safekept.integrations.connecting.program import PASSING, this_program

    settings, context, console = begin(as_json, system, user_name, home)
    machine = machine_of(settings)
    call = schedule_call(settings, context, user_name, home, layout)
    chosen = host or find_host(machine, system=system)
    plan = plan_installation(machine, chosen, call, os.getuid())
    plan.notes.extend(_left_behind(settings))
    if this_program(settings.environment).passing:
        plan.notes.append(PASSING)
    earlier = installed(context)
    if earlier is not None and earlier.host != plan.host:
        plan.notes.append(f"What was installed with {earlier.host} is removed")
    _show(console, plan)
    if dry_run:
        console.document({"dry_run": True, **plan.as_dict()})
        console.line("Nothing was written")
        return 0
    require_root(system)
    refuse_taken(plan)
    if not yes:
        _consent(console, host, system, user_name, home, layout)
    done = install(context, plan, machine.run, console.notes())
    console.document({"dry_run": False, **plan.as_dict(), "time": done.time})
    console.heading(f"Installed with {plan.host}")
    console.line(f"See what it does: `{console.command('schedule', 'show', *_whose(system, user_name))}`")
    return 0


def _whose(system: bool, user_name: str) -> list[str]:
    return ["--system", "--user-name", user_name] if system else []


def _consent(
    console: Console, host: str | None, system: bool, user_name: str, home: str, layout: str
) -> None:
    from ...words.lists import consent

    words = ["schedule", "install", *(["--host", host] if host else []), *_whose(system, user_name)]
    words += [*(["--home", home] if home else []), *(["--layout", layout] if layout else [])]
    consent(console, False, "This would be installed", console.command(*words))


def schedule_call(
    settings: Settings, context: UserContext, user_name: str = "", home: str = "", layout: str = ""
) -> Call:
    """What a host is asked to run, how often, and in which surroundings."""
    from safekept.actions.schedule.host import search_path
    from safekept.actions.schedule.whose import registered_home, stores_of
    from safekept.integrations.connecting.program import this_program
    from safekept.schedule.hosts.call import Call
    from safekept.schedule.tasks import Plan

    program = this_program(settings.environment)  # by a name that is still there after an update
    if user_name and os.geteuid() == 0:
        _refuse_program_of_another(program.words[0], sys.executable, os.path.dirname(__file__))
    plan = context.choices.schedule or Plan()
    place = context.locate(home, layout)  # a schedule for a home that is not there is useless
    names = (*_PLACES, *(one.variable for one in context.choices.layouts.values() if one.variable))
    environment = {name: settings.environment[name] for name in names if settings.environment.get(name)}
    if settings.user_home != registered_home() and not user_name:
        environment["HOME"] = settings.user_home  # what a timer takes for home is not what is meant here
    if home:
        environment["SAFEKEPT_HOME"] = place.home
    if layout:
        environment["SAFEKEPT_LAYOUT"] = layout
    if user_name:
        environment = {name: value for name, value in environment.items() if not name.startswith("XDG_")}
        environment[SYSTEM_USER] = user_name
        environment["SAFEKEPT_HOME"] = place.home
    return Call(
        command=(*program.words, "schedule", "run", "--quiet"),
        cadence=plan.cadence,
        environment={**environment, "PATH": search_path(settings.environment)},
        user=user_name,
        home=place.home,
        time_limit=plan.time_limit,
        mails=bool(settings.texts("notify.email")),
        logs=settings.data_directory,
        stores=None if user_name else stores_of(context),
    )


def _refuse_program_of_another(*paths: str) -> None:
    """What root runs every night must be root's, to the last directory above it."""
    for path in paths:
        if not chosen_by(path, 0):
            raise ProgramOfAnother(
                f"`{path}` can be changed by others, and root would run it every night",
                kept="Nothing was installed",
                next_steps=(
                    "Install safekept where only root can write, for example below `/opt`, and run that one",
                    NextStep(
                        "schedule install", before="Or leave `--system` away for a schedule of your own:"
                    ),
                ),
                path=path,
            )


def _left_behind(settings: Settings) -> list[str]:
    """Settings that only this shell has: a timer would not see them."""
    known = [setting.variable for setting in SETTINGS if setting.variable not in _PLACES]
    found = [name for name in known if settings.environment.get(name)]
    if not found:
        return []
    names = ", ".join(f"`{name}`" for name in found)
    return [
        f"Not seen by the schedule, because only this shell has them: {names}. "
        f"Put them into `{os.path.join(settings.config_directory, 'config.toml')}`"
    ]


def _show(console: Console, plan: Installation) -> None:
    console.heading(f"To be installed with {plan.host}")
    for path, text in plan.files.items():
        console.fact("File", path_text(path))
        for line in text.splitlines():
            console.verbatim(f"      {line}")
    if plan.table:
        console.fact("Lines", "in your crontab, at its end")
        for line in plan.table.splitlines():
            console.verbatim(f"      {line}")
    for words in plan.start:
        console.fact("Command", path_text(" ".join(words)))
    for note in plan.notes:
        console.fact("Note", note)


# `safekept schedule remove`: take back exactly what was installed.


@click.command("remove")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@user_options
@common_options
def remove_command(
    dry_run: bool, yes: bool, system: bool, user_name: str, home: str, layout: str, as_json: bool
) -> int:
    """Take back exactly what was installed. Snapshots, archives and settings stay.

    A file that was changed since is left where it is and named, and so is a host that could not be
    asked; exit code 3 then.
    """
    from safekept.actions.schedule.host import find_leftovers
    from safekept.actions.schedule.install import NotInstalled, installed, remove
    from safekept.actions.schedule.whose import stores_of

    settings, context, console = begin(as_json, system, user_name, home)
    machine = machine_of(settings)
    found = installed(context) or find_leftovers(machine, user_name, os.getuid(), stores_of(context))
    if found is None:
        raise NotInstalled(
            "No schedule was installed from here",
            kept="Nothing was changed",
            next_steps=(NextStep("schedule show", before="See what is known:"),),
        )
    states = found.states()
    console.heading(f"To be removed: what was installed with {found.host}")
    for path, state in states.items():
        console.fact("File", f"{path_text(path)} ({state})")
    if found.table:
        console.fact("Lines", "in your crontab, those for this HOME")
    if dry_run:
        console.document({"dry_run": True, "host": found.host, "files": states, "crontab": found.table})
        console.line("Nothing was changed")
        return 0
    require_root(system)
    if not yes:
        whose = ["--system", "--user-name", user_name] if system else []
        consent(console, False, "This would be removed", console.command("schedule", "remove", *whose))
    done = remove(context, found, machine.run, console.notes())
    console.document({"dry_run": False, "removed": done.files, "left": done.left, "remarks": done.remarks})
    what = "the lines in your crontab" if found.table else count_text(len(done.files), "file")
    console.heading(f"Removed {what}", not done.left and not done.remarks)
    for path in done.left:
        console.fact("Left", f"{path_text(path)}: it was changed since it was written")
    for remark in done.remarks:
        console.fact("Note", remark)
    return 3 if done.left or done.remarks else 0
