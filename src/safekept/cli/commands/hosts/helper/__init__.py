"""`safekept helper`: the process that answers hooks quickly."""

from __future__ import annotations

import click

from ....groups import LazyGroup

COMMANDS = {
    "status": ("safekept.cli.commands.hosts.helper.status", "Whether it runs, and since when."),
    "stop": ("safekept.cli.commands.hosts.helper.stop", "End it, when its work is done."),
    "run": ("safekept.cli.commands.hosts.helper.run", "Be it; hooks start it themselves."),
    "call": ("safekept.cli.commands.hosts.helper.call", "Do what one call asks for, as JSON."),
}


@click.group("helper", cls=LazyGroup, table=COMMANDS, default="status")
def command() -> None:
    """The process that answers the hooks and plugins of agents, so that they wait for the work only.

    The first hook starts it, and it ends after half an hour in which nobody asked. Nothing depends on it:
    without it each hook does its own work.
    """
