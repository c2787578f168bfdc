"""Taking a conversation that was brought back out of the live database again: its rows, and no others.

Only where nothing happened to it since: the rows are compared with a fingerprint that was made when they
came in. One transaction; the agent may be running. Where the agent went on with the conversation, that is
said and everything stays.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.format import BUSY, LOCKED, connect, error_code
from safekept.core.sqlite.restore import locked

from .conversations import open_live
from .shapes import belonging, columns_of, quoted, shape_of
from .tables import KEPT, begin

if TYPE_CHECKING:
    import sqlite3


class SessionNotTakenOut(SafekeptError):
    code = "session-not-taken-out"


@dataclass(frozen=True, slots=True)
class TakenOut:
    """What went."""

    sessions: tuple[str, ...]
    messages: int


def fingerprint(connection: sqlite3.Connection, live: str, sessions: Sequence[str]) -> str:
    """A hash over every row that belongs to these sessions, in the database called `main`."""
    digest = hashlib.sha256()
    tables = belonging(connection, shape_of(live))
    for session in sessions:
        for table, column in tables:
            rows = connection.execute(
                f"SELECT * FROM main.{quoted(table)} WHERE {quoted(column)} = ?", (session,)
            ).fetchall()
            # As Python writes them: text, numbers and bytes that look alike stay apart.
            digest.update(f"{table}\n{sorted(map(repr, rows))}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def check_untouched(live: str, sessions: Sequence[str], proof: str) -> int | None:
    """How many messages would go, by a look that changes nothing; None where it cannot be looked at now.

    Raises SessionNotTakenOut where `take_out` would.
    """
    with open_live(live, live) as chats:
        if chats is None:
            return None
        _check(chats.connection, live, sessions, proof)
        marks = ", ".join("?" * len(sessions))
        (count,) = chats.connection.execute(
            f"SELECT count(*) FROM main.{shape_of(live).message} WHERE session_id IN ({marks})",
            tuple(sessions),
        ).fetchone()
        return int(count)


def take_out(live: str, sessions: Sequence[str], proof: str, *, deadline: float = 30.0) -> TakenOut:
    """Delete what came in, newest session first. Raises SessionNotTakenOut, DatabaseLocked."""
    import sqlite3

    with in_use(live), contextlib.closing(connect(live, "mode=rw", timeout=deadline)) as connection:
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            begin(connection, deadline)
            try:
                _check(connection, live, sessions, proof)
                count = _delete(connection, live, sessions)
                connection.execute("COMMIT")
                return TakenOut(tuple(sessions), count)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            if error_code(error) in (BUSY, LOCKED):
                raise locked(live, deadline) from error
            raise _refused(live, sessions, f"SQLite said: {error}") from error


def _check(connection: sqlite3.Connection, live: str, sessions: Sequence[str], proof: str) -> None:
    marks = ", ".join("?" * len(sessions))
    if fingerprint(connection, live, sessions) != proof:
        raise _refused(live, sessions, "it was changed after it came back")
    shape = shape_of(live)
    if shape.parent not in columns_of(connection, "main", shape.session):
        return
    (children,) = connection.execute(
        f"SELECT count(*) FROM main.{shape.session}"
        f" WHERE {shape.parent} IN ({marks}) AND id NOT IN ({marks})",
        (*sessions, *sessions),
    ).fetchone()
    if children:
        raise _refused(live, sessions, f"{children:,} later sessions go on from it")


def _delete(connection: sqlite3.Connection, live: str, sessions: Sequence[str]) -> int:
    shape = shape_of(live)
    ids = [
        row[0]
        for session in sessions
        for row in connection.execute(f"SELECT id FROM main.{shape.message} WHERE session_id = ?", (session,))
    ]
    tables = belonging(connection, shape)
    for session in sessions:
        for table, column in reversed(tables):
            connection.execute(f"DELETE FROM main.{quoted(table)} WHERE {quoted(column)} = ?", (session,))
    indexes = connection.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%fts5%'"
    ).fetchall()
    for (name,) in indexes:
        for number in ids:
            if connection.execute(f"SELECT 1 FROM main.{quoted(name)} WHERE rowid = ?", (number,)).fetchone():
                raise _refused(live, sessions, f"the search index `{name}` did not let its messages go")
    return len(ids)


def _refused(live: str, sessions: Sequence[str], why: str) -> SessionNotTakenOut:
    return SessionNotTakenOut(
        f"Session `{sessions[0]}` cannot be taken out of `{live}` again: {why}",
        kept=KEPT,
        next_steps=(f"Delete it with the agent itself if it shall go: `{shape_of(live).delete}`",),
        session=sessions[0],
    )
