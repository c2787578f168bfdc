"""Databases as Hermes after 0.19 keeps them, made out of one of 0.19: PyPI has no newer version.

The statements are ours, by the description of what upstream does; names, options and what each trigger
indexes are as there. `0.20`: an old store that a newer Hermes opened. `layout 2` and `layout 3`: external
content, in 2 the text of `messages`, of which long answers of tools are indexed in part, in 3 a view that
gives that part.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

NEWER = ("0.20", "layout 2", "layout 3")
_CUT = 8192
_PART = f"CASE WHEN {{0}}.role = 'tool' THEN substr({{0}}.content, 1, {_CUT}) ELSE {{0}}.content END"
_SPOKEN = (
    "m.role != 'tool' AND NOT EXISTS"
    " (SELECT 1 FROM sessions s WHERE s.id = m.session_id AND s.source IN ('cron', 'subagent'))"
)


def made_newer(path: str, layout: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = delete")
        for kind in ("insert", "delete", "update"):
            for table in ("messages_fts", "messages_fts_trigram"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}_{kind}")
        if layout == "0.20":
            connection.executescript("".join(map(_inline, ("messages_fts", "messages_fts_trigram"))))
        else:
            for table in ("messages_fts", "messages_fts_trigram"):
                connection.execute(f"DROP TABLE {table}")
            _external(connection, layout == "layout 3")
            version = layout[-1]
            connection.execute("INSERT INTO state_meta VALUES ('fts_storage_version', ?)", (version,))
        long = "word " * 2000 + "elephant"
        connection.execute(
            "INSERT INTO messages (session_id, role, content, tool_name, timestamp)"
            " VALUES ('root', 'tool', ?, 'read_file', 2)",
            (long,),
        )
        connection.execute("UPDATE schema_version SET version = 30")
        _shared_prompts(connection)


def _inline(table: str) -> str:
    text = (
        f"COALESCE({_PART.format('new')}, '') || ' ' || COALESCE(new.tool_name, '') || ' ' ||"
        " COALESCE(new.tool_calls, '')"
    )
    put = f"INSERT INTO {table}(rowid, content) VALUES (new.id, {text});"
    gone = f"DELETE FROM {table} WHERE rowid = old.id;"
    changed = "UPDATE OF content, tool_name, tool_calls"
    return (
        f"CREATE TRIGGER {table}_insert AFTER INSERT ON messages BEGIN {put} END;\n"
        f"CREATE TRIGGER {table}_delete AFTER DELETE ON messages BEGIN {gone} END;\n"
        f"CREATE TRIGGER {table}_update AFTER {changed} ON messages BEGIN {gone} {put} END;\n"
    )


def _external(connection: sqlite3.Connection, by_view: bool) -> None:
    words = "content, tool_name, tool_calls"
    source = "messages_fts_src" if by_view else "messages"
    if by_view:
        part = _PART.format("m")
        connection.execute(
            f"CREATE VIEW {source} AS SELECT m.id, {part} AS content, m.tool_name, m.tool_calls"
            " FROM messages m"
        )
    connection.execute(
        "CREATE VIEW messages_fts_trigram_src AS SELECT m.id, m.content, m.tool_name FROM messages m"
        f" WHERE {_SPOKEN}"
    )
    connection.execute(
        f"CREATE VIRTUAL TABLE messages_fts USING fts5({words}, content='{source}', content_rowid='id')"
    )
    connection.execute(
        "CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(content, tool_name,"
        " content='messages_fts_trigram_src', content_rowid='id', tokenize='trigram')"
    )
    for table in ("messages_fts", "messages_fts_trigram"):
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('rebuild')")
    connection.executescript(_triggers())


def _triggers() -> str:
    """No row is indexed while Hermes fills the index in the background up to a mark."""
    filled = (
        "NOT EXISTS (SELECT 1 FROM state_meta WHERE key = 'fts_rebuild_high_water'"
        " AND CAST(value AS INTEGER) < {0}.id)"
    )
    found = ""
    for table, names, only in (
        ("messages_fts", ("content", "tool_name", "tool_calls"), ""),
        ("messages_fts_trigram", ("content", "tool_name"), _SPOKEN),
    ):
        listed = ", ".join(names)
        for event, row, command in (("INSERT", "new", ""), ("DELETE", "old", "delete")):
            values = ", ".join(_PART.format(row) if one == "content" else f"{row}.{one}" for one in names)
            which = f" AND {only.replace('m.', f'{row}.')}" if only else ""
            columns, first = (f"{table}, rowid", "'delete', ") if command else ("rowid", "")
            found += (
                f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON messages"
                f" WHEN {filled.format(row)}{which}"
                f" BEGIN INSERT INTO {table}({columns}, {listed}) VALUES ({first}{row}.id, {values}); END;\n"
            )
    return found


def _shared_prompts(connection: sqlite3.Connection) -> None:
    """A prompt that sessions share is a row of its own, and goes with the last of them."""
    connection.executescript(
        "CREATE TABLE system_prompts (hash TEXT PRIMARY KEY, content TEXT NOT NULL);"
        "INSERT INTO system_prompts VALUES ('p1', 'You are kind.');"
        "ALTER TABLE sessions ADD COLUMN system_prompt_hash TEXT REFERENCES system_prompts(hash);"
        "UPDATE sessions SET system_prompt_hash = 'p1' WHERE id = 'tip';"
    )
