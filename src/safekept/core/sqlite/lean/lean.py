"""Lean capture: what cannot be rebuilt, as one database that any SQLite opens.

`lean` lays a lean image over a pinned database where there is something to leave out, and says what was
left out, how it is rebuilt, and a few searches whose answers a rebuilt index must give again.
`rebuild` makes the indexes of a restored file again and proves them: FTS's own integrity check, then the
recorded searches.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...records import dataclass
from ..hold.pinned import Pinned
from .image import LeanImage
from .pages import NotLean, PageDamaged, refusal
from .request import LeanRequest, quoted
from .tables import WORD, Derived, derived_tables, in_step

if TYPE_CHECKING:
    import sqlite3

#: So many words of the text are searched for at a capture and again after a rebuild.
PROBES = 4


class NotRebuilt(Exception):
    """A rebuilt index does not give what was recorded; which, and how."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One search and what it found: so many rows, whose rowids add up to that."""

    word: str
    rows: int
    total: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One table that was left out."""

    table: str
    source: str
    rebuild: tuple[str, ...]
    probes: tuple[Probe, ...]
    schema: str = ""  # a mark of the schema for which the text of all rows was compared, now or before


@dataclass(frozen=True, slots=True)
class LeanFacts:
    """What a lean capture left out, and what it kept although it is a full-text table."""

    bytes: int
    tables: tuple[LeftOut, ...]
    kept: tuple[tuple[str, str], ...] = ()  # table, reason
    compared: bool = False  # whether every row's text was compared this time, not only which rows there are
    stale: tuple[str, ...] = ()  # left out, and damaged or out of step in the home: a restore repairs them
    damaged: bool = False  # a page could not be understood: the database has to be checked now

    def as_dict(self) -> dict[str, object]:
        facts = asdict(self)
        del facts["damaged"]  # the check says more, and is what is kept
        return facts


def read_facts(fields: Mapping[str, object]) -> LeanFacts:
    """LeanFacts out of a manifest. Raises ValueError, KeyError or TypeError where it is none."""
    tables = []
    for one in _items(fields["tables"]):
        probes = tuple(
            Probe(str(probe["word"]), int(str(probe["rows"])), int(str(probe["total"])))
            for probe in _items(one.get("probes", ()))
        )
        rebuild = one["rebuild"]
        if not isinstance(rebuild, list | tuple) or not all(isinstance(text, str) for text in rebuild):
            raise TypeError("the statements of a rebuild are not text")
        schema = str(one.get("schema", ""))
        tables.append(LeftOut(str(one["table"]), str(one["source"]), tuple(rebuild), probes, schema))
    kept = fields.get("kept", ())
    pairs = tuple((str(pair[0]), str(pair[1])) for pair in kept) if isinstance(kept, list | tuple) else ()
    stale = fields.get("stale", ())
    names = tuple(str(name) for name in stale) if isinstance(stale, list | tuple) else ()
    return LeanFacts(int(str(fields["bytes"])), tuple(tables), pairs, bool(fields.get("compared")), names)


def _items(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, Mapping) for one in value):
        raise TypeError("not a list of objects")
    return value


def lean(pinned: Pinned, request: LeanRequest) -> tuple[Pinned, LeanFacts]:
    """The pinned database without its derived tables; itself, where nothing can be left out.

    The text of every row is compared with its source first, unless that was done for this very schema.
    """
    import sqlite3

    connection = pinned.connection
    if connection is None or pinned.trouble:
        return pinned, LeanFacts(0, ())
    try:
        found, refused = derived_tables(connection, request.recipes, request.filling)
        schema = _schema_mark(connection, request)
        unknown = [one for one in found if request.compared.get(one.table) != schema]
        odd = [one.table for one in unknown if not _same_content(connection, one, refused)]
        compared = [one for one in found if one.table not in odd and not one.lacking]
        answers = {one.table: _in_step(connection, one) for one in compared}
        damaged = None in answers.values()
        stale = [one for one in found if one.table not in odd and (one.lacking or not answers[one.table])]
        # What such an index says that its source does not may be meant so, unless its text is known.
        odd += [one.table for one in stale if not one.columns]
        refused += [(one.table, f"it is out of step with `{one.source}`") for one in stale if not one.columns]
        found = [one for one in found if one.table not in odd]
        if not found:
            return pinned, LeanFacts(0, (), tuple(refused), damaged=damaged)
        image = LeanImage(pinned, [one.emptied for one in found])
    except NotLean as error:
        return pinned, LeanFacts(0, (), (("", str(error)),), damaged=isinstance(error, PageDamaged))
    except sqlite3.Error as error:
        odd_one = refusal("SQLite", error)
        return pinned, LeanFacts(0, (), (("", str(odd_one)),), damaged=isinstance(odd_one, PageDamaged))
    left = tuple(
        LeftOut(
            one.table,
            one.source,
            one.rebuild,
            () if one in stale else tuple(_probes(connection, one)),
            schema,
        )
        for one in found
    )
    names = tuple(one.table for one in stale if one in found and not one.lacking)
    return image, LeanFacts(image.left_out, left, tuple(refused), bool(unknown), names, damaged)


def _in_step(connection: sqlite3.Connection, derived: Derived) -> bool | None:
    """None: the index or its source is damaged; which of them, a check says."""
    import sqlite3

    try:
        return in_step(connection, derived)
    except sqlite3.Error as error:
        return None if isinstance(refusal("", error), PageDamaged) else False
    except OverflowError:
        return False


def _schema_mark(connection: sqlite3.Connection, request: LeanRequest) -> str:
    """Changes with any statement of the schema, with any recipe and with the period."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()
    text = repr((rows, request.recipes, request.period))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _same_content(connection: sqlite3.Connection, derived: Derived, refused: list[tuple[str, str]]) -> bool:
    import sqlite3

    if not derived.content:
        return True
    try:
        odd = connection.execute(derived.content).fetchone()[0]
    except sqlite3.Error as error:
        why = refusal(f"its text cannot be compared with `{derived.source}`", error)
        if isinstance(why, PageDamaged):
            raise why from error
        refused.append((derived.table, str(why)))
        return False
    if odd:
        refused.append((derived.table, f"the text of {odd} rows is not what `{derived.source}` would give"))
    return not odd


