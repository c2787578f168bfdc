"""One conversation out of an older `state.db`: list them, read one, bring one back into the live database.

The older database is copied out of the snapshot to a private place; the live one is only ever opened
by SQLite. A quick snapshot is taken before anything is written.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step, reworded
from safekept.core.records import dataclass
from safekept.core.spelling import near_names
from safekept.home.conversations import (
    Chats,
    Conversation,
    Message,
    NoSuchSession,
    Returned,
    bring_back,
    open_copy,
    open_live,
)
from safekept.vault.repo import Repository

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import SessionFacts
from ..base.record import record, recording
from ..base.recovery import recover_interrupted
from ..base.scratch import scratch
from ..undo.safety_snapshot import take_undo_point
from .contents import Opened, nothing_there, opened
from .listing import Listed, list_home
from .live_home import stored_copy
from .stored_home import open_stored

# Where a conversation is that one snapshot does not have: the newest other one that has it. The search
# goes from the newest to the oldest and is bounded, because each database has to be copied out of the
# vault to look into it. One with the same bytes as another is looked into once.

_MOST = 20  # databases that are copied out
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Search:
    """What came of it."""

    found: Listed | None
    session: str  # its whole id
    left: int  # snapshots that were not looked into


def search(
    context: UserContext,
    repository: Repository,
    home: str,
    database: str,
    word: str,
    passed: bytes,
    listener: Listener = silent,
) -> Search:
    """The newest snapshot of a home whose database has this session; `passed` is the content of the one
    that was looked into already."""
    seen = {passed}
    until = time.monotonic() + _SECONDS
    every = list_home(repository, home).of_home
    for number, one in enumerate(every):
        if len(seen) > _MOST or time.monotonic() > until:
            return Search(None, "", len(every) - number)
        listener(Event("look", number, len(every), "snapshots", one.short))
        try:
            source = open_stored(context, repository, one).source
            node = source.node(database)
            if node is None or node.type != "file" or (node.content or b"") in seen:
                continue
            seen.add(node.content or b"")
            with scratch(context) as directory:
                copy = stored_copy(source, database, node, os.path.join(directory, "looked-into.db"))
                with open_copy(copy, database) as chats:
                    return Search(one, chats.find(word).id, 0)
        except NoSuchSession as error:
            if error.facts.get("sessions"):  # several begin like that: here they can be told apart
                return Search(one, word, 0)
        except SafekeptError:
            continue  # damaged, not a home, or no chat database: another one may have it
    return Search(None, "", 0)


#: Where an agent of this shape keeps its conversations.
DATABASE = "state.db"


class NoLiveDatabase(SafekeptError):
    code = "no-live-database"


@dataclass(frozen=True, slots=True)
class Compared:
    """One stored conversation beside the live database."""

    stored: Conversation
    live_messages: int | None  # None: not there; -1: the live database could not be looked at

    def as_dict(self) -> dict[str, object]:
        live = self.live_messages
        return {**self.stored.as_dict(), "live_messages": None if live is None or live < 0 else live}


@dataclass(frozen=True, slots=True)
class SessionRestored:
    """What was done."""

    operation: str
    returned: Returned
    database: str
    facts: SessionFacts  # what the journal says of it, and every document

    @property
    def undo_point(self) -> str:
        """The snapshot that was taken first; empty where there is none."""
        return self.facts.undo_point or ""


@dataclass(frozen=True, slots=True)
class StoredChats:
    """The conversations of one snapshot, open for reading."""

    opened: Opened
    chats: Chats
    copy: str  # the private copy of the older database
    live: str  # the live one
    database: str  # its path in the home
    content: bytes  # the ids of its blobs: the same ids, the same conversations


@contextlib.contextmanager
def stored_chats(
    context: UserContext,
    place: HomeRef,
    word: str,
    profile: str = "",
    listener: Listener = silent,
) -> Iterator[StoredChats]:
    """Copy the chat database out of a snapshot and open it."""
    with (
        opened(context, place, word, listener=listener) as found,
        scratch(context) as directory,
        contextlib.ExitStack() as held,
    ):
        path = f"{found.stored.layout.profiles}/{profile}/{DATABASE}" if profile else DATABASE
        source = found.stored.source
        node = source.node(path)
        if node is None or node.type != "file":
            raise nothing_there(found, path, lambda near: _of_profile(found, near))
        listener(Event("read", 0, node.size, path=path))
        copy = stored_copy(source, path, node, os.path.join(directory, DATABASE))
        try:
            chats = held.enter_context(open_copy(copy, path))
        except SafekeptError as error:
            names = {"ID": found.chosen.short, "PATH": path}
            error.next_steps = reworded(error.next_steps, lambda step: step.filled(**names))
            raise
        live = os.path.join(place.home, path)
        yield StoredChats(found, chats, copy, live, path, node.content or b"")


def _of_profile(found: Opened, database: str) -> NextStep | None:
    """The conversations of the profile that has this database; None where it is no profile's."""
    above, _, name = database.rpartition("/")
    profiles, _, profile = above.rpartition("/")
    if name != DATABASE or profiles != found.stored.layout.profiles:
        return None
    return NextStep("sessions list", ("--from", found.chosen.short, "--profile", profile))


