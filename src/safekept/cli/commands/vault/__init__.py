"""`safekept vault …`: where snapshots are kept, its health, its keys and its kit."""

from __future__ import annotations

import click

from ...groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "init": ("safekept.cli.commands.vault.init", "Make the vault now; the first snapshot would do it too."),
    "check": ("safekept.cli.commands.vault.check", "Prove that everything stored can be given back."),
    "repair": ("safekept.cli.commands.vault.repair", "Keep every sound piece of a damaged vault."),
    "stats": ("safekept.cli.commands.vault.stats", "What it holds and what that costs."),
    "key": ("safekept.cli.commands.vault.keys", "The keys and passphrases that open it."),
    "kit": ("safekept.cli.commands.vault.kit", "Write the page that opens it on a bare machine."),
    "unlock": ("safekept.cli.commands.vault.unlock", "Remove locks that were left behind."),
    "prune": ("safekept.cli.commands.vault.prune", "Give the room of forgotten snapshots back."),
}


@click.group("vault", cls=LazyGroup, table=TABLE)
def command() -> None:
    """Make, check and open the vault; its keys and its kit."""
