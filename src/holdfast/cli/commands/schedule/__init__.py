"""`holdfast schedule`: do all of it every night, without anybody being there."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

COMMANDS = {
    "install": ("holdfast.cli.commands.schedule.install", "Ask this machine to wake holdfast; shown first."),
    "show": ("holdfast.cli.commands.schedule.show", "When it last ran, how that ended, when it runs next."),
    "remove": ("holdfast.cli.commands.schedule.remove", "Take back exactly what was installed."),
    "run": ("holdfast.cli.commands.schedule.run", "Do what is due now."),
}


@click.group("schedule", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Snapshots, pushes, sealed archives, care and drills, regularly and without you."""
