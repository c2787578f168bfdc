"""`safekept vault init`: make the vault now."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from safekept.actions.vault.opening import initialise

from ...console import Console, path_text
from ...options import place_or_file, start
from .options import json_option, new_passphrase, passphrase_options

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.vault.repo import Secret


@click.command("init")
@click.option(
    "--passphrase",
    is_flag=True,
    help="Open it with a passphrase of yours, asked for at the terminal, not with a key file.",
)
@click.option(
    "--from",
    "shared",
    metavar="PATH|URL",
    default="",
    help="Share this vault with the hosts that use it: this one gets a key of its own to it.",
)
@click.option(
    "--key-file",
    metavar="FILE",
    default="",
    help="With --from: a key that opens it; a passphrase, given or asked for, will do too.",
)
@click.option("-y", "--yes", is_flag=True, help="With --from: do not ask.")
@passphrase_options
@json_option
def command(
    passphrase: bool,
    shared: str,
    key_file: str,
    yes: bool,
    passphrase_fd: int | None,
    passphrase_file: str,
    passphrase_command: str,
    as_json: bool,
) -> int:
    """Make the vault. The first snapshot would do it too.

    It gets a generated key in a file that only you can read; with --passphrase it opens with a
    passphrase instead. An init that was cut short is finished with the same key. A vault that is there is
    not touched, and no place inside a home is taken.

    Everybody who has a key to a vault that was shared with --from can read everything in it.
    """
    _, context, console = start(as_json)
    if shared:
        if passphrase:
            raise click.UsageError("--passphrase is for a new vault, and does not go with --from.")
        given = _given(console, passphrase_command, passphrase_file, passphrase_fd)
        return _join(console, context, shared, key_file, given, yes)
    if key_file or yes:
        raise click.UsageError("--key-file and --yes go with --from.")
    secret = None
    if passphrase or passphrase_fd is not None or passphrase_file or passphrase_command:
        secret = new_passphrase(
            console, passphrase_command, passphrase_file, passphrase_fd, "New passphrase of the vault"
        )
    with initialise(context, secret=secret) as made:
        key_file = "" if secret or context.choices.vault_wants_passphrase else context.places.vault_key_file
        kit = console.command("vault", "kit")
        console.document(
            {"vault": context.places.vault, "id": made.id, "key_file": key_file or None, "kit": kit}
        )
        console.heading(f"Made the vault {path_text(context.places.vault)}")
        console.fact("Id", made.id[:16])
        console.fact("Opens with", path_text(key_file) if key_file else "your passphrase")
        if key_file:
            console.line("Without that key the vault cannot be read, not even by you")
        console.line(f"Write the page that opens it on a bare machine: `{kit}`")
    return 0


def _given(console: Console, command: str, file: str, descriptor: int | None) -> Secret | None:
    if not (command or file or descriptor is not None):
        return None
    return new_passphrase(console, command, file, descriptor, "Passphrase of the vault")


def _join(
    console: Console, context: UserContext, shared: str, key_file: str, given: Secret | None, yes: bool
) -> int:
    from safekept.actions.vault.shared_vault import join_vault

    from ...words.landing_plan import ask_consent

    place = place_or_file(shared, ())
    opens_with = os.path.abspath(os.path.expanduser(key_file)) if key_file else ""
    if not yes:
        again = ["vault", "init", "--from", place, *(("--key-file", opens_with) if opens_with else ())]
        ask_consent(
            console,
            "init",
            ["every host that shares a vault can read what the others stored in it"],
            console.command("vault", "key", "list"),
            console.command(*again, "--yes"),
        )
    if given is not None:
        context = context.changed(vault_secret=lambda: given, secret_tries=1)
    joined = join_vault(context, place, opens_with=opens_with, listener=console.notes())
    console.document(
        {"vault": joined.place, "id": joined.id, "key_file": joined.key_file, "key": joined.key or None}
    )
    console.heading(f"This host has a key to the vault {path_text(joined.place)}")
    console.fact("Id", joined.id[:16])
    console.fact("Opens with", path_text(joined.key_file))
    if context.places.vault != joined.place:
        console.line("Make it the vault of this host: in `config.toml`, below `[vault]`:")
        console.verbatim(f"    path = {json.dumps(joined.place)}")
    console.line("Every host that has a key to it can read everything in it")
    return 0