def list_sessions(stored: StoredChats) -> list[Compared]:
    """Every conversation of the snapshot, the latest first, and how much of it the live database has."""
    with open_live(stored.live, stored.database) as live:
        here = {one.id: one.messages for one in live.conversations()} if live is not None else None
    if here is None:
        missing = None if not os.path.exists(stored.live) else -1
        return [Compared(one, missing) for one in stored.chats.conversations()]
    return [Compared(one, here.get(one.id)) for one in stored.chats.conversations()]


def read_session(
    context: UserContext, stored: StoredChats, word: str, listener: Listener = silent
) -> tuple[Conversation, list[Message]]:
    found = find_session(context, stored, word, "show", listener)
    return found, stored.chats.messages(found.id)


def find_session(
    context: UserContext, stored: StoredChats, word: str, verb: str, listener: Listener
) -> Conversation:
    """The session in the chosen snapshot; where it is not there, the error says which one has it."""
    try:
        return stored.chats.find(word)
    except NoSuchSession as error:
        chosen = stored.opened
        if error.facts.get("sessions") or not word:
            raise

        home, database = chosen.place.home, stored.database
        found = search(context, chosen.repository, home, database, word, stored.content, listener)
        options: tuple[str, ...] = ("--profile", database.split("/")[-2]) if "/" in database else ()
        options += ("--home", home) if chosen.place.named else ()
        if found.found is not None:
            words = (found.session, "--from", found.found.short, *options)
            before = f"The newest snapshot that has it is {found.found.short}:"
            error.next_steps = (NextStep(f"sessions {verb}", words, before),)
            error.facts["snapshot"] = found.found.id
        else:
            here = ("--from", chosen.chosen.short, *options)
            near = [
                NextStep(f"sessions {verb}", (one, *here), "Did you mean:") for one in _near(stored, word)
            ]
            other: Step = "No other snapshot of this home has it either"
            if found.left:
                before = f"{found.left:,} older snapshots were not looked into; name one:"
                other = NextStep(f"sessions {verb}", (word, "--from", "ID", *options), before)
            error.next_steps = (*near, other, NextStep("sessions list", here, "See those that there are:"))
        raise


def _near(stored: StoredChats, word: str) -> list[str]:
    """The ids of conversations whose id or title is nearly what was typed."""
    every = stored.chats.conversations()
    ids = {name.replace("/", " "): one.id for one in every for name in (one.title, one.id)}
    return list(dict.fromkeys(ids[name] for name in near_names(ids, word.replace("/", " "))))


def restore_session(
    context: UserContext,
    place: HomeRef,
    stored: StoredChats,
    word: str,
    *,
    new_name: str = "",
    deadline: float = 30.0,
    undoes: str = "",
    listener: Listener = silent,
) -> SessionRestored:
    """Bring one conversation back into the live database; journalled either way.

    `undoes`: the operation that took it out, where this takes that back.
    """
    recover_interrupted(context, place.home, listener)
    found = find_session(context, stored, word, "restore", listener)
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
        try:
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
        except SafekeptError as error:
            names = {"SESSION": found.id, "ID": stored.opened.chosen.short, "PATH": stored.database}
            error.next_steps = reworded(error.next_steps, lambda step: step.filled(**names))
            raise
    work.add({**returned.as_dict(), "seconds": round(time.monotonic() - began, 3)})
    record(context, work.line(operation, "done"), listener)
    return SessionRestored(operation, returned, stored.live, work)
