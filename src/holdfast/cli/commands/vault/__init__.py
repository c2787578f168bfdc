"""`holdfast vault …`: where snapshots are kept, its health, its keys and its kit."""

from __future__ import annotations

import click

from holdfast.cli.groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "init": ("holdfast.cli.commands.vault.init", "Make the vault now; the first snapshot would do it too."),
    "check": ("holdfast.cli.commands.vault.check", "Prove that everything stored can be given back."),
    "repair": ("holdfast.cli.commands.vault.repair", "Keep every sound piece of a damaged vault."),
    "stats": ("holdfast.cli.commands.vault.stats", "What it holds and what that costs."),
    "key": ("holdfast.cli.commands.vault.key", "The keys and passphrases that open it."),
    "kit": ("holdfast.cli.commands.vault.kit", "Write the page that opens it on a bare machine."),
    "unlock": ("holdfast.cli.commands.vault.unlock", "Remove locks that were left behind."),
    "prune": ("holdfast.cli.commands.vault.prune", "Give the room of forgotten snapshots back."),
}


@click.group("vault", cls=LazyGroup, table=TABLE)
def command() -> None:
    """Make, check and open the vault; its keys and its kit."""
