"""`safekept keeper restore`: the stores come back from the keeper to where they were."""

from __future__ import annotations

import click

from safekept.actions.keeper.bring_back import bring_back, look_at_keeper
from safekept.actions.keeper.keeper_status import asked
from safekept.actions.keeper.stores import Stores
from safekept.core.ages import ago_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ...console import count_text, path_text, size_text
from ...options import start
from ...words.lists import consent
from .status import json_option


class NothingAtKeeper(SafekeptError):
    code, exit_code = "nothing-at-keeper", 10


@click.command("restore")
@click.option("--dry-run", is_flag=True, help="Show what would come back; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def restore_command(dry_run: bool, yes: bool, as_json: bool) -> int:
    """Put the vault, the checkpoints, the key, the settings and the journal back to where they were.

    For after an `rm -rf ~` or a deleted vault. What is there and whole is left alone; a file that differs
    is put aside beside itself. Homes and projects then come back by the usual commands, which are printed.
    Where the last state that was sent is an alarm, the last one before it is taken.
    """
    _, context, console = start(as_json)
    asked(context)
    held = look_at_keeper(context)
    if held is None:
        raise NothingAtKeeper(
            "The keeper of this machine holds nothing of you",
            kept="Nothing was changed",
            next_steps=(NextStep("keeper status", before="See how it is:"),),
        )
    stores = Stores.of(context)
    missing = held.missing(stores)
    document = {
        "dry_run": dry_run,
        "manifest": held.manifest.number,
        "time": held.manifest.time,
        "passed_over": held.passed_over,
        "missing": len(missing),
    }
    console.heading(f"The keeper holds your stores as of {ago_text(held.manifest.time)}")
    if held.passed_over:
        console.line("What was sent later names less than half of it, and is passed over")
    console.fact("Missing", f"{count_text(len(missing), 'file')} of {count_text(len(held.entries), 'file')}")
    if dry_run:
        console.document(document)
        console.line("Nothing was changed")
        return 0
    if not yes:
        consent(console, False, "This would come back", console.command("keeper", "restore"))
    done = bring_back(context, held, console.listener())
    console.finish()
    console.document({**document, "files": done.files, "bytes": done.bytes, "aside": list(done.aside)})
    console.heading(f"Brought back {count_text(done.files, 'file')}, {size_text(done.bytes)}")
    for path in done.aside:
        console.fact("Aside", path_text(path))
    console.line(NextStep("status", before="See which homes and projects are gone, and how each comes back:"))
    return 0
