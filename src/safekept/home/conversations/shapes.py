"""The two shapes of chat databases: which tables have the conversations, and what belongs to one.

Known by the name of the file: Hermes and those like it have a `state.db`, opencode an `opencode.db`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from safekept.core.records import dataclass

from .reader import UNTOUCHED, NoConversations, whole_file_instead

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, slots=True)
class Shape:
    """The names of one kind of chat database."""

    session: str
    message: str
    parent: str  # the column of a session that names the one above it
    delete: str  # what a person types to have the agent delete one


STATE = Shape("sessions", "messages", "parent_session_id", "hermes sessions delete ID")
OPENCODE = Shape("session", "message", "parent_id", "opencode session delete ID")


def shape_of(path: str) -> Shape:
    return OPENCODE if path.rpartition("/")[2] == "opencode.db" else STATE


def belonging(connection: sqlite3.Connection, shape: Shape) -> list[tuple[str, str]]:
    """Every table of `main` with rows of a session, and the column with its id; those above come first."""
    names = [
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        if name not in (shape.session, shape.message)
    ]
    first = [(shape.session, "id"), (shape.message, "session_id")]
    if shape is STATE:
        return first + [
            (table, str(row[3]))
            for table in names
            for row in connection.execute(f"PRAGMA main.foreign_key_list({quoted(table)})").fetchall()
            if row[2] == shape.session
        ]
    # opencode: what has the id of a session, and the events that the session was made of, whose first table
    # is the one that the other refers to.
    columns = {table: columns_of(connection, "main", quoted(table)) for table in names}
    events = [table for table in ("event_sequence", "event") if "aggregate_id" in columns.get(table, ())]
    return (
        first
        + [(table, "session_id") for table in names if "session_id" in columns[table]]
        + [(table, "aggregate_id") for table in events]
    )


def columns_of(connection: sqlite3.Connection, schema: str, table: str) -> dict[str, bool]:
    """The columns of a table, and whether a row needs a value for each: not null and no default."""
    rows = connection.execute(f"PRAGMA {schema}.table_info({table})").fetchall()
    return {str(row[1]): bool(row[3]) and row[4] is None and not row[5] for row in rows}


def require_shape(columns: dict[str, dict[str, bool]], name: str, shape: Shape = STATE) -> None:
    """Raise where this is no database with conversations."""
    for table, wanted in ((shape.session, {"id"}), (shape.message, {"id", "session_id"})):
        missing = wanted - columns[table].keys()
        if missing:
            raise NoConversations(
                f"`{name}` has no conversations in it: "
                + (
                    f"its table {table} has no {sorted(missing)[0]}"
                    if columns[table]
                    else f"no table {table}"
                ),
                kept=UNTOUCHED,
                next_steps=(whole_file_instead(),),
            )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
