"""`holdfast checkpoints …`: the care of all checkpoints. Bare `checkpoints` is `checkpoints status`."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "status": ("holdfast.cli.commands.checkpoints.status", "How large they are, of what, and how they do."),
    "list": ("holdfast.cli.commands.checkpoints.list", "Every checkpoint of every project."),
    "prune": ("holdfast.cli.commands.checkpoints.prune", "Drop what the limits say, and reclaim its room."),
    "clear": ("holdfast.cli.commands.checkpoints.clear", "Drop all checkpoints of all projects."),
    "clear-legacy": ("holdfast.cli.commands.checkpoints.clear_legacy", "Remove what `adopt` archived."),
    "adopt": ("holdfast.cli.commands.checkpoints.adopt", "Take Hermes's own checkpoints over."),
}


@click.group("checkpoints", cls=LazyGroup, table=TABLE, default="status")
def command() -> None:
    """Look after the checkpoints of all projects: their size, their age, their health.

    Without a word, `holdfast checkpoints` shows their status.
    """
