"""`safekept vault key …`: the keys and passphrases that open the vault."""

from __future__ import annotations

import os

import click

from safekept.actions.base.context import UserContext
from safekept.actions.offsite.destination import VAULT
from safekept.actions.status.recent import recent
from safekept.actions.status.vault_status import old_keys
from safekept.actions.vault.keys.keys import (
    GENERATED,
    add_passphrase,
    export_key,
    key_to_remove,
    listed_keys,
    remove_key,
    write_exported_key,
)
from safekept.actions.vault.keys.kit_files import refresh_kit, write_kit
from safekept.actions.vault.keys.kit_record import acknowledge_kit, kept_beside
from safekept.actions.vault.opening import open_vault
from safekept.core.errors import ConsentNeeded
from safekept.core.next_step import NextStep

from ...console import Console, count_text, path_text
from ...groups import LazyGroup
from ...options import context_from, source_options, start
from ...words.kit import kit_document, revoke_step, show_kit
from .options import json_option, new_passphrase, passphrase_options


@click.command("list")
@source_options
@json_option
def list_command(as_json: bool) -> int:
    """See which keys open the vault. None of them is shown itself."""
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        found = listed_keys(repository)
        old = old_keys(context, repository.id, found, recent(context))
    document = {"vault": context.places.reads_from, "keys": [key.as_dict() for key in found]}
    console.document({**document, "old_keys": [key.as_dict() for key in old]})
    console.heading(f"{count_text(len(found), 'key')} of the vault {path_text(context.places.reads_from)}")
    for key in found:
        mark = "*" if key.current else " "
        text = key.reason or f"{key.kind:<20}  {key.created[:16].replace('T', ' ')}  {key.person}"
        console.line(f"{mark} {key.id[:8]}  {path_text(text)}")
    console.line("* opened the vault just now")
    if old:
        console.line(revoke_step(old))
    if not any(key.kind != "generated key" for key in found if not key.reason):
        console.line(
            NextStep(
                "vault key add", ("--recovery",), before="No passphrase opens it yet; add one for bad days:"
            )
        )
    return 0


@click.command("add")
@click.option(
    "--recovery",
    is_flag=True,
    help="Call it the recovery passphrase in lists: the one for the day on which the key file is gone.",
)
@passphrase_options
@json_option
def add_command(
    recovery: bool,
    passphrase_fd: int | None,
    passphrase_file: str,
    passphrase_command: str,
    as_json: bool,
) -> int:
    """Add a passphrase that opens the vault too. It is asked for twice at a terminal.

    A recovery passphrase is for the day on which the key file is gone: remember it, or keep it on
    paper somewhere else. It is never written anywhere by safekept.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        what = "New recovery passphrase" if recovery else "New passphrase"
        secret = new_passphrase(console, passphrase_command, passphrase_file, passphrase_fd, what)
        added = add_passphrase(context, repository, secret, recovery=recovery, listener=console.listener())
        console.finish()
    console.document({"vault": context.places.vault, "key": added, "recovery": recovery})
    name = "recovery passphrase" if recovery else "passphrase"
    console.heading(f"The vault {path_text(context.places.vault)} opens with this {name} too")
    console.fact("Key", added[:8])
    console.line(f"Take it away again with: `{console.command('vault', 'key', 'remove', added[:8])}`")
    return 0


@click.command("remove")
@click.argument("id")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show which key would go; remove nothing.")
@json_option
def remove_command(id: str, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Take away the key that starts with ID, so that it opens the vault no more.

    Never the one that the vault was opened with. Those who copied the vault before can still open
    that copy with it.
    """
    settings, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        key = key_to_remove(repository, id)
        named = f"{key.id[:8]} ({key.kind or 'unreadable'}, {key.person})"
        if dry_run:
            console.document({"dry_run": True, "key": key.as_dict()})
            console.line(f"Would remove the key {path_text(named)}; nothing was changed")
            return 0
        if not yes:
            if not console.can_ask():
                raise ConsentNeeded(
                    f"Removing the key {named} needs your consent",
                    kept="No key was removed",
                    next_steps=(NextStep("vault key remove", (key.id[:8], "--yes"), before="Agree to it:"),),
                )
            if key.kind == GENERATED:
                console.line(f"A kit that was written with this key ({key.id[:8]}) opens nothing afterwards")
            if not console.ask(f"Remove the key {path_text(named)}?"):
                raise click.Abort
        remove_key(context, repository, key.id)
    kits = refresh_kit(context_from(settings), console.notes())
    console.document({"removed": key.as_dict(), "kit": kit_document(kits)})
    console.heading(f"Removed the key {path_text(named)}")
    show_kit(console, kits)
    return 0


