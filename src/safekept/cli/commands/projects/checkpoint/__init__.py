"""`safekept checkpoint …`: points in time of projects, and their care. Bare `checkpoint` takes one."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "create": (
        "safekept.cli.commands.projects.checkpoint.create",
        "Take one (also what bare `checkpoint [DIR]` does).",
    ),
    "status": (
        "safekept.cli.commands.projects.checkpoint.status:status_command",
        "How large they are, of what, and how they do.",
    ),
    "list": (
        "safekept.cli.commands.projects.checkpoint.status:list_command",
        "Every checkpoint of every project.",
    ),
    "prune": (
        "safekept.cli.commands.projects.checkpoint.prune:prune_command",
        "Drop what the limits say, and reclaim its room.",
    ),
    "clear": (
        "safekept.cli.commands.projects.checkpoint.prune:clear_command",
        "Drop all checkpoints of all projects.",
    ),
    "clear-legacy": (
        "safekept.cli.commands.projects.checkpoint.adopt:clear_legacy_command",
        "Remove what `adopt` archived.",
    ),
    "adopt": (
        "safekept.cli.commands.projects.checkpoint.adopt:adopt_command",
        "Take Hermes's own checkpoints over.",
    ),
}


@click.group("checkpoint", cls=LazyGroup, table=TABLE, default="create", words_for_default=True)
def command() -> None:
    """Keep projects as they are now, and look after what is kept.

    `safekept checkpoint [DIR] [FILE]...` takes a checkpoint; its options are those of `checkpoint create`.
    A directory that is called as one of these commands is written with a dot: `./list`.
    """
