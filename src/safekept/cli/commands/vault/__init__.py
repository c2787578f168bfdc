"""`safekept vault …`: where snapshots are kept, its health, its keys and its kit."""

from __future__ import annotations

import click

from ...groups import LazyGroup

#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "init": ("safekept.cli.commands.vault.init", "Make the vault now; the first snapshot would do it too."),
    "check": (
        "safekept.cli.commands.vault.care:check_command",
        "Prove that everything stored can be given back.",
    ),
    "repair": (
        "safekept.cli.commands.vault.care:repair_command",
        "Keep every sound piece of a damaged vault.",
    ),
    "stats": ("safekept.cli.commands.vault.stats:stats_command", "What it holds and what that costs."),
    "key": ("safekept.cli.commands.vault.keys:keys_command", "The keys and passphrases that open it."),
    "kit": (
        "safekept.cli.commands.vault.keys:kit_command",
        "Write the page that opens it on a bare machine.",
    ),
    "unlock": ("safekept.cli.commands.vault.stats:unlock_command", "Remove locks that were left behind."),
    "open": (
        "safekept.cli.commands.vault.seat_belt:open_command",
        "Let restic and others write in the stores.",
    ),
    "close": (
        "safekept.cli.commands.vault.seat_belt:close_command",
        "Close them again, so that `rm -rf` cannot empty them.",
    ),
    "prune": ("safekept.cli.commands.vault.care:prune_command", "Give the room of forgotten snapshots back."),
}


@click.group("vault", cls=LazyGroup, table=TABLE)
def command() -> None:
    """Make, check and open the vault; its keys and its kit."""
