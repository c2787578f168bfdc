"""`safekept snapshot create --kind pre-update`: what is said of a restore point before an update."""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext
from safekept.actions.guard.pre_update import DONE, OPTED_OUT, Protection, protect_before
from safekept.actions.snapshots.create import SnapshotRequest
from safekept.settings import Settings

from ....console import Console, path_text, size_text
from ....words.remarks import show_remarks
from .create import restore_command, result_document, show_alarm, show_facts


def protect(
    console: Console,
    settings: Settings,
    context: UserContext,
    request: SnapshotRequest,
    backup: bool | None,
    named: list[str],
) -> int:
    """Exit code 0: done or switched off; 3: done, but not whole; 1: nothing was stored."""
    protection = protect_before(
        context,
        request.place,
        request.kind,
        backup,
        mode=settings.text("updates.pre_update_backup"),
        keep=settings.whole("updates.backup_keep"),
        label=request.label,
        selection=request.selection,
        deadline=request.deadline,
        listener=console.listener(),
    )
    console.finish()
    console.document(_document(console, protection, named))
    if protection.outcome == OPTED_OUT:
        return 0
    title = protection.kind.capitalize()
    if protection.outcome == DONE:
        _show(console, context, protection, named, title)
    else:
        console.heading(f"{title}: nothing was stored", good=False)
    for problem in protection.problems:
        console.fact("Failed", f"{problem['what']}")
        console.fact("Kept", f"{problem['kept']}")
        steps = problem["next"]
        console.next(steps if isinstance(steps, list) else ())
    if protection.outcome != DONE:
        return 1
    return 0 if protection.complete else 3


def _show(
    console: Console, context: UserContext, protection: Protection, named: list[str], title: str
) -> None:
    taken, zipped = protection.snapshot, protection.zip
    whole = "" if protection.complete else ", incomplete"
    if taken:
        console.heading(f"{title} snapshot {taken.id[:8]}{whole}", protection.complete)
        console.fact("Saved", f"in the vault {path_text(context.places.vault)}")
        show_facts(console, taken)
    else:
        console.heading(f"{title} backup{whole}", protection.complete)
    if zipped:
        written = zipped.written
        console.fact("Zip", f"{path_text(written.path)} ({size_text(written.stored_bytes)})")
        for path in protection.rotated:
            console.fact("Removed", path_text(path))
    if taken:
        console.fact("Restore", f"`{restore_command(console, taken, named)}`")
    if zipped:
        console.fact("Restore", f"`{console.command('import', zipped.written.path, *named)}`")
    console.fact("Switch off", _switch_off(protection))
    # What rules leave out is the same at every update; what could not be kept must be seen.
    remarks = taken.remarks if taken else zipped.written.remarks if zipped else []
    show_remarks(console, [remark for remark in remarks if remark.incomplete])
    if taken:
        show_alarm(console, taken)


def _switch_off(protection: Protection) -> str:
    if protection.kind == "pre-update":
        config = path_text(os.path.join(protection.place.home, "config.yaml"))
        return f"`updates.pre_update_backup: off` in {config}, or `--no-backup` for once"
    return "`--no-backup`"


def _document(console: Console, protection: Protection, named: list[str]) -> dict[str, object]:
    taken, zipped = protection.snapshot, protection.zip
    return {
        "outcome": protection.outcome,
        "kind": protection.kind,
        "mode": protection.mode,
        "complete": protection.complete,
        "home": protection.place.home,
        "snapshot": result_document(console, taken, named) if taken else None,
        "zip": zipped.as_dict() if zipped else None,
        "rotated": list(protection.rotated),
        "problems": list(protection.problems),
    }
