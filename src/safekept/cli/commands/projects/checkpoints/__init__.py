"""`safekept checkpoints …`: the care of all checkpoints. Bare `checkpoints` is `checkpoints status`."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "status": (
        "safekept.cli.commands.projects.checkpoints.status",
        "How large they are, of what, and how they do.",
    ),
    "list": ("safekept.cli.commands.projects.checkpoints.list", "Every checkpoint of every project."),
    "prune": (
        "safekept.cli.commands.projects.checkpoints.prune",
        "Drop what the limits say, and reclaim its room.",
    ),
    "clear": ("safekept.cli.commands.projects.checkpoints.clear", "Drop all checkpoints of all projects."),
    "clear-legacy": (
        "safekept.cli.commands.projects.checkpoints.clear_legacy",
        "Remove what `adopt` archived.",
    ),
    "adopt": ("safekept.cli.commands.projects.checkpoints.adopt", "Take Hermes's own checkpoints over."),
}


@click.group("checkpoints", cls=LazyGroup, table=TABLE, default="status")
def command() -> None:
    """Look after the checkpoints of all projects: their size, their age, their health.

    Without a word, `safekept checkpoints` shows their status.
    """
