"""Every restored database as SQLite sees it: its pages, its keys, its full-text indexes, its tables.

The full `integrity_check`, not the quick one: a drill is the time for it. All of it happens on the
restored copy, which may be opened in any way and is thrown away.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener
from safekept.core.records import dataclass
from safekept.core.sqlite import is_database
from safekept.core.sqlite.check import examine_aloud
from safekept.core.sqlite.format import CORRUPT, NOTADB, connect, error_code

from ..receipts import LEFT_OUT, UNKNOWN
from .restored import Findings, Problems, RestoredHome, named, plural

if TYPE_CHECKING:
    import sqlite3

DATABASES, KEYS, FULL_TEXT, TABLES = "databases", "foreign keys", "full-text", "tables"

_FULL_TEXT = re.compile(r"\bUSING\s+[\"'`\[]?(fts[345])", re.IGNORECASE)
#: How newer SQLite tells of a full-text index inside `integrity_check`.
_OF_AN_INDEX = re.compile(r"inverted index for FTS|fts[345] table", re.IGNORECASE)
_MOST_KEYS = 1000


@dataclass(slots=True)
class _Seen:
    """What was found in all databases, by row."""

    databases: int = 0
    indexes: int = 0
    expecting: int = 0
    damaged: Problems = field(default_factory=list)
    undecided: Problems = field(default_factory=list)
    keys: Problems = field(default_factory=list)
    full_text: Problems = field(default_factory=list)
    unknown_text: Problems = field(default_factory=list)
    tables: Problems = field(default_factory=list)


def prove_databases(restored: RestoredHome, findings: Findings, listener: Listener) -> None:
    """The rows `databases`, `foreign keys`, `full-text` and `tables`."""
    seen = _Seen()
    for path in restored.files():
        if not restored.there(path):
            continue
        with restored.open(path) as file:
            head = file.read(16)
        if is_database(head):
            listener(Event("check", seen.databases, unit="databases", path=path))
            seen.databases += 1
            _look(restored, path, restored.full(path), seen, listener)
        elif restored.layout.database(path):
            seen.databases += 1
            seen.damaged.append((path, _no_database(restored, path)))
    if not seen.databases:
        for check in (DATABASES, KEYS, FULL_TEXT, TABLES):
            findings.nothing(check, restored)
        return
    _rows(seen, findings, sum(restored.layout.database(path) for path in restored.lost))


def _no_database(restored: RestoredHome, path: str) -> str:
    size = os.path.getsize(restored.full(path))
    if not size:
        return "should be a database and is empty"
    with restored.open(path) as file:
        zeros = not file.read(1 << 20).strip(b"\0")
    return f"should be a database and is {size:,} bytes of {'zeros' if zeros else 'something else'}"


def _look(restored: RestoredHome, path: str, full: str, seen: _Seen, listener: Listener) -> None:
    import sqlite3

    os.chmod(full, 0o600)  # its mode was proven before; a read-only copy could not be asked everything
    expected = restored.layout.tables_of(path)
    seen.expecting += bool(expected)

    def tell(done: int, total: int) -> None:
        listener(Event("check", done, total, path=path))

    try:
        with contextlib.closing(connect(full, "mode=rw", timeout=5.0, only_look=True)) as connection:
            state, detail = examine_aloud(connection, "integrity_check", os.path.getsize(full), tell)
            lines = [line for line in detail.strip().splitlines() if not line.startswith("***")]
            index_only = bool(lines) and all(_OF_AN_INDEX.search(line) for line in lines)
            if state == "damaged" and not index_only:
                recorded = _recorded_damaged(restored, path)
                seen.damaged.append((path, (lines[0] if lines else "is damaged") + recorded))
                return
            if state == "unverified":
                seen.undecided.append((path, detail or "could not be checked"))
            _keys(connection, path, seen)
            _full_text(connection, path, seen)
            _tables(connection, path, expected, seen)
    except sqlite3.Error as error:
        if error_code(error) in (CORRUPT, NOTADB):
            seen.damaged.append((path, str(error)))
        else:
            seen.undecided.append((path, str(error)))


def _recorded_damaged(restored: RestoredHome, path: str) -> str:
    databases = (restored.manifest or {}).get("databases")
    facts = databases.get(path) if isinstance(databases, dict) else None
    known = isinstance(facts, dict) and facts.get("state") == "damaged"
    return " (it was damaged already when it was stored)" if known else ""


def _keys(connection: sqlite3.Connection, path: str, seen: _Seen) -> None:
    import sqlite3

    try:
        rows = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_KEYS)
    except sqlite3.Error as error:
        seen.keys.append((path, str(error)))
        return
    if rows:
        table, _, parent, _ = rows[0]
        many = f"{len(rows):,}" if len(rows) < _MOST_KEYS else f"{_MOST_KEYS:,} or more"
        noun = "row refers" if len(rows) == 1 else "rows refer"
        seen.keys.append((path, f"{many} {noun} to nothing, such as one of `{table}` to `{parent}`"))


def _full_text(connection: sqlite3.Connection, path: str, seen: _Seen) -> None:
    import sqlite3

    created = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL AND rootpage = 0"
    ).fetchall()
    for name, sql in created:
        match = _FULL_TEXT.search(sql)
        if match is None:
            continue
        seen.indexes += 1
        quoted = '"' + str(name).replace('"', '""') + '"'
        # The rank asks a table with content elsewhere to be held against that content, too.
        insert = f"INSERT INTO {quoted}({quoted}, rank) VALUES('integrity-check', 1)"
        if match[1].lower() != "fts5":
            insert = f"INSERT INTO {quoted}({quoted}) VALUES('integrity-check')"
        try:
            connection.execute(insert)
        except sqlite3.Error as error:
            where = f"{path}: {name}"
            if error_code(error) == CORRUPT and _sound_in_itself(connection, str(name)):
                continue
            if error_code(error) == CORRUPT:
                seen.full_text.append((where, "the index is out of step with its text"))
            else:
                # A tokenizer that only the agent brings along, for example.
                seen.unknown_text.append((where, str(error)))


def _sound_in_itself(connection: sqlite3.Connection, name: str) -> bool:
    """Whether it is an index that Hermes 0.20 and 0.21 keep: over text of which they index a part only, so
    that FTS5, holding it against all of it, calls a sound one corrupt. It is held against itself alone."""
    import sqlite3

    try:
        layout = "SELECT value FROM state_meta WHERE key = 'fts_storage_version'"
        known = connection.execute(layout).fetchone() in (("1",), ("2",))
        if not known or not name.startswith("messages_fts"):
            return False
        connection.execute(f'INSERT INTO "{name}"("{name}") VALUES(\'integrity-check\')')
    except sqlite3.Error:
        return False
    return True


def _tables(connection: sqlite3.Connection, path: str, expected: tuple[str, ...], seen: _Seen) -> None:
    there = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    missing = [f"`{name}`" for name in expected if name not in there]
    if missing:
        seen.tables.append((path, f"has no table {' and no table '.join(missing)}"))


def _rows(seen: _Seen, findings: Findings, lost: int) -> None:
    sound = seen.databases - len(seen.damaged)
    if seen.undecided and not seen.damaged:
        findings.add(DATABASES, UNKNOWN, seen.databases, named(seen.undecided))
    else:
        text = f"{plural(seen.databases, 'database')} passed the full integrity check"
        text += f"; {lost} did not come back" if lost else ""
        findings.judge(DATABASES, seen.databases, seen.damaged, text, "database")
    if sound <= 0:
        for check in (KEYS, FULL_TEXT, TABLES):
            findings.add(check, UNKNOWN, 0, "no database could be asked")
        return
    findings.judge(KEYS, sound, seen.keys, "every row that refers to another finds it", "database")
    if seen.full_text:
        findings.judge(FULL_TEXT, seen.indexes, seen.full_text, "", "index")
    elif seen.unknown_text:
        findings.add(FULL_TEXT, UNKNOWN, seen.indexes, named(seen.unknown_text))
    elif seen.indexes:
        findings.judge(FULL_TEXT, seen.indexes, [], "every full-text index agrees with its text", "index")
    else:
        findings.add(FULL_TEXT, LEFT_OUT, 0, "there are no full-text indexes")
    if seen.expecting:
        findings.judge(TABLES, seen.expecting, seen.tables, "the tables that the agent needs", "database")
    else:
        findings.add(TABLES, LEFT_OUT, 0, "the layout expects no tables of them")
