"""`safekept sessions …`: one conversation out of an older state.db, without touching the others."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": ("safekept.cli.commands.snapshots.sessions.list", "See the conversations that a snapshot holds."),
    "show": ("safekept.cli.commands.snapshots.sessions.show", "Read one of them."),
    "restore": ("safekept.cli.commands.snapshots.sessions.restore", "Bring one back into the live database."),
}


@click.group("sessions", cls=LazyGroup, table=TABLE)
def command() -> None:
    """Bring one conversation back out of an older state.db, and leave every other as it is."""
