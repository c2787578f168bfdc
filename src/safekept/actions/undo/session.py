"""Take a conversation that was brought back out of the live database again, and bring it back once more.

Only where nothing happened to it since. A quick snapshot is taken first, as before bringing it back.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safekept.core.events import Listener
from safekept.core.journal import new_id
from safekept.core.records import dataclass

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import SessionFacts, SessionUndoFacts
from ..base.record import record, recording
from .changes import Change
from .safety_snapshot import take_undo_point

if TYPE_CHECKING:
    from .undo import Undone, UndoRequest


@dataclass(frozen=True, slots=True)
class SessionUndone:
    """What went from, or came back into, a live database."""

    session: str
    database: str
    messages: int | None  # None: not known before it is done
    returned: bool  # it came back: this undid an undo
    undo_point: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "session": self.session,
            "database": self.database,
            "messages": self.messages,
            "returned": self.returned,
            "undo_point": self.undo_point,
        }


def undo_session(context: UserContext, change: Change, request: UndoRequest, listener: Listener) -> Undone:
    """Take it out, or where that was undone, bring it back from the same snapshot.

    A live database is written: in another user's home, that is not for root to do.
    """
    place = context.changed(only_own_homes=True).locate(change.home)
    if change.verb == "undo-session":
        return _again(context, place, change, request, listener)
    return _take_out(context, place, change, request, listener)


def _take_out(
    context: UserContext, place: HomeRef, change: Change, request: UndoRequest, listener: Listener
) -> Undone:
    from safekept.home.conversations import check_untouched, take_out

    from .undo import Undone

    done = SessionFacts.read(*change.lines)
    session, database, proof = done.session or "", done.database or "", done.proof or ""
    sessions = [session, *(done.parents or ())]  # those above it after it
    live = os.path.join(place.home, database)
    if request.dry_run:
        count = check_untouched(live, sessions, proof)
        return Undone("", change, session=SessionUndone(session, database, count, False))
    if request.agreed is not None:
        request.agreed(Undone("", change, session=SessionUndone(session, database, None, False)))
    operation = new_id()
    work = SessionUndoFacts(
        home=place.home,
        undoes=change.operation,
        database=database,
        snapshot=done.snapshot,
        stored_session=done.stored_session or session,
        session=session,
        as_=done.as_,
        directory=context.caller.directory or None,
    )
    with recording(context, operation, work, listener):
        check_untouched(live, sessions, proof)
        point = take_undo_point(
            context,
            place,
            "pre-restore",
            f"before taking session {session} out",
            quick=True,
            check=False,
            deadline=request.deadline,
            listener=listener,
        )
        gone = take_out(live, sessions, proof, deadline=request.deadline)
    work.undo_point, work.messages = point, gone.messages
    record(context, work.line(operation, "done"), listener)
    return Undone(operation, change, session=SessionUndone(session, database, gone.messages, False, point))


def _again(
    context: UserContext, place: HomeRef, change: Change, request: UndoRequest, listener: Listener
) -> Undone:
    from ..snapshots.sessions.bringing_back import restore_session
    from ..snapshots.sessions.opening import stored_chats
    from .undo import Undone

    taken = SessionFacts.read(*change.lines)
    database = taken.database or ""
    profile = database.split("/")[-2] if "/" in database else ""
    with stored_chats(context, place, taken.snapshot or "", profile, listener) as stored:
        word = taken.stored_session or taken.session or ""
        if request.dry_run:
            count = stored.chats.find(word).messages
            return Undone("", change, session=SessionUndone(word, database, count, True))
        if request.agreed is not None:
            request.agreed(Undone("", change, session=SessionUndone(word, database, None, True)))
        done = restore_session(
            context,
            place,
            stored,
            word,
            new_name=taken.as_ or "",
            deadline=request.deadline,
            undoes=change.operation,
            listener=listener,
        )
    back = done.returned
    session = SessionUndone(back.session, database, back.messages, True, done.undo_point)
    return Undone(done.operation, change, session=session)
