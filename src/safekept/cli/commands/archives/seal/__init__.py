"""`safekept seal …`: keys for archives that this host itself cannot open."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "keygen": (
        "safekept.cli.commands.archives.seal.keygen",
        "Make a pair of keys; says which half goes where.",
    ),
}


@click.group("seal", cls=LazyGroup, table=TABLE)
def command() -> None:
    """Make the keys that sealed archives are opened with."""
