"""What the commands of `safekept schedule` share: whose schedule is meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from safekept.core.errors import SafekeptError
from safekept.settings import SYSTEM_USER, Settings, load_settings
from safekept.settings.policies import policy_from

from ...console import Console
from ...options import context_from

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.schedule.host import Machine
    from safekept.actions.schedule.steps import RunRequest


Command = TypeVar("Command", bound=Callable[..., Any])


class NeedsRoot(SafekeptError):
    code = "needs-root"


def user_options(function: Command) -> Command:
    """`--system` and `--user-name`."""
    for option in (
        click.option("--user-name", metavar="NAME", default="", help="With --system: whose home it is."),
        click.option(
            "--system",
            is_flag=True,
            help="For root: with the stores of the system, for the home of another user.",
        ),
    ):
        function = option(function)
    return function


def begin(
    as_json: bool, system: bool, user_name: str, home: str = ""
) -> tuple[Settings, UserContext, Console]:
    """What every command does first; with `--system` everything of safekept's is the system's."""
    from safekept.schedule.tasks import Plan

    from ...main import program

    if bool(user_name) != system:
        raise click.UsageError("--system and --user-name go together.")
    environment = {**os.environ, **({SYSTEM_USER: user_name} if system else {})}
    settings = load_settings(environment)
    console = Console(as_json=as_json, program=program())
    context = context_from(settings, can_ask=console.can_ask()).changed(only_own_homes=False)
    if home:
        plan = context.choices.schedule or Plan()
        context = context.changed(schedule=replace(plan, homes=(home,)))
    return settings, context, console


def machine_of(settings: Settings) -> Machine:
    import pwd

    from safekept.actions.schedule.host import Machine

    environment = settings.environment
    config = environment.get("XDG_CONFIG_HOME") or os.path.join(settings.user_home, ".config")
    try:
        login = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container a number may have no name
        login = ""
    return Machine(environment, settings.user_home, config, login)


def require_root(system: bool) -> None:
    if system and os.geteuid() != 0:
        raise NeedsRoot(
            "A schedule of the system is installed and removed by root",
            kept="Nothing was changed",
            next_steps=("Run the command with `sudo`, or leave `--system` away for a schedule of your own",),
        )


# How the work of a scheduled run is done, as the settings say it.


def run_request(
    settings: Settings,
    context: UserContext,
    *,
    home: str = "",
    layout: str = "",
    everything: bool = False,
) -> RunRequest:
    """How the work of a run is done, as the settings say it."""
    from safekept.actions.schedule.steps import RunRequest
    from safekept.home.scan import Selection

    return RunRequest(
        selection=Selection(
            include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude")
        ),
        deadline=settings.number("database.deadline"),
        form=settings.text("backup.format"),
        seal=settings.texts("backup.seal"),
        policy=policy_from(settings, context, home, layout),
        everything=everything,
    )
