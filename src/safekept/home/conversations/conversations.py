"""Conversations inside a chat database: which there are, and what was said.

Known by their shape, not by a version: a table `sessions` with an `id`, and a table `messages` with a
`session_id`. Whatever other columns there are may differ from one version of the agent to the next.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.format import connect

if TYPE_CHECKING:
    import sqlite3

_UNTOUCHED = "Nothing was changed"


class NoConversations(SafekeptError):
    code = "no-conversations"


class NoSuchSession(SafekeptError):
    code = "no-such-session"


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session."""

    id: str
    title: str
    source: str
    parent: str
    started: float
    messages: int

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "title": self.title,
            "source": self.source,
            "parent": self.parent,
            "started": self.started,
            "messages": self.messages,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a session."""

    role: str
    text: str
    time: float
    tool: str

    def as_dict(self) -> dict[str, object]:
        return {"role": self.role, "text": self.text, "time": self.time, "tool": self.tool}


class Chats:
    """A chat database that is open for reading."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection, self.name = connection, name
        self.columns = {table: columns_of(connection, "main", table) for table in ("sessions", "messages")}
        require_shape(self.columns, name)

    def conversations(self) -> list[Conversation]:
        """Every session, the latest first."""
        counts = dict(self._rows("SELECT session_id, count(*) FROM messages GROUP BY session_id"))
        wanted = ("id", "title", "source", "parent_session_id", "started_at")
        given = ", ".join(name if name in self.columns["sessions"] else "NULL" for name in wanted)
        found = [
            Conversation(
                str(row[0]),
                str(row[1] or ""),
                str(row[2] or ""),
                str(row[3] or ""),
                _number(row[4]),
                int(counts.get(row[0], 0)),
            )
            for row in self._rows(f"SELECT {given} FROM sessions")
        ]
        return sorted(found, key=lambda one: (one.started, one.id), reverse=True)

    def find(self, word: str) -> Conversation:
        """By its id, the start of one, or its title."""
        every = self.conversations()
        exact = [one for one in every if one.id == word] or [one for one in every if one.title == word]
        matches = exact or [one for one in every if word and one.id.startswith(word)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NoSuchSession(
                f"{len(matches):,} sessions of `{self.name}` are called or start with `{word}`",
                kept=_UNTOUCHED,
                next_steps=("Name one by its whole id: " + ", ".join(f"`{one.id}`" for one in matches[:4]),),
                sessions=[one.id for one in matches],
            )
        raise NoSuchSession(
            f"There is no session `{word}` in `{self.name}` of that snapshot",
            kept=_UNTOUCHED,
            next_steps=(NextStep("sessions list", before="See those that there are:"),),
            word=word,
        )

    def messages(self, session: str) -> list[Message]:
        """What was said, in order."""
        have = self.columns["messages"]
        given = ", ".join(
            name if name in have else "NULL" for name in ("role", "content", "timestamp", "tool_name")
        )
        rows = self._rows(f"SELECT {given} FROM messages WHERE session_id = ? ORDER BY id", session)
        return [Message(str(row[0] or ""), _text(row[1]), _number(row[2]), str(row[3] or "")) for row in rows]

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        import sqlite3

        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise NoConversations(
                f"`{self.name}` cannot be read: {error}",
                kept=_UNTOUCHED,
                next_steps=(NextStep("snapshot list", before="Take an older snapshot:"),),
            ) from error


@contextlib.contextmanager
def open_copy(path: str, name: str) -> Iterator[Chats]:
    """A private copy of a chat database; `name` is what people call it."""
    with _connected(path, "mode=ro&immutable=1", name) as connection:
        yield Chats(connection, name)


@contextlib.contextmanager
def open_live(path: str, name: str) -> Iterator[Chats | None]:
    """The live database, for a look; None where there is none, or it cannot be looked at quietly.

    A look leaves no file behind: at rest it is read as it lies, in use through SQLite beside its users.
    """
    log, shared = os.path.exists(path + "-wal"), os.path.exists(path + "-shm")
    if not os.path.isfile(path) or log != shared or os.path.exists(path + "-journal"):
        yield None
        return
    with in_use(path):
        try:
            opened = contextlib.ExitStack()
            connection = opened.enter_context(
                _connected(path, "mode=ro" if log else "mode=ro&immutable=1", name)
            )
            chats = Chats(connection, name)
        except SafekeptError:
            opened.close()
            yield None
            return
        with opened:
            yield chats


@contextlib.contextmanager
def _connected(path: str, how: str, name: str) -> Iterator[sqlite3.Connection]:
    import sqlite3

    connection = connect(path, how, timeout=5.0)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise NoConversations(
            f"`{name}` is not a database that can be read: {error}",
            kept=_UNTOUCHED,
            next_steps=(NextStep("snapshot list", before="Take an older snapshot:"),),
        ) from error
    with contextlib.closing(connection):
        yield connection


def columns_of(connection: sqlite3.Connection, schema: str, table: str) -> dict[str, bool]:
    """The columns of a table, and whether a row needs a value for each: not null and no default."""
    rows = connection.execute(f"PRAGMA {schema}.table_info({table})").fetchall()
    return {str(row[1]): bool(row[3]) and row[4] is None and not row[5] for row in rows}


def require_shape(columns: dict[str, dict[str, bool]], name: str) -> None:
    """Raise where this is no database with conversations."""
    for table, wanted in (("sessions", {"id"}), ("messages", {"id", "session_id"})):
        missing = wanted - columns[table].keys()
        if missing:
            raise NoConversations(
                f"`{name}` has no conversations in it: "
                + (
                    f"its table {table} has no {sorted(missing)[0]}"
                    if columns[table]
                    else f"no table {table}"
                ),
                kept=_UNTOUCHED,
                next_steps=(
                    NextStep(
                        "snapshot restore", ("ID", "PATH"), before="Restore the file as a whole instead:"
                    ),
                ),
            )


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
