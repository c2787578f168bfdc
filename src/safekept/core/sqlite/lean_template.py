"""What an empty index looks like, as SQLite itself makes it.

An index is not empty when its b-trees are: FTS5 keeps a structure record, and a current
`integrity_check` asks for it. So the empty root pages are taken from a scratch database in memory, made
with the same statement, page size and text encoding. A page of a b-tree does not name itself, so it can
stand at any place of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .lean_pages import NotLean

if TYPE_CHECKING:
    import sqlite3


def empty_roots(
    connection: sqlite3.Connection, page_size: int, statement: str, trees: Sequence[str]
) -> dict[str, bytes]:
    """The root page of each of these b-trees right after `statement` made their table.

    Raises NotLean where this SQLite cannot make it: a tokenizer of the application's own, say.
    """
    import sqlite3

    encoding = str(connection.execute("PRAGMA encoding").fetchone()[0])
    if encoding not in ("UTF-8", "UTF-16le", "UTF-16be"):
        raise NotLean(f"its text encoding is {encoding}")
    scratch = sqlite3.connect(":memory:", isolation_level=None)
    try:
        scratch.execute(f"PRAGMA page_size = {int(page_size)}")
        scratch.execute(f"PRAGMA encoding = '{encoding}'")
        scratch.execute(statement)
        roots = dict(scratch.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))
        image = scratch.serialize()
    except sqlite3.Error as error:
        raise NotLean(f"this SQLite cannot make an empty one: {error}") from error
    finally:
        scratch.close()
    pages = {}
    for tree in trees:
        root = roots.get(tree)
        if root is None:
            raise NotLean(f"`{tree}` is not part of an empty one")
        page = image[(root - 1) * page_size : root * page_size]
        if len(page) != page_size or page[0] not in (10, 13):
            raise NotLean(f"an empty `{tree}` has more than one page")
        pages[tree] = page
    return pages
