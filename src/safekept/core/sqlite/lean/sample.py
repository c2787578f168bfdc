"""Whether an index knows what its source says: a few rows, indexed anew in memory and held against it.

The sets of rows say nothing of what was indexed for them. A sample costs hundredths of a second, so it
is taken at each capture: an index that fell out of step would give other answers after a rebuild.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .request import quoted

if TYPE_CHECKING:
    import sqlite3

    from .tables import Derived

#: So many rows, spread over the source.
_ROWS = 32
#: Of each row so many words are searched for.
_WORDS = 2
WORD = re.compile(r"[A-Za-z0-9À-ɏ぀-ヿ一-鿿]{4,24}")


def in_step(connection: sqlite3.Connection, derived: Derived) -> bool:
    """Whether the sample is in the index as it would be made now. Raises sqlite3.Error."""
    import sqlite3

    scratch = sqlite3.connect(":memory:", isolation_level=None)
    try:
        scratch.execute(derived.emptied.statement)
        name = quoted(derived.table)
        columns = [str(row[1]) for row in scratch.execute(f"PRAGMA table_info({name})")]
        asked: list[tuple[int, str]] = []
        for rowid, *values in _sample(connection, derived, columns):
            marks = ", ".join("?" * (len(columns) + 1))
            names = ", ".join(quoted(column) for column in columns)
            scratch.execute(f"INSERT INTO {name}(rowid, {names}) VALUES({marks})", (rowid, *values))
            texts = [value for value in values if isinstance(value, str)]
            words = {word for text in texts for word in WORD.findall(text[:4000])[:50]}
            asked += [(rowid, word) for word in sorted(words, key=len)[-_WORDS:]]
        return _sizes(scratch, derived) == _sizes(connection, derived, _rowids(scratch, derived)) and all(
            _finds(scratch, name, word, rowid) == _finds(connection, name, word, rowid)
            for rowid, word in asked
        )
    finally:
        scratch.close()


def _sample(
    connection: sqlite3.Connection, derived: Derived, columns: list[str]
) -> list[tuple[int, *tuple[object, ...]]]:
    source = quoted(derived.source)
    key = "rowid" if derived.key == "rowid" else quoted(derived.key)
    wanted = [derived.columns.get(column, quoted(column)) for column in columns]
    least, most = connection.execute(f"SELECT min({key}), max({key}) FROM {source}").fetchone()
    if least is None:
        return []
    found = {}
    for step in range(_ROWS):
        at = least + (most - least) * step // (_ROWS - 1)
        row = connection.execute(
            f"SELECT {key}, {', '.join(wanted)} FROM {source} WHERE {key} >= ? ORDER BY {key} LIMIT 1", (at,)
        ).fetchone()
        if row is not None:
            found[row[0]] = row
    return list(found.values())


def _rowids(scratch: sqlite3.Connection, derived: Derived) -> list[int]:
    return [row[0] for row in scratch.execute(f"SELECT id FROM {quoted(derived.table + '_docsize')}")]


def _sizes(
    connection: sqlite3.Connection, derived: Derived, rowids: list[int] | None = None
) -> list[tuple[int, bytes]]:
    """How many words of each column were counted, by row."""
    sizes = quoted(derived.table + "_docsize")
    only = "" if rowids is None else f" WHERE id IN ({', '.join(str(int(one)) for one in rowids)})"
    return connection.execute(f"SELECT id, sz FROM {sizes}{only} ORDER BY id").fetchall()


def _finds(connection: sqlite3.Connection, name: str, word: str, rowid: int) -> bool:
    query = f"SELECT 1 FROM {name} WHERE {name} MATCH ? AND rowid = ?"
    return connection.execute(query, (f'"{word}"', rowid)).fetchone() is not None
