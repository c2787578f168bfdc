"""`safekept snapshot …`: points in time of a home, in the vault. Bare `snapshot` is `snapshot create`."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "create": (
        "safekept.cli.commands.snapshots.snapshot.create",
        "Take one (also what bare `snapshot` does).",
    ),
    "list": (
        "safekept.cli.commands.snapshots.snapshot.list",
        "See them, newest first, with numbers to restore by.",
    ),
    "show": ("safekept.cli.commands.snapshots.snapshot.show", "See what one holds, or one file of it."),
    "diff": ("safekept.cli.commands.snapshots.snapshot.diff", "See what changed between two, or since one."),
    "restore": ("safekept.cli.commands.snapshots.snapshot.restore", "Bring a home, or parts of it, back."),
    "pin": (
        "safekept.cli.commands.snapshots.snapshot.forget:pin_command",
        "Keep one whatever the retention says.",
    ),
    "forget": (
        "safekept.cli.commands.snapshots.snapshot.forget:forget_command",
        "Let some go; they can be called back for a while.",
    ),
    "prune": (
        "safekept.cli.commands.snapshots.snapshot.forget:prune_command",
        "Forget older quick ones and give their room back.",
    ),
    "adopt": (
        "safekept.cli.commands.snapshots.snapshot.adopt",
        "Take the copies that Hermes made into the vault.",
    ),
}


@click.group("snapshot", cls=LazyGroup, table=TABLE, default="create")
def command() -> None:
    """Keep points in time of a home in the vault: each costs what changed.

    Without a word, `safekept snapshot` takes one; its options are those of `snapshot create`.
    """
