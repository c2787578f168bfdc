"""The tables of two chat databases side by side: `main` is the live one, `old` the one that is read.

Versions of an agent differ in their columns. What both have is copied; what the live one needs and the
older one has not is a refusal, never a made-up value.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.sqlite.format import BUSY, LOCKED, error_code

from .shapes import Shape, columns_of, quoted, require_shape

if TYPE_CHECKING:
    import sqlite3

KEPT = "The live database is as it was"


class SchemaDiffers(SafekeptError):
    code = "schema-differs"


def begin(connection: sqlite3.Connection, deadline: float) -> None:
    """The write lock, within the deadline; SQLite's own waiting does not cover every case."""
    import sqlite3

    limit = time.monotonic() + deadline
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error_code(error) not in (BUSY, LOCKED) or time.monotonic() >= limit:
                raise
            time.sleep(0.02)


class Tables:
    """Statements over both databases, on one connection."""

    def __init__(self, connection: sqlite3.Connection, live: str, shape: Shape) -> None:
        self.connection, self.live, self.shape = connection, live, shape
        tables = (shape.session, shape.message)
        self.columns = {
            schema: {table: columns_of(connection, schema, table) for table in tables}
            for schema in ("main", "old")
        }
        require_shape(self.columns["main"], live, shape)

    def _bring_named(self, values: dict[str, Any]) -> None:
        """Rows of other tables that a session names by a foreign key, where the agent has collected
        them since: a shared prompt goes with the last session that has it. One that neither has is named no
        longer."""
        for row in self._all(f"PRAGMA main.foreign_key_list({self.shape.session})"):
            table, column, key = str(row[2]), str(row[3]), str(row[4] or "")
            named = values.get(column)
            if table == self.shape.session or named is None or not key:
                continue
            there = f"SELECT count(*) FROM main.{quoted(table)} WHERE {quoted(key)} = ?"
            if self._one(there, named)[0]:
                continue
            if key in columns_of(self.connection, "old", quoted(table)):
                self._copy_rows(table, key, named, named)
            if not self._one(there, named)[0]:
                values[column] = None

    def _copy_rows(self, table: str, column: str, old_id: object, new_id: object) -> None:
        live = columns_of(self.connection, "main", quoted(table))
        old = columns_of(self.connection, "old", quoted(table))
        names = [name for name in live if name in old]
        if any(needed and name not in old for name, needed in live.items()):
            return
        given = ", ".join("?" if name == column else quoted(name) for name in names)
        listed = ", ".join(map(quoted, names))
        self.connection.execute(
            f"INSERT OR IGNORE INTO main.{quoted(table)} ({listed})"
            f" SELECT {given} FROM old.{quoted(table)} WHERE {quoted(column)} = ?",
            (new_id, old_id),
        )

    def _shared(self, table: str) -> list[str]:
        return [name for name in self.columns["main"][table] if name in self.columns["old"][table]]

    def _required(self, table: str) -> list[str]:
        """The columns that both have; SchemaDiffers where the live one needs another."""
        missing = [
            name
            for name, needed in self.columns["main"][table].items()
            if needed and name not in self.columns["old"][table]
        ]
        if missing:
            raise SchemaDiffers(
                f"The table {table} of `{self.live}` needs {', '.join(missing)}, "
                "which the older database does not have",
                kept=KEPT,
                next_steps=(
                    NextStep(
                        "snapshot restore",
                        ("ID", "PATH", "--into", "DIR"),
                        before="Restore the whole database elsewhere, and open it there with the agent:",
                    ),
                ),
                table=table,
                columns=missing,
            )
        return self._shared(table)

    def _select(self, table: str, names: list[str], key: str) -> str:
        return f"SELECT {', '.join(map(quoted, names))} FROM old.{table} WHERE {key} = ?"

    def _insert(self, table: str, values: dict[str, Any]) -> None:
        listed, marks = ", ".join(map(quoted, values)), ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT INTO main.{table} ({listed}) VALUES ({marks})", tuple(values.values())
        )

    def _one(self, statement: str, *values: object) -> tuple[Any, ...]:
        return tuple(self.connection.execute(statement, values).fetchone())

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, values).fetchall()
