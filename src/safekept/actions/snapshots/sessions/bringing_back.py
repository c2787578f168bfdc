"""Bring one conversation of a snapshot back: rows into a live database, files by the one landing.

Nothing that is there is overwritten, and the printed `undo` takes it out again.
"""

from __future__ import annotations

import os
import time

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.conversations import Conversation, Returned, Transcripts, bring_back

from ...base.context import HomeRef, UserContext
from ...base.operations.homes import SessionFacts
from ...base.record import record, recording
from ...base.recovery import recover_interrupted
from ...undo.safety_snapshot import take_undo_point
from .looking import find_session
from .opening import StoredChats, fill_steps


class NoLiveDatabase(SafekeptError):
    code = "no-live-database"


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """What was done."""

    operation: str  # "": nothing was, because it is there
    returned: Returned
    database: str
    undo_point: str = ""  # the snapshot that was taken first; empty where there is none

    def as_dict(self) -> dict[str, object]:
        return {**self.returned.as_dict(), "undo_point": self.undo_point}


def restore_session(
    context: UserContext,
    place: HomeRef,
    stored: StoredChats,
    word: str,
    *,
    new_name: str = "",
    deadline: float = 30.0,
    keep_days: int = 14,
    undoes: str = "",
    listener: Listener = silent,
) -> SessionRestored:
    """Bring one conversation back into the live home; journalled either way.

    `undoes`: the operation that took it out, where this takes that back.
    """
    recover_interrupted(context, place.home, listener)
    found = find_session(context, stored, word, "restore", listener)
    try:
        if isinstance(stored.chats, Transcripts):
            from .files import SessionFiles

            files = SessionFiles(context, place, stored, found, new_name, deadline, keep_days)
            return files.bring_back(listener)
        return _rows(context, place, stored, found, new_name, deadline, undoes, listener)
    except SafekeptError as error:
        fill_steps(error, stored.opened, stored.database, found.id)
        raise


def _rows(
    context: UserContext,
    place: HomeRef,
    stored: StoredChats,
    found: Conversation,
    new_name: str,
    deadline: float,
    undoes: str,
    listener: Listener,
) -> SessionRestored:
    """Out of an older database into the live one."""
    operation = new_id()
    work = SessionFacts(
        home=place.home,
        database=stored.database,
        snapshot=stored.opened.chosen.id,
        session=found.id,
        stored_session=found.id,
        as_=new_name,
        undoes=undoes,
        directory=context.caller.directory or None,
    )
    if not os.path.isfile(stored.live):
        raise NoLiveDatabase(
            f"There is no `{stored.live}` to bring a conversation back into",
            kept="Nothing was changed",
            next_steps=(
                NextStep(
                    "snapshot restore",
                    (stored.opened.chosen.short, stored.database),
                    before="Restore the whole database:",
                ),
            ),
            path=stored.live,
        )
    began = time.monotonic()
    record(context, work.line(operation, "begun"), listener)
    with recording(context, operation, work, listener):
        work.undo_point = take_undo_point(
            context,
            place,
            "pre-restore",
            f"before session {found.id}",
            quick=True,
            check=False,
            deadline=deadline,
            listener=listener,
        )
        returned = bring_back(stored.copy, stored.live, found.id, new_id=new_name, deadline=deadline)
    work.add({**returned.as_dict(), "seconds": round(time.monotonic() - began, 3)})
    record(context, work.line(operation, "done"), listener)
    return SessionRestored(operation, returned, stored.live, work.undo_point or "")