def _probes(connection: sqlite3.Connection, derived: Derived) -> list[Probe]:
    """Searches for words out of rows spread over the source; none where the index cannot be read."""
    import sqlite3

    probes: list[Probe] = []
    source = quoted(derived.source)
    try:
        least, most = connection.execute(f"SELECT min(rowid), max(rowid) FROM {source}").fetchone()
        if least is None:
            return []
        words = set()
        for step in range(PROBES * 2):
            at = least + (most - least) * step // (PROBES * 2 - 1)
            row = connection.execute(f"SELECT * FROM {source} WHERE rowid >= ? LIMIT 1", (at,)).fetchone()
            texts = [value for value in row or () if isinstance(value, str)]
            found = [word for text in texts for word in WORD.findall(text[:4000])]
            if found:
                words.add(max(found[:50], key=len))
        for word in sorted(words)[:PROBES]:
            probes.append(Probe(word, *_search(connection, derived.table, word)))
    except (sqlite3.Error, OverflowError):
        return []
    return probes


def _search(connection: sqlite3.Connection, table: str, word: str) -> tuple[int, int]:
    name = quoted(table)
    row = connection.execute(
        f"SELECT count(*), coalesce(sum(rowid % 1000003), 0) FROM {name} WHERE {name} MATCH ?", (f'"{word}"',)
    ).fetchone()
    return int(row[0]), int(row[1])


def rebuild(
    connection: sqlite3.Connection, facts: LeanFacts, progress: Callable[[str], None] = lambda _: None
) -> None:
    """Fill the left-out tables of a restored database, in one transaction each, and prove them.

    Raises NotRebuilt, or sqlite3.Error; the table at hand is then as empty as it was.
    """
    for one in facts.tables:
        progress(one.table)
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(f"SELECT * FROM {quoted(one.table)} LIMIT 0")  # now SQLite has it open
            # The statements come out of a manifest, which may be forged.
            connection.set_authorizer(_only_into(one.table))
            with _filling(connection, one.table):
                for statement in one.rebuild:
                    connection.execute(statement)
            _prove(connection, one)
        except BaseException:
            connection.set_authorizer(None)
            if connection.in_transaction:  # a full disk ends it by itself
                connection.execute("ROLLBACK")
            raise
        connection.set_authorizer(None)
        connection.execute("COMMIT")


#: While a table is filled, FTS5 merges its pieces late: half the time of the trigram index of a real home.
_WHILE_FILLING = (("automerge", 0), ("crisismerge", 64))


@contextlib.contextmanager
def _filling(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    """Settings for the time of filling; afterwards the table has its own again."""
    name, config = quoted(table), quoted(table + "_config")
    own = connection.execute(f"SELECT k, v FROM {config}").fetchall()
    for setting in _WHILE_FILLING:
        connection.execute(f"INSERT INTO {name}({name}, rank) VALUES(?, ?)", setting)
    yield
    connection.execute(f"DELETE FROM {config}")
    connection.executemany(f"INSERT INTO {config}(k, v) VALUES(?, ?)", own)


def _only_into(table: str) -> Callable[..., int]:
    """Lets a statement read whatever it likes, and write into one virtual table and its shadows."""
    import sqlite3

    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
    writing = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)

    def judge(action: int, first: str | None, second: str | None, *_: object) -> int:
        if action in reading or action == sqlite3.SQLITE_SAVEPOINT:
            return sqlite3.SQLITE_OK
        if action in writing and first is not None and (first == table or first.startswith(table + "_")):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and second not in ("load_extension", "fts3_tokenizer"):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and first == "data_version":
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return judge


def _prove(connection: sqlite3.Connection, one: LeftOut) -> None:
    import sqlite3

    name = quoted(one.table)
    try:
        connection.execute(f"INSERT INTO {name}({name}) VALUES('integrity-check')")
    except sqlite3.DatabaseError as error:
        raise NotRebuilt(f"`{one.table}` fails its own check after the rebuild: {error}") from error
    for probe in one.probes:
        found = _search(connection, one.table, probe.word)
        if found != (probe.rows, probe.total):
            raise NotRebuilt(
                f"a search in `{one.table}` finds {found[0]} rows after the rebuild, "
                f"and found {probe.rows} when it was stored"
            )
