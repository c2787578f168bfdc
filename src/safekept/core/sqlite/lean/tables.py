"""Which tables of a database are derived: only what can be proven, each with the way to rebuild it.

Two kinds. A full-text table with external content (`content=SOURCE`), whose rows are its source's by
definition: FTS's own `rebuild` makes it again. And a table that a recipe of the layout knows: the
statement that makes it, every trigger that feeds it and the expression it is filled with, word for
word. Rows that its source does not have, or the reverse, and it is not derived: it was written by hand.

Whatever does not fit exactly is kept, and why is reported. Nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ...records import dataclass
from .image import Emptied
from .pages import NotLean, PageDamaged, refusal
from .request import Recipe, quoted, rebuild_statement

if TYPE_CHECKING:
    import sqlite3


#: The b-trees that FTS fills from the text; its settings (`_config`) are the user's and are kept.
TREES = ("_data", "_idx", "_content", "_docsize")
_MODULE = re.compile(r"CREATE\s+VIRTUAL\s+TABLE\s+.*?\s+USING\s+(fts[45])\s*\((.*)\)\s*$", re.I | re.S)
_OPTION = re.compile(r"^\s*(\w+)\s*=\s*(.*?)\s*$", re.S)


@dataclass(frozen=True, slots=True)
class Derived:
    """A table that need not be stored."""

    emptied: Emptied
    source: str
    key: str  # the source's column with the rowid
    content: str  # counts rows whose content differs from what a rebuild would make; "" where unknown
    rebuild: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)  # of a recipe: what each is filled with
    lacking: int = 0  # rows of the source that are still to be filled in

    @property
    def table(self) -> str:
        return self.emptied.table


def same_words(statement: str) -> str:
    """A statement without the differences that mean nothing: space, and what SQLite drops."""
    bare = re.sub(r"\bIF\s+NOT\s+EXISTS\s+", "", statement, flags=re.I)
    return re.sub(r"\s*([(),;])\s*", r"\1", re.sub(r"\s+", " ", bare)).strip(" ;")


class _Schema:
    """What a database consists of, by name."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
        self.tables = {name: sql for kind, name, _, sql in rows if kind == "table" and sql}
        self.trees = [name for kind, name, _, _ in rows if kind in ("table", "index")]
        self.owners = {name: table for kind, name, table, _ in rows if kind == "index"}
        self.triggers = {name: sql for kind, name, _, sql in rows if kind == "trigger"}

    def known(self, recipe: Recipe) -> Derived:
        """The table of a recipe. Raises NotLean where it is not there exactly as it is known."""
        statement = self.tables.get(recipe.table)
        if statement is None:
            raise NotLean("it is not there")
        shadows = _shadows(recipe.table, self.trees, self.owners)
        return _by_recipe(recipe, statement, self.tables, self.triggers, shadows)


def known_table(connection: sqlite3.Connection, recipe: Recipe) -> Derived:
    """The table of a recipe. Raises NotLean where it is not there exactly as it is known."""
    return _Schema(connection).known(recipe)


def holds_its_text(recipe: Recipe) -> bool:
    """Whether it is one of FTS5 with the text in it, and not one over the text of another table."""
    match = _MODULE.match(same_words(recipe.statement))
    return match is not None and match[1].lower() == "fts5" and "content" not in _options(match[2])


def derived_tables(
    connection: sqlite3.Connection, recipes: Sequence[Recipe] = (), filling: bool = False
) -> tuple[list[Derived], list[tuple[str, str]]]:
    """The derived tables, and the full-text tables that are not, with the reason.

    While tables of recipes are being filled, rows that they still lack are no change.
    """
    schema = _Schema(connection)
    known = {recipe.table: recipe for recipe in recipes}
    found: list[Derived] = []
    refused: list[tuple[str, str]] = []
    for name, statement in schema.tables.items():
        match = _MODULE.match(statement)
        if match is None:
            continue
        module, options = match[1].lower(), _options(match[2])
        try:
            if module == "fts4":
                raise NotLean("an emptied FTS4 index fails the integrity check of a current SQLite")
            if name in known:
                one = schema.known(known[name])
            else:
                shadows = _shadows(name, schema.trees, schema.owners)
                one = _external(name, statement, options, schema.tables, shadows)
            one = _compare_rows(connection, one, filling and name in known)
        except PageDamaged:
            raise
        except NotLean as error:
            refused.append((name, str(error)))
        else:
            found.append(one)
    return found, refused


def _options(text: str) -> dict[str, str]:
    """The options among the arguments of a virtual table, unquoted."""
    options = {}
    for part in _arguments(text):
        match = _OPTION.match(part)
        if match is not None:
            value = match[2]
            if len(value) >= 2 and value[0] in "'\"[`":
                value = value[1:-1].replace(value[0] * 2, value[0])
            options[match[1].lower()] = value
    return options


