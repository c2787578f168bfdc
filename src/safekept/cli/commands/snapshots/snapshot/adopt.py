"""`safekept snapshot adopt`: take the copies that Hermes made into the vault."""

from __future__ import annotations

import time

import click

from safekept.actions.archives.adopt import (
    FAILED,
    NEW,
    PRESENT,
    SKIPPED,
    TAKEN,
    Adopted,
    Adoption,
    adopt,
    plan_adoption,
)
from safekept.core.next_step import NextStep

from ....console import Console, count_text, path_text, size_text
from ....options import common_options, start


@click.command("adopt")
@click.option("--dry-run", is_flag=True, help="Show what would be taken; write nothing.")
@common_options
def command(dry_run: bool, home: str, layout: str, as_json: bool) -> int:
    """Take the history that Hermes already keeps in its home into the vault.

    Quick snapshots (`state-snapshots`) and zips (`backups`) become snapshots with their original
    times. Nothing of Hermes's is changed or deleted, and running it again adds only what is new.
    Exit code 3: something could not be taken whole, and is listed.
    """
    _, context, console = start(as_json)
    place = context.locate(home, layout)
    adoption = plan_adoption(context, place) if dry_run else adopt(context, place, console.listener())
    console.finish()
    new = [one for one in adoption.copies if one.state in (NEW, TAKEN)]
    console.document(
        {
            "dry_run": dry_run,
            "operation": adoption.operation or None,
            "home": place.home,
            "vault": context.places.vault,
            "copies": [one.as_dict() for one in adoption.copies],
            "stored_bytes": sum(one.stored for one in adoption.copies),
            "freed_bytes": adoption.freed_bytes,
        }
    )
    taken = count_text(len(new), "copy", "copies")
    whole = adoption.complete
    console.heading(f"{'Would take' if dry_run else 'Took'} {taken} of {path_text(place.home)}", whole)
    for one in adoption.copies:
        console.line(_line(one))
        for remark in one.remarks:
            if remark.incomplete:
                console.line(f"      {path_text(remark.path)}: {remark.reason}")
    _show_room(console, adoption, dry_run)
    return 0 if whole else 3


def _line(one: Adopted) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.copy.time_ns / 1e9))
    size = size_text(one.copy.disk_bytes)
    texts = {
        NEW: f"would be taken, incomplete: {one.copy.doubt}" if one.copy.doubt else "would be taken",
        TAKEN: f"snapshot {one.snapshot[:8]}, {count_text(one.files, 'file')}",
        PRESENT: f"is snapshot {one.snapshot[:8]} already",
        SKIPPED: f"passed over: {one.reason}",
        FAILED: f"cannot be taken: {path_text(one.reason)}",
    }[one.state]
    return f"  {when}  {size:>8}  {path_text(one.copy.name)}: {texts}"


def _show_room(console: Console, adoption: Adoption, dry_run: bool) -> None:
    stored = sum(one.stored for one in adoption.copies)
    if dry_run:
        size = sum(one.copy.disk_bytes for one in adoption.copies if one.state == NEW)
        console.line(f"They take {size_text(size)} where they are. Nothing was written")
        return
    if any(one.state == TAKEN for one in adoption.copies):
        console.line(
            NextStep(
                "snapshot list", before=f"They took {size_text(stored)} in the vault;", after=" shows them"
            )
        )
    if adoption.freed_bytes:
        console.line(
            f"Nothing of Hermes's was deleted. Removing what is whole in the vault would free "
            f"{size_text(adoption.freed_bytes)}"
        )
