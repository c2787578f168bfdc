"""`safekept destinations …`: the places off this host."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": (
        "safekept.cli.commands.offsite.destinations.list",
        "See them, and when each was last pushed to.",
    ),
    "show": ("safekept.cli.commands.offsite.destinations.show", "See the vaults and archives in one."),
    "test": (
        "safekept.cli.commands.offsite.destinations.test",
        "Find out what one lets you do, and how fast it is.",
    ),
}


@click.group("destinations", cls=LazyGroup, table=TABLE)
def command() -> None:
    """The places off this host that receive the vault and archives."""
