"""What a lean capture is asked for: recipes of the layout, and what was found out before.

Plain values, so that a layout can hold them, a memory can compare them and a helper process can be
sent them without anything of SQLite being loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from ...records import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a layout knows of one derived table; every statement must be there as written."""

    table: str
    statement: str
    source: str
    key: str  # the source's rowid column
    columns: Mapping[str, str]  # column of the table -> expression over the source's row
    triggers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeanRequest:
    """That a database is to be captured without what can be rebuilt.

    `compared` says for which schema the text of a table was compared with its source before, by table:
    there only the sets of rows are compared again. With another `period` that does not count any more.
    `filling` says that rows may still be missing in the tables of recipes: they are being filled.
    """

    recipes: tuple[Recipe, ...] = ()
    compared: Mapping[str, str] = field(default_factory=dict)
    period: int = 0
    filling: bool = False

    def as_dict(self) -> dict[str, object]:
        return {
            "recipes": [asdict(one) for one in self.recipes],
            "compared": dict(self.compared),
            "period": self.period,
            "filling": self.filling,
        }


def lean_request_from(fields: Mapping[str, Any] | None) -> LeanRequest | None:
    """The request out of what `as_dict` gave; ours, so it is not checked."""
    if fields is None:
        return None
    recipes = tuple(Recipe(**{**one, "triggers": tuple(one["triggers"])}) for one in fields["recipes"])
    return LeanRequest(recipes, fields["compared"], fields["period"], fields["filling"])


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def rebuild_statement(recipe: Recipe) -> str:
    """Fills the table from its source. Good at any later time too: rows that it has stay as they are."""
    table, origin, key = quoted(recipe.table), quoted(recipe.source), quoted(recipe.key)
    names = ", ".join(quoted(column) for column in recipe.columns)
    values = ", ".join(recipe.columns.values())
    return (
        f"INSERT INTO {table}(rowid, {names}) SELECT {key}, {values} FROM {origin}"
        f" WHERE {key} NOT IN (SELECT id FROM {quoted(recipe.table + '_docsize')}) ORDER BY {key}"
    )