def _arguments(text: str) -> Iterator[str]:
    depth, quote, start = 0, "", 0
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _shadows(name: str, trees: Sequence[str], owners: Mapping[str, str]) -> tuple[str, ...]:
    """The b-trees to empty: the shadow tables that are there, and the indexes that SQLite made on them."""
    wanted = {name + suffix for suffix in TREES}
    found = tuple(tree for tree in trees if tree in wanted or owners.get(tree) in wanted)
    odd = [tree for tree in found if tree in owners and not tree.startswith("sqlite_autoindex_")]
    if odd:
        raise NotLean(f"`{odd[0]}` is an index that another program put on it")
    if name + "_docsize" not in found:
        raise NotLean("it keeps no sizes, so its rows cannot be compared with their source")
    return found


def _by_recipe(
    recipe: Recipe,
    statement: str,
    tables: Mapping[str, str],
    triggers: Mapping[str, str],
    shadows: tuple[str, ...],
) -> Derived:
    if same_words(statement) != same_words(recipe.statement):
        raise NotLean("it was made in an unknown way")
    source = tables.get(recipe.source)
    if source is None or _MODULE.match(source):
        raise NotLean(f"its source `{recipe.source}` is not there")
    there = {same_words(sql) for sql in triggers.values()}
    mentions = re.compile(rf"\b{re.escape(recipe.table)}\b", re.I)
    feeding = {same_words(sql) for sql in triggers.values() if mentions.search(sql)}
    wanted = {same_words(sql) for sql in recipe.triggers}
    if wanted - there:
        raise NotLean("a trigger that feeds it is missing or was changed")
    if feeding - wanted:
        raise NotLean("an unknown trigger writes to it")
    origin, key = quoted(recipe.source), quoted(recipe.key)
    differs = " OR ".join(
        f"content.c{number} IS NOT ({expression})"
        for number, expression in enumerate(recipe.columns.values())
    )
    stored = quoted(recipe.table + "_content")
    return Derived(
        Emptied(recipe.table, statement, shadows),
        recipe.source,
        recipe.key,
        f"SELECT count(*) FROM {origin} AS source JOIN {stored} AS content"
        f" ON content.id = source.{key} WHERE {differs}",
        (rebuild_statement(recipe),),
        recipe.columns,
    )


def _external(
    name: str,
    statement: str,
    options: Mapping[str, str],
    tables: Mapping[str, str],
    shadows: tuple[str, ...],
) -> Derived:
    source = options.get("content")
    if source is None:
        raise NotLean("it holds its own text, of unknown origin")
    if not source:
        raise NotLean("its text is kept nowhere, so it cannot be rebuilt")
    if source not in tables or _MODULE.match(tables[source]):
        raise NotLean(f"its source `{source}` is not a table of this database")
    table = quoted(name)
    return Derived(
        Emptied(name, statement, shadows),
        source,
        options.get("content_rowid") or "rowid",
        "",
        (f"INSERT INTO {table}({table}) VALUES('rebuild')",),
    )


def _difference(connection: sqlite3.Connection, derived: Derived) -> tuple[int, int]:
    """How many rows the table lacks, and how many only it has."""
    source, sizes = quoted(derived.source), quoted(derived.table + "_docsize")
    key = "rowid" if derived.key == "rowid" else quoted(derived.key)

    def count(rest: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {rest}").fetchone()[0])

    missing = count(f"{source} WHERE {key} IS NULL OR {key} NOT IN (SELECT id FROM {sizes})")
    if _is_rowid(connection, derived):
        # Both sides are sets, so numbers tell the rest: looking each row up takes five times as long.
        return missing, count(sizes) - (count(source) - missing)
    return missing, count(f"{sizes} WHERE id NOT IN (SELECT {key} FROM {source})")


def _is_rowid(connection: sqlite3.Connection, derived: Derived) -> bool:
    """Whether no two rows of the source can have the same key."""
    if derived.key == "rowid":
        return True
    keys = connection.execute(
        "SELECT name, type FROM pragma_table_info(?) WHERE pk > 0", (derived.source,)
    ).fetchall()
    return [(name.lower(), kind.upper()) for name, kind in keys] == [(derived.key.lower(), "INTEGER")]


def _compare_rows(connection: sqlite3.Connection, derived: Derived, filling: bool) -> Derived:
    import sqlite3

    try:
        missing, more = _difference(connection, derived)
    except sqlite3.Error as error:
        raise refusal(f"its rows cannot be compared with `{derived.source}`", error) from error
    if filling and missing and not more:
        return replace(derived, lacking=missing)
    if odd := missing + more:
        rows = "row is" if odd == 1 else "rows are"
        raise NotLean(f"{odd} {rows} in it or in `{derived.source}`, but not in both")
    return derived


# Whether an index knows what its source says: a few rows, indexed again in memory and held against it.
# The sets of rows say nothing of what was indexed for them. A sample costs hundredths of a second, so it
# is taken at each capture: an index that fell out of step would give other answers after a rebuild.

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
