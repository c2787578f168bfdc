"""`safekept vault key …`: the keys and passphrases that open the vault."""

from __future__ import annotations

import click

from ...groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": ("safekept.cli.commands.vault.key_list", "See which keys open the vault."),
    "add": ("safekept.cli.commands.vault.key_add", "Add a passphrase that opens it too."),
    "remove": ("safekept.cli.commands.vault.key_remove", "Take a key away; never the last one in use."),
    "export": ("safekept.cli.commands.vault.key_export", "Show the key, or write it to a file."),
}


@click.group("key", cls=LazyGroup, table=TABLE)
def command() -> None:
    """The keys and passphrases that open the vault."""
