"""Filling a search index of a database that may be in use: a few rows at a time.

Only tables that a recipe knows, word for word. They hold their own text, so their triggers do no harm to a
row that is not indexed yet: removing it removes nothing, changing it indexes it. On a table with external
content the same raises `malformed`; such a table is made before the database is in place.

Each transaction takes rows that are not in the index at that moment. So it may be killed at any instant and
begun again, and two of them at once, an agent that writes and its own merges are all right.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ...records import dataclass
from ..descriptors import in_use
from ..format import BUSY, ERROR, LOCKED, connect, error_code
from .pages import NotLean
from .request import Recipe, quoted
from .tables import holds_its_text, known_table

if TYPE_CHECKING:
    import sqlite3

#: Seconds that one transaction should take: another writer waits so long, and no longer.
_TRANSACTION = 0.1
#: Seconds between two of them in which others come in, as a part of what the last one took.
_PAUSE = 0.25
#: Rows of the first transaction, and the most of any.
_FIRST, _MOST = 16, 4000
#: Seconds to wait for another program's transaction.
_PATIENCE = 5.0
_LEAST_KEY = -(1 << 63)


@dataclass(slots=True)
class Filling:
    """How far the filling of one database is. Nothing of it has to be remembered: it only saves looking."""

    done: int = 0  # rows that are in the indexes
    total: int = 0  # rows that should be
    seconds: float = 0.0  # of work, since this began
    began_at: int = 0  # what was done when this began
    at: dict[str, int] = field(default_factory=dict)  # by table: no row up to this key is missing
    whole: set[str] = field(default_factory=set)  # tables that lacked nothing when they were looked at
    rows: int = _FIRST

    @property
    def left(self) -> float:
        """Seconds that the rest will take, by what was done so far; 0 where that is unknown."""
        done = self.done - self.began_at
        return self.seconds * max(0, self.total - self.done) / done if done > 0 else 0.0


def fillable(connection: sqlite3.Connection, recipes: Sequence[Recipe]) -> list[Recipe]:
    """The recipes whose tables hold their own text and are in this database exactly as they are known."""
    import sqlite3

    found = []
    for recipe in filter(holds_its_text, recipes):
        try:
            known_table(connection, recipe)
            connection.execute(f"SELECT rowid FROM {quoted(recipe.table)} LIMIT 0")
        except NotLean:
            continue
        except sqlite3.OperationalError as error:
            if error_code(error) != ERROR:  # not known to this SQLite: the module, or the tokenizer
                raise
            continue
        found.append(recipe)
    return found


def fill(path: str, recipes: Sequence[Recipe], state: Filling, seconds: float) -> bool:
    """Work for about so many seconds; whether every index is whole now.

    A table that is gone, or is no longer as it is known, is not filled and counts as whole. A program that
    keeps the database locked is left alone: then this returns early. Raises sqlite3.Error and OSError.
    """
    import sqlite3

    began = time.monotonic()
    with in_use(path), contextlib.closing(connect(path, "mode=rw", _PATIENCE)) as connection:
        try:
            found = fillable(connection, recipes)
            if not state.total:
                _count(connection, found, state)
            for recipe in found:
                while recipe.table not in state.whole:
                    if _step(connection, recipe, state) and time.monotonic() - began >= seconds:
                        return False
            # Once more from the beginning, and without keeping others from writing.
            state.whole = {one.table for one in found if not _next(connection, one, _LEAST_KEY, 1)[0]}
            return len(state.whole) == len(found)
        except sqlite3.OperationalError as error:
            if error_code(error) not in (BUSY, LOCKED):
                raise
            return False
        finally:
            state.seconds += time.monotonic() - began


def _count(connection: sqlite3.Connection, recipes: Sequence[Recipe], state: Filling) -> None:
    """Once: counting a large table takes a while, and how far it is need not be known to the row."""
    for recipe in recipes:
        counted = f"SELECT count(*) FROM {quoted(recipe.table + '_docsize')}"
        state.done += connection.execute(counted).fetchone()[0]
        state.total += connection.execute(f"SELECT count(*) FROM {quoted(recipe.source)}").fetchone()[0]
    state.began_at = state.done


def _step(connection: sqlite3.Connection, recipe: Recipe, state: Filling) -> bool:
    """One transaction; False where no row is missing from here on."""
    began = time.monotonic()
    connection.execute("BEGIN IMMEDIATE")
    try:
        count, last = _next(connection, recipe, state.at.get(recipe.table, _LEAST_KEY), state.rows)
        if count:
            connection.execute(_insertion(recipe), (state.at.get(recipe.table, _LEAST_KEY), last))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if not count:
        state.at.pop(recipe.table, None)
        state.whole.add(recipe.table)
        return False
    state.at[recipe.table] = last
    state.done += count
    took = time.monotonic() - began
    state.rows = max(1, min(_MOST, int(state.rows * _TRANSACTION / max(took, _TRANSACTION / 4))))
    time.sleep(took * _PAUSE)
    return True


def _next(connection: sqlite3.Connection, recipe: Recipe, after: int, rows: int) -> tuple[int, int]:
    """How many rows come next that are not in the index, at most so many, and the key of the last."""
    key = quoted(recipe.key)
    query = f"SELECT {key} AS k FROM {_missing(recipe)} ORDER BY {key} LIMIT ?"
    found = connection.execute(f"SELECT count(*), max(k) FROM ({query})", (after, rows)).fetchone()
    return int(found[0]), int(found[1] or 0)


def _insertion(recipe: Recipe) -> str:
    names = ", ".join(quoted(column) for column in recipe.columns)
    values, key = ", ".join(recipe.columns.values()), quoted(recipe.key)
    return (
        f"INSERT INTO {quoted(recipe.table)}(rowid, {names}) SELECT {key}, {values}"
        f" FROM {_missing(recipe)} AND {key} <= ? ORDER BY {key}"
    )


def _missing(recipe: Recipe) -> str:
    key, sizes = quoted(recipe.key), quoted(recipe.table + "_docsize")
    return f"{quoted(recipe.source)} WHERE {key} > ? AND {key} NOT IN (SELECT id FROM {sizes})"
