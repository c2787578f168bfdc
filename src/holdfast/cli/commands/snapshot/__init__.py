"""`holdfast snapshot …`: points in time of a home, in the vault. Bare `snapshot` is `snapshot create`."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "create": ("holdfast.cli.commands.snapshot.create", "Take one (also what bare `snapshot` does)."),
    "list": ("holdfast.cli.commands.snapshot.list", "See them, newest first, with numbers to restore by."),
    "show": ("holdfast.cli.commands.snapshot.show", "See what one holds, or one file of it."),
    "diff": ("holdfast.cli.commands.snapshot.diff", "See what changed between two, or since one."),
    "restore": ("holdfast.cli.commands.snapshot.restore", "Bring a home, or parts of it, back."),
    "pin": ("holdfast.cli.commands.snapshot.pin", "Keep one whatever the retention says."),
    "forget": ("holdfast.cli.commands.snapshot.forget", "Let some go; they can be called back for a while."),
    "prune": ("holdfast.cli.commands.snapshot.prune", "Forget older quick ones and give their room back."),
}


@click.group("snapshot", cls=LazyGroup, table=TABLE, default="create")
def command() -> None:
    """Keep points in time of a home in the vault: each costs what changed.

    Without a word, `holdfast snapshot` takes one; its options are those of `snapshot create`.
    """
