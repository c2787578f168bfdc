"""`safekept notify`: who hears of it when something is wrong."""

from __future__ import annotations

import click

from ....groups import LazyGroup

COMMANDS = {
    "test": ("safekept.cli.commands.status.notify.test", "Send a message to everybody who is set up."),
}


@click.group("notify", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Who hears of it when something is wrong: the settings `notify.*`."""
