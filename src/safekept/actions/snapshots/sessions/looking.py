"""Which conversations a snapshot has, what was said in them, and which other snapshot has one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass
from safekept.core.spelling import near_names
from safekept.home.conversations import Conversation, Message, NoSuchSession
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ..listing import Listed, list_home
from ..stored_home import open_stored
from .opening import StoredChats, content_of, has_chats, kept_in, named_options

# Where a conversation is that one snapshot does not have: the newest other one that has it. The search
# goes from the newest to the oldest and is bounded, because the conversations of each have to be read out of
# the vault. What has the same bytes as another is looked into once.

_MOST = 20  # states that are read
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What came of the search."""

    found: Listed | None
    session: str  # its whole id
    left: int  # snapshots that were not looked into


def _elsewhere(
    context: UserContext, repository: Repository, stored: StoredChats, word: str, listener: Listener
) -> Elsewhere:
    """The newest other snapshot of the home that has this session."""
    seen = {stored.content}
    until = time.monotonic() + _SECONDS
    every = list_home(repository, stored.opened.place.home).of_home
    for number, one in enumerate(every):
        if len(seen) > _MOST or time.monotonic() > until:
            return Elsewhere(None, "", len(every) - number)
        listener(Event("look", number, len(every), "snapshots", one.short))
        try:
            other = open_stored(context, repository, one)
            if not has_chats(other, stored.database):
                continue
            content = content_of(other, stored.database)
            if content in seen:
                continue
            seen.add(content)
            with kept_in(context, other, stored.database) as (chats, _):
                return Elsewhere(one, chats.find(word).id, 0)
        except NoSuchSession as error:
            if error.facts.get("sessions"):  # several begin like that: here they can be told apart
                return Elsewhere(one, word, 0)
        except SafekeptError:
            continue  # damaged, not a home, or no conversations: another one may have it
    return Elsewhere(None, "", 0)


@dataclass(frozen=True, slots=True)
class Compared:
    """One stored conversation beside the live home."""

    stored: Conversation
    live_messages: int | None  # None: not there; -1: what is live could not be looked at

    def as_dict(self) -> dict[str, object]:
        live = self.live_messages
        return {**self.stored.as_dict(), "live_messages": None if live is None or live < 0 else live}


def list_sessions(stored: StoredChats) -> list[Compared]:
    """Every conversation of the snapshot, the latest first, and how much of it the live home has."""
    with stored.live_chats() as live:
        here = {one.id: one.messages for one in live.conversations()} if live is not None else None
    if here is None:
        missing = None if not os.path.exists(stored.live) else -1
        return [Compared(one, missing) for one in stored.chats.conversations()]
    return [Compared(one, here.get(one.id)) for one in stored.chats.conversations()]


def search_sessions(stored: StoredChats, words: str) -> Iterator[tuple[Conversation, list[Message]]]:
    """Conversations in which this was said, the latest first, each with the messages that say it."""
    return stored.chats.search(words)


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

        found = _elsewhere(context, chosen.repository, stored, word, listener)
        options = named_options(chosen, stored.database)
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
