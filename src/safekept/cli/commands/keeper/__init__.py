"""`safekept keeper`: a copy that belongs to another user of this machine, and that no agent can delete."""

from __future__ import annotations

import click

from ...groups import LazyGroup

COMMANDS = {
    "install": ("safekept.cli.commands.keeper.install:install_command", "Make it a service of this machine."),
    "remove": (
        "safekept.cli.commands.keeper.install:remove_command",
        "Take the service away; what it holds stays.",
    ),
    "status": (
        "safekept.cli.commands.keeper.status:status_command",
        "What it holds of you, and whether that counts.",
    ),
    "acknowledge": (
        "safekept.cli.commands.keeper.status:acknowledge_command",
        "Root has looked at an alarm: what it pinned may go by its age.",
    ),
    "serve": ("safekept.cli.commands.keeper.serve:serve_command", "Be the keeper, for whatever supervises."),
}


@click.group("keeper", cls=LazyGroup, table=COMMANDS, default="status")
def command() -> None:
    """A copy on this machine that belongs to another user, so that no `rm` of yours deletes it.

    The keeper is a service with a user of its own. It takes copies of the vault, the checkpoints and what
    opens them, and gives them back; it deletes and replaces nothing on request.
    """
