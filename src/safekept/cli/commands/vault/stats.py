"""`safekept vault stats`: what the vault holds and what that costs."""

from __future__ import annotations

import click

from safekept.actions.vault.opening import open_vault, remove_locks
from safekept.actions.vault.stats import vault_stats
from safekept.core.next_step import NextStep

from ...console import count_text, path_text, size_text
from ...options import source_options, start
from .options import json_option


@click.command("stats")
@source_options
@json_option
def stats_command(as_json: bool) -> int:
    """What the vault holds and what that costs.

    Snapshots, files, sizes, packs, what is stored once, and what is unused.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        stats = vault_stats(context, repository, console.listener())
    console.finish()
    console.document(stats.as_dict())
    console.heading(f"The vault {path_text(stats.vault)}")
    forgotten = f", and {stats.forgotten:,} forgotten" if stats.forgotten else ""
    homes = count_text(stats.homes, "home")
    console.fact("Snapshots", f"{count_text(stats.snapshots, 'snapshot')} of {homes}{forgotten}")
    if stats.bytes is not None and stats.files is not None:
        console.fact("As copies", f"{size_text(stats.bytes)} in {count_text(stats.files, 'file')}")
    different = count_text(stats.pieces, "different piece")
    console.fact(
        "Stored", f"{size_text(stats.stored_bytes)} in {count_text(stats.packs, 'pack')}, {different}"
    )
    console.fact("Besides", f"{size_text(stats.other_bytes)} of snapshots, indexes and keys")
    if stats.ratio:
        console.fact("Saved", f"{stats.ratio:.1f} times smaller than plain copies")
    if stats.unused_bytes is None:
        console.fact("Unused", NextStep("vault check", before="unknown: the vault is damaged; see"))
    else:
        unused = size_text(stats.unused_bytes)
        prune = NextStep("vault prune", before=f"{unused};", after=" gives it back")
        console.fact("Unused", prune if stats.unused_bytes else unused)
    if stats.free_bytes is not None:
        console.fact("Disk", f"{size_text(stats.free_bytes)} free")
    return 0


# `safekept vault unlock`: remove locks that were left behind.


@click.command("unlock")
@click.option("--all", "everything", is_flag=True, help="Also locks of work that seems to go on.")
@click.option("--dry-run", is_flag=True, help="Show which would go; remove nothing.")
@source_options
@json_option
def unlock_command(everything: bool, dry_run: bool, as_json: bool) -> int:
    """Remove locks that a dead process or a machine switched off left behind.

    safekept clears these away by itself; this is for locks of restic, or of another machine. With
    --all every lock goes: only when you know that no program works on the vault.
    """
    _, context, console = start(as_json)
    with open_vault(context, listener=console.notes()) as repository:
        removed = remove_locks(context, repository, everything=everything, dry_run=dry_run)
    document: dict[str, object] = {"locks": [{"id": lock.id, "holder": lock.holder} for lock in removed]}
    console.document({"dry_run": True, **document} if dry_run else document)
    done = "Would remove" if dry_run else "Removed"
    console.heading(f"{done} {count_text(len(removed), 'lock')}" if removed else "No lock was left behind")
    for lock in removed:
        console.fact("", lock.holder)
    return 0
