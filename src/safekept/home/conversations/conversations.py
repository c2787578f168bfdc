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
from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.format import connect

from .reader import (
    UNTOUCHED,
    Conversation,
    ConversationReader,
    Message,
    NoConversations,
    latest_first,
    number,
)
from .shapes import OPENCODE, STATE, columns_of, require_shape, shape_of

if TYPE_CHECKING:
    import sqlite3


class Rows(ConversationReader):
    """A chat database that is open for reading."""

    shape = STATE

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection, self.name = connection, name
        tables = (self.shape.session, self.shape.message)
        self.columns = {table: columns_of(connection, "main", table) for table in tables}
        require_shape(self.columns, name, self.shape)

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        import sqlite3

        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise NoConversations(
                f"`{self.name}` cannot be read: {error}",
                kept=UNTOUCHED,
                next_steps=(NextStep("snapshot list", before="Take an older snapshot:"),),
            ) from error


class Chats(Rows):
    """That of Hermes, and of those like it."""

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
                number(row[4]),
                int(counts.get(row[0], 0)),
            )
            for row in self._rows(f"SELECT {given} FROM sessions")
        ]
        return latest_first(found)

    def messages(self, session: str) -> list[Message]:
        """What was said, in order."""
        have = self.columns["messages"]
        given = ", ".join(
            name if name in have else "NULL" for name in ("role", "content", "timestamp", "tool_name")
        )
        rows = self._rows(f"SELECT {given} FROM messages WHERE session_id = ? ORDER BY id", session)
        return [Message(str(row[0] or ""), _text(row[1]), number(row[2]), str(row[3] or "")) for row in rows]


def _reader(connection: sqlite3.Connection, name: str) -> Rows:
    if shape_of(name) is OPENCODE:
        from .opencode import OpencodeChats

        return OpencodeChats(connection, name)
    return Chats(connection, name)


@contextlib.contextmanager
def open_copy(path: str, name: str) -> Iterator[Rows]:
    """A private copy of a chat database; `name` is what people call it."""
    with _connected(path, "mode=ro&immutable=1", name) as connection:
        yield _reader(connection, name)


@contextlib.contextmanager
def open_live(path: str, name: str) -> Iterator[Rows | None]:
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
            chats = _reader(connection, name)
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
            kept=UNTOUCHED,
            next_steps=(NextStep("snapshot list", before="Take an older snapshot:"),),
        ) from error
    with contextlib.closing(connection):
        yield connection


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
