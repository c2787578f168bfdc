"""The conversations of one snapshot, open for reading, whatever the agent keeps them in.

A database is copied out of the snapshot to a private place; transcripts are read in the vault. The live
database is only ever opened by SQLite.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator

from safekept.core.entries import Entry, EntryLost, Kind
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep, reworded
from safekept.core.records import dataclass
from safekept.home.conversations import (
    ConversationReader,
    LiveFiles,
    Transcripts,
    agent_files,
    open_copy,
    open_live,
)
from safekept.vault.read import HomeSource

from ...base.context import HomeRef, UserContext
from ...base.scratch import scratch
from ..contents import Opened, nothing_there, opened
from ..live_home import stored_copy
from ..stored_home import Stored

#: Where agents keep their conversations, by the word that their layouts have for it; others have files.
_DATABASES = {"state-db": "state.db", "opencode": "opencode.db"}


class StoredFiles:
    """A home in a snapshot as files."""

    def __init__(self, source: HomeSource) -> None:
        self._source = source
        self._entries: dict[str, Entry] | None = None

    @property
    def entries(self) -> dict[str, Entry]:
        """Everything in the snapshot by its path, directories before what is in them."""
        if self._entries is None:
            self._entries = {entry.path: entry for entry in self._source}
        return self._entries

    def paths(self, below: str) -> Iterable[str]:
        start = below + "/"
        return [
            path for path, one in self.entries.items() if one.kind is Kind.FILE and path.startswith(start)
        ]

    def chunks(self, path: str) -> Iterator[bytes]:
        entry = self.entries.get(path)
        if entry is None or entry.kind is not Kind.FILE:
            return
        with contextlib.suppress(EntryLost), entry.open() as content:
            yield from content.chunks()


@dataclass(frozen=True, slots=True)
class StoredChats:
    """The conversations of one snapshot, open for reading."""

    opened: Opened
    chats: ConversationReader
    copy: str  # the private copy of the older database; "" where they are files
    live: str  # the live database, or the live directory
    database: str  # its path in the home
    content: bytes  # the ids of its blobs: the same ids, the same conversations

    @contextlib.contextmanager
    def live_chats(self) -> Iterator[ConversationReader | None]:
        """Those of the live home; None where there are none, or they cannot be looked at quietly."""
        if isinstance(self.chats, Transcripts):
            home = self.opened.place.home
            yield Transcripts(LiveFiles(home), self.chats.agent) if os.path.isdir(home) else None
            return
        with open_live(self.live, self.database) as live:
            yield live


@contextlib.contextmanager
def stored_chats(
    context: UserContext,
    place: HomeRef,
    word: str,
    profile: str = "",
    listener: Listener = silent,
) -> Iterator[StoredChats]:
    """Open the conversations of a snapshot."""
    with opened(context, place, word, listener=listener) as found:
        path = place_of(found.stored, profile)
        if not has_chats(found.stored, path):
            raise nothing_there(found, path, lambda near: _of_profile(found, near))
        live = os.path.join(place.home, path)
        try:
            with kept_in(context, found.stored, path, listener) as (chats, copy):
                yield StoredChats(found, chats, copy, live, path, content_of(found.stored, path))
        except SafekeptError as error:
            fill_steps(error, found, path)
            raise


def fill_steps(error: SafekeptError, found: Opened, path: str, session: str = "") -> None:
    """The printed commands name what was meant: the snapshot, the path, the session, a free id, the home."""
    names = {"ID": found.chosen.short, "PATH": path}
    if session:
        names |= {"SESSION": session, "NEWID": another_id(session, found.chosen.id)}

    def filled(step: NextStep) -> NextStep:
        unnamed = not names.keys().isdisjoint(step.arguments)
        options = named_options(found, path if step.verb.startswith("sessions ") else "")
        return step.filled(**names).adding(*options) if unnamed else step

    error.next_steps = reworded(error.next_steps, filled)


def named_options(found: Opened, path: str) -> tuple[str, ...]:
    """The options that say again which profile and which home; `path`: of its conversations, "": of none."""
    profile: tuple[str, ...] = ("--profile", path.split("/")[-2]) if "/" in path else ()
    return (*profile, *(("--home", found.place.home) if found.place.named else ()))


def another_id(session: str, snapshot: str) -> str:
    """An id for the older state of a session, in the form of its own: the same one for the same snapshot."""
    with contextlib.suppress(ValueError):
        if str(uuid.UUID(session)) == session:
            return str(uuid.uuid5(uuid.UUID(session), snapshot))
    return f"{session}-{snapshot[:8]}"


def place_of(stored: Stored, profile: str = "") -> str:
    """The database or the directory that has them, below the home."""
    agent = agent_files(stored.layout.conversations)
    path = agent.directory if agent is not None else _DATABASES[stored.layout.conversations]
    return f"{stored.layout.profiles}/{profile}/{path}" if profile else path


def has_chats(stored: Stored, path: str) -> bool:
    node = stored.source.node(path)
    wanted = "file" if agent_files(stored.layout.conversations) is None else "dir"
    return node is not None and node.type == wanted


def content_of(stored: Stored, path: str) -> bytes:
    """What tells two states of them apart without reading either."""
    agent = agent_files(stored.layout.conversations)
    nodes = [stored.source.node(one) for one in (agent.below if agent is not None else (path,))]
    return b"".join(node.content or node.subtree or b"" for node in nodes if node is not None)


@contextlib.contextmanager
def kept_in(
    context: UserContext, stored: Stored, path: str, listener: Listener = silent
) -> Iterator[tuple[ConversationReader, str]]:
    """A reader of what the snapshot has there, and the private copy of a database."""
    agent, source = agent_files(stored.layout.conversations), stored.source
    if agent is not None:
        listener(Event("read", 0, 0, path=path))
        yield Transcripts(StoredFiles(source), agent), ""
        return
    node = source.node(path)
    assert node is not None, path
    with scratch(context) as directory:
        listener(Event("read", 0, node.size, path=path))
        copy = stored_copy(source, path, node, os.path.join(directory, os.path.basename(path)))
        with open_copy(copy, path) as chats:
            yield chats, copy


def _of_profile(found: Opened, database: str) -> NextStep | None:
    """The conversations of the profile that has this database; None where it is no profile's."""
    above, _, name = database.rpartition("/")
    profiles, _, profile = above.rpartition("/")
    if name != _DATABASES["state-db"] or profiles != found.stored.layout.profiles:
        return None
    return NextStep("sessions list", ("--from", found.chosen.short, "--profile", profile))