@click.command("renew")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def renew_command(yes: bool, as_json: bool) -> int:
    """Put a new key in the place of the one in the key file; the old one opens the vault no more.

    For a key that others may have read. The old one goes once the new one is proven to open the
    vault. Killed at any time, the vault still opens, and the same command goes on. The old key file is
    kept: copies of the vault take the new key with the next push, and open with the old one until then.
    """
    from safekept.actions.vault.keys.renewal import renew_key

    settings, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        if not yes:
            if not console.can_ask():
                raise ConsentNeeded(
                    f"A new key in the place of {repository.key_id[:8]} needs your consent",
                    kept="No key was added or removed",
                    next_steps=(NextStep("vault key renew", ("--yes",), before="Agree to it:"),),
                )
            console.line(
                f"A kit that was written with this key ({repository.key_id[:8]}) opens nothing afterwards"
            )
            if not console.ask(f"Put a new key in the place of {repository.key_id[:8]}?"):
                raise click.Abort
        done = renew_key(context, repository)
    renewed = context_from(settings)
    kits = refresh_kit(renewed, console.notes())
    facts = {"key": done.key, "removed": list(done.removed), "kept": list(done.kept)}
    console.document({"vault": context.places.vault, **facts, "kit": kit_document(kits)})
    console.heading(f"The vault {path_text(context.places.vault)} has a new key")
    console.fact("Key", f"{done.key[:8]}, in {path_text(context.places.vault_key_file)}")
    console.fact("Removed", f"{', '.join(one[:8] for one in done.removed)}: it opens the vault no more")
    console.fact("Kept", f"the old key, in {path_text(', '.join(done.kept))}")
    show_kit(console, kits)
    if any(VAULT in one.takes for one in context.choices.destinations):
        again = "Copies open with the old key until they have the new one; take the old one away there, too:"
        console.line(NextStep("push", ("--prune",), before=again))
    return 0


@click.command("export")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="",
    help="Write it there, for you only, not to the screen; an existing file is not touched.",
)
@json_option
def export_command(output: str, as_json: bool) -> int:
    """Show the key in the key file, proven to open the vault, or write it to FILE.

    Anyone with it can read everything in the vault. restic takes it as its password.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        secret = export_key(context, repository)
    if output:
        path = os.path.abspath(output)
        write_exported_key(path, secret.text)
        console.document({"vault": context.places.vault, "written": path})
        console.heading(f"Wrote the key of the vault {path_text(context.places.vault)}")
        console.fact("File", path_text(path))
        console.line("Anyone with this file can read everything in the vault")
        return 0
    console.document({"vault": context.places.vault, "key": secret.text})
    if not as_json:
        console.say("Anyone with this key can read everything in the vault; it is also your restic password")
    console.verbatim(secret.text)
    return 0


#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": ("safekept.cli.commands.vault.keys:list_command", "See which keys open the vault."),
    "add": ("safekept.cli.commands.vault.keys:add_command", "Add a passphrase that opens it too."),
    "remove": (
        "safekept.cli.commands.vault.keys:remove_command",
        "Take a key away; never the last one in use.",
    ),
    "renew": (
        "safekept.cli.commands.vault.keys:renew_command",
        "A new key in the place of the one in use.",
    ),
    "export": ("safekept.cli.commands.vault.keys:export_command", "Show the key, or write it to a file."),
}


@click.group("key", cls=LazyGroup, table=TABLE, default="list")
def keys_command() -> None:
    """The keys and passphrases that open the vault. Every one of them opens everything."""


# `safekept vault kit`: write the page that opens the vault on a bare machine.


@click.command("kit")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    default="",
    help="A directory, or a name without suffix; default: your home directory.",
)
@click.option(
    "--stored", is_flag=True, help="Write nothing: say that the kit is kept elsewhere; status counts on it."
)
@json_option
def kit_command(output: str, stored: bool, as_json: bool) -> int:
    """Write the page that opens the vault on a bare machine: with `safekept rebuild`, or with plain restic.

    Two files with the same content, for you only: a text, and HTML to print. They say where the
    vault is, hold its key, and give the commands. Only an older kit is replaced; one that another
    machine wrote is kept, and the new one goes beside it.
    Keep a copy away from this machine, and say so with --stored.
    """
    if stored and output:
        raise click.UsageError("--stored writes nothing, and does not go with --output.")
    _, context, console = start(as_json)
    if stored:
        return _stored(console, context)
    with open_vault(context, listener=console.notes()) as repository:
        text, html = write_kit(context, repository, os.path.abspath(output) if output else "")
    console.document({"vault": context.places.vault, "text": text, "html": html})
    console.heading(f"Wrote the kit of the vault {path_text(context.places.vault)}")
    console.fact("Text", path_text(text))
    console.fact("To print", path_text(html))
    if older := kept_beside(text):
        console.fact("Kept", path_text(f"{older}, which was not written by this machine; keep the new one"))
    console.line("It holds the key: keep it away from this machine, where only you can reach it")
    console.line(NextStep("vault kit", ("--stored",), before="When it is there, say so:"))
    return 0


def _stored(console: Console, context: UserContext) -> int:
    """A person keeps the kit elsewhere: from now on the key does not exist once."""
    with open_vault(context, listener=console.notes()) as repository:
        acknowledge_kit(context, repository, console.notes())
    console.document({"vault": context.places.vault, "stored": True})
    console.heading("Noted: the kit is kept elsewhere, and opens the vault when this machine is gone")
    return 0
