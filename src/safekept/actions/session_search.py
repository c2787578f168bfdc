"""Where a conversation is that one snapshot does not have: the newest other one that has it.

The search goes from the newest to the oldest and is bounded, because each database has to be copied out
of the vault to look into it. One with the same bytes as another is looked into once.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from safekept.actions.database_copies import stored_copy
from safekept.actions.listing import Listed, list_home
from safekept.actions.scratch import scratch
from safekept.actions.stored_home import open_stored
from safekept.actions.surroundings import Surroundings
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.home.conversations import NoSuchSession, open_copy
from safekept.vault.repo import Repository

_MOST = 20  # databases that are copied out
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Search:
    """What came of it."""

    found: Listed | None
    session: str  # its whole id
    left: int  # snapshots that were not looked into


def search(
    surroundings: Surroundings,
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
            source = open_stored(surroundings, repository, one).source
            node = source.node(database)
            if node is None or node.type != "file" or (node.content or b"") in seen:
                continue
            seen.add(node.content or b"")
            with scratch(surroundings) as directory:
                copy = stored_copy(source, database, node, os.path.join(directory, "looked-into.db"))
                with open_copy(copy, database) as chats:
                    return Search(one, chats.find(word).id, 0)
        except NoSuchSession as error:
            if error.facts.get("sessions"):  # several begin like that: here it can be told apart
                return Search(one, word, 0)
        except SafekeptError:
            continue  # damaged, not a home, or no chat database: another one may have it
    return Search(None, "", 0)
