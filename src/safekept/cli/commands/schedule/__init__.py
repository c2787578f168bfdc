"""`safekept schedule`: do all of it every night, with no person there."""

from __future__ import annotations

import click

from ...groups import LazyGroup

COMMANDS = {
    "install": (
        "safekept.cli.commands.schedule.install:install_command",
        "Ask this machine to wake safekept; shown first.",
    ),
    "show": (
        "safekept.cli.commands.schedule.show:show_command",
        "When it last ran, how that ended, when it runs next.",
    ),
    "remove": (
        "safekept.cli.commands.schedule.install:remove_command",
        "Take back exactly what was installed.",
    ),
    "run": ("safekept.cli.commands.schedule.show:run_command", "Do what is due now."),
}


@click.group("schedule", cls=LazyGroup, table=COMMANDS, default="show")
def command() -> None:
    """Snapshots, pushes, sealed archives, care and drills, regularly and without you."""
