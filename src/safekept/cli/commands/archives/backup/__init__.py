"""`safekept backup …`: a home in one file, and the keys of sealed ones. Bare `backup` is `backup create`."""

from __future__ import annotations

import click

from ....groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "create": (
        "safekept.cli.commands.archives.backup.create",
        "Write the file (also what bare `backup` does).",
    ),
    "keygen": (
        "safekept.cli.commands.archives.backup.keygen",
        "Make a pair of keys for `--seal`; says which half goes where.",
    ),
}


@click.group("backup", cls=LazyGroup, table=TABLE, default="create")
def command() -> None:
    """Carry a home away in one file, open or sealed to a key.

    Without a word, `safekept backup` writes the file; its options are those of `backup create`.
    """
