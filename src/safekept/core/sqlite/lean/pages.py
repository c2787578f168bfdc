"""Which pages of a database hold what cannot be rebuilt.

Found from the side that matters: every page that a b-tree to be *kept* can reach. A page that none of
them reaches holds no row of theirs, so leaving the rest out loses nothing, and the derived pages, three
quarters of a real database, need not even be read. It rests on one thing, that each kept b-tree was
walked to its end; whatever is odd on the way raises NotLean, and the database is captured in full.

SQLite's own `dbstat` does the walk where it is compiled in; else the pages are walked here.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...records import dataclass
from ..format import CORRUPT, NOTADB, error_code, page_size_of

if TYPE_CHECKING:
    import sqlite3

LOCK_BYTE = 1 << 30
_SCHEMA = "sqlite_schema"
_INTERIOR, _LEAF = (2, 5), (10, 13)
_TABLE_LEAF, _TABLE_INTERIOR = 13, 5

ReadPage = Callable[[int], bytes]


class NotLean(Exception):
    """Why a database, or a table of it, has to be captured in full."""


class PageDamaged(NotLean):
    """It cannot be read as a database should be: a caller has it checked at once."""


def refusal(what: str, error: sqlite3.Error) -> NotLean:
    """What to raise where SQLite could not answer."""
    kind = PageDamaged if error_code(error) in (CORRUPT, NOTADB) else NotLean
    return kind(f"{what}: {error}")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the first page says of the file."""

    page_size: int
    reserved: int
    pages: int
    first_trunk: int
    free: int
    auto_vacuum: bool

    @property
    def usable(self) -> int:
        return self.page_size - self.reserved

    @property
    def lock_page(self) -> int:
        """The one page that SQLite never uses."""
        return LOCK_BYTE // self.page_size + 1

    def pointer_maps(self) -> Iterator[int]:
        """The pages that say, in an auto-vacuum database, who refers to each page."""
        if not self.auto_vacuum:
            return
        for number in range(2, self.pages + 1, self.usable // 5 + 1):
            yield number + 1 if number == self.lock_page else number

    def pointer_of(self, page: int) -> tuple[int, int]:
        """Where the entry of a page is: the page that holds it, and the offset there."""
        span = self.usable // 5 + 1
        base = (page - 2) // span * span + 2
        holder = base + 1 if base == self.lock_page else base
        return holder, 5 * (page - holder - 1)


def shape_of(first: bytes, size: int) -> Shape:
    if len(first) < 100:
        raise NotLean("it has no header")
    page_size, reserved = page_size_of(first), first[20]
    first_trunk, free = struct.unpack_from(">II", first, 32)
    largest_root = struct.unpack_from(">I", first, 52)[0]
    if page_size < 512 or size % page_size or size < page_size:
        raise NotLean("its size is not a number of pages")
    return Shape(page_size, reserved, size // page_size, first_trunk, free, largest_root != 0)


def free_pages(shape: Shape, read: ReadPage) -> bytearray:
    """The pages on the free list, marked 1 in a byte per page (index 0 is unused)."""
    marked = bytearray(shape.pages + 1)
    trunk, found = shape.first_trunk, 0
    while trunk:
        if not 2 <= trunk <= shape.pages or marked[trunk]:
            raise PageDamaged("its free list is damaged")
        marked[trunk] = 1
        found += 1
        page = read(trunk)
        following, count = struct.unpack_from(">II", page)
        if count > shape.usable // 4 - 2:
            raise PageDamaged("its free list is damaged")
        for leaf in struct.unpack_from(f">{count}I", page, 8):
            if not 2 <= leaf <= shape.pages or marked[leaf]:
                raise PageDamaged("its free list is damaged")
            marked[leaf] = 1
        found += count
        trunk = following
    if found != shape.free:
        raise PageDamaged("its free list is damaged")
    return marked


def kept_pages(
    connection: sqlite3.Connection, shape: Shape, read: ReadPage, kept: Sequence[tuple[str, int]]
) -> bytearray:
    """Every page that the schema and the b-trees named in `kept` (name, root) reach, marked 1."""
    marked = bytearray(shape.pages + 1)
    if has_dbstat(connection):
        found: Iterable[Iterable[int]] = (
            _by_dbstat(connection, name, root) for name, root in ((_SCHEMA, 1), *kept)
        )
    else:
        found = (_by_walking(shape, read, root) for root in (1, *(root for _, root in kept)))
    for pages in found:
        for page in pages:
            if not 1 <= page <= shape.pages or marked[page]:
                raise PageDamaged(f"page {page} belongs to two tables, or lies beyond the end")
            marked[page] = 1
    return marked


def has_dbstat(connection: sqlite3.Connection) -> bool:
    import sqlite3

    with contextlib.suppress(sqlite3.Error):
        connection.execute("SELECT 1 FROM dbstat LIMIT 0")
        return True
    return False


def _by_dbstat(connection: sqlite3.Connection, name: str, root: int) -> list[int]:
    rows = connection.execute("SELECT pageno, pagetype FROM dbstat WHERE name = ? AND aggregate = 0", (name,))
    pages: list[int] = []
    for page, kind in rows:
        if kind == "corrupted":
            raise PageDamaged(f"page {page} of `{name}` is damaged")
        pages.append(page)
    if root not in pages[:1]:
        raise NotLean(f"SQLite cannot say which pages `{name}` has")
    return pages


def _by_walking(shape: Shape, read: ReadPage, root: int) -> Iterator[int]:
    left = [root]
    steps = 0
    while left:
        number = left.pop()
        steps += 1
        if not 1 <= number <= shape.pages or steps > shape.pages:
            raise PageDamaged(f"the tree of page {root} is damaged")
        yield number
        page = read(number)
        try:
            children, chains = _references(page, 100 if number == 1 else 0, shape.usable)
        except (struct.error, IndexError) as error:
            raise PageDamaged(f"page {number} is damaged") from error
        left += children
        for first, pages in chains:
            following = first
            for _ in range(pages):
                if not 2 <= following <= shape.pages:
                    raise PageDamaged(f"an overflow chain of page {number} is damaged")
                yield following
                following = struct.unpack_from(">I", read(following))[0]
            if following:
                raise PageDamaged(f"an overflow chain of page {number} is damaged")


def _references(page: bytes, start: int, usable: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The children of a b-tree page, and the overflow chains of its cells: first page, and how many."""
    kind = page[start]
    interior = kind in _INTERIOR
    if not interior and kind not in _LEAF:
        raise IndexError
    count = struct.unpack_from(">H", page, start + 3)[0]
    table = kind in (_TABLE_LEAF, _TABLE_INTERIOR)
    largest = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    smallest = (usable - 12) * 32 // 255 - 23
    children, chains = [], []
    for cell in struct.unpack_from(f">{count}H", page, start + (12 if interior else 8)):
        at = cell
        if interior:
            children.append(struct.unpack_from(">I", page, at)[0])
            at += 4
            if table:
                continue
        payload, at = _number(page, at)
        if payload <= largest:
            continue
        if kind == _TABLE_LEAF:
            _, at = _number(page, at)
        local = smallest + (payload - smallest) % (usable - 4)
        local = local if local <= largest else smallest
        first = struct.unpack_from(">I", page, at + local)[0]
        chains.append((first, -(-(payload - local) // (usable - 4))))
    if interior:
        children.append(struct.unpack_from(">I", page, start + 8)[0])
    return children, chains


def _number(page: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    value = 0
    for index in range(8):
        byte = page[at + index]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + index + 1
    return value << 8 | page[at + 8], at + 9
