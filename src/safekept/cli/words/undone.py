"""What was taken back, in words: what returned, what is set aside and until when, what stays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, time_text
from .lists import ago, listing

if TYPE_CHECKING:
    from safekept.actions.undo.changes import Change
    from safekept.actions.undo.undo import Undone, UndoRequest

_VERBS = {
    "import": "the import",
    "restore": "the restore",
    "undo": "the undo",
    "rollback": "the rollback",
    "rollback-undo": "the undo of a rollback",
    "restore-session": "the return of a conversation",
    "undo-session": "the undo of a conversation's return",
}


def show_undone(console: Console, undone: Undone, request: UndoRequest) -> int:
    """The result or the plan; the exit code."""
    named = ("--home", undone.change.home) if request.home and undone.change.home else ()
    again = console.command("undo", *(() if request.dry_run else (undone.operation,)), *named)
    undo = None if request.dry_run or not undone.operation else again
    console.document({"dry_run": request.dry_run, **undone.as_dict(), "undo": undo})
    if undone.rollback is not None:
        from .rollback import show_rollback

        if not console.as_json:
            console.line(f"{'Would take' if request.dry_run else 'Taking'} back {_of(undone.change)}")
            show_rollback(console, undone.rollback, ["--dir", undone.change.project])
        return 0 if undone.complete else 3
    if undone.plan is not None:
        _show_landing(console, undone, request)
    elif undone.session is not None:
        _show_session(console, undone, request.dry_run)
    elif undone.brought_back is not None:
        return _show_brought_back(console, undone, request.dry_run)
    if request.dry_run:
        console.line("Nothing was changed")
    else:
        console.line(f"Changed your mind? Run `{again}`")
    return 0


def _of(change: Change) -> str:
    """`the restore of 5 min ago`."""
    name = _VERBS.get(change.verb, change.verb)
    actor = change.landed.actor or "person"
    by = "" if actor == "person" else f", by {path_text(actor)}"
    return f"{name} of {ago(int(change.time * 1e9))} ({change.operation}{by})"


def _show_landing(console: Console, undone: Undone, request: UndoRequest) -> None:
    plan, landed = undone.plan, undone.landed
    assert plan is not None
    home = path_text(plan.home)
    console.heading(f"Would take back in {home}" if landed is None else f"Taken back in {home}")
    console.fact("What", _of(undone.change))
    if landed is None:
        listing(console, "Returns", plan.returns)
        listing(console, "Goes", plan.goes)
    else:
        console.fact("Returned", count_text(landed.created + landed.replaced, "file"))
        console.fact("Set aside", count_text(landed.removed + landed.replaced, "file"))
    listing(console, "Since", plan.since)
    if plan.since:
        fate = "would be" if landed is None else "are"
        console.fact("", f"changed after it; as they were until now they {fate} set aside, not lost")
    if landed is None:
        return
    if landed.replaced_in:
        until = time.strftime("%Y-%m-%d", time.localtime(time.time() + request.keep_days * 86400))
        console.fact("Kept in", f"{path_text(landed.replaced_in)}, until {until}")
    for remark in landed.remarks:
        console.fact("Note", f"{path_text(remark.path)}: {remark.reason}")
    console.fact("Time", time_text(landed.seconds))


def _show_session(console: Console, undone: Undone, dry_run: bool) -> None:
    session = undone.session
    assert session is not None
    name, database = path_text(session.session), path_text(session.database)
    if session.returned:
        verb = "would come back into" if dry_run else "is back in"
    else:
        verb = "would be taken out of" if dry_run else "was taken out of"
    console.heading(f"Session {name} {verb} {database}")
    console.fact("What", _of(undone.change))
    if session.messages is not None:
        console.fact("Messages", f"{session.messages:,}")
    if session.undo_point:
        console.fact("Before", f"kept as snapshot {session.undo_point[:8]}")


def _show_brought_back(console: Console, undone: Undone, dry_run: bool) -> int:
    found = undone.brought_back
    assert found is not None
    verb = "Would bring back" if dry_run else "Brought back"
    console.heading(f"{verb} {count_text(len(found.back), found.what)}", not found.lost)
    console.fact("What", _of(undone.change))
    listing(console, "Back", found.back)
    listing(console, "Gone", found.lost)
    if found.lost and found.what != "mode":
        console.fact("", "past their days of grace, and reclaimed")
    for note in found.notes:
        console.fact("Note", note)
    if dry_run:
        console.line("Nothing was changed")
    return 0 if undone.complete else 3
