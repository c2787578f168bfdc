"""The lean image: a database with its derived indexes emptied, page for page where it was.

What is read is a valid SQLite file of the same size. The root of each emptied b-tree reads as SQLite
makes an empty one, the rest of its pages are on the free list and read as zeros, and everything else is
as it was. Nothing is copied: it lies over the pinned state, which is read as before.

The new trunk pages of the free list stand in front of the old ones and are chosen so that one day's
changes move few of them: each lists the free pages of a fixed span of the file.
"""

from __future__ import annotations

import bisect
import re
import struct
from array import array
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from ...records import dataclass
from ..hold.pinned import Pinned
from .pages import NotLean, PageDamaged, free_pages, kept_pages, shape_of

if TYPE_CHECKING:
    import sqlite3


# What an empty index looks like, as SQLite itself makes it. An index is not empty when its b-trees are:
# FTS5 keeps a structure record, and a current `integrity_check` asks for it. So the empty root pages are
# taken from a scratch database in memory, made with the same statement, page size and text encoding. A
# page of a b-tree does not name itself, so it can stand at any place of a file.


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


_FREE_PAGE = b"\x02\0\0\0\0"


@dataclass(frozen=True, slots=True)
class Emptied:
    """One virtual table whose b-trees are left out: the statement that makes it, and their names."""

    table: str
    statement: str
    trees: tuple[str, ...]


_ZEROS = memoryview(bytes(1 << 20))


def _zeros(length: int) -> memoryview | bytes:
    return _ZEROS[:length] if length <= len(_ZEROS) else bytes(length)


class LeanImage(Pinned):
    """A pinned database, seen with some of its b-trees emptied."""

    def __init__(self, below: Pinned, emptied: Sequence[Emptied]) -> None:
        """Find the pages. Raises NotLean; the pinned state is as usable as before."""
        super().__init__(below.name)
        if below.connection is None:
            raise NotLean("SQLite does not open it")
        self._below = below
        self.connection, self.trouble, self.remarks = below.connection, below.trouble, below.remarks
        self.size, self.mtime_ns = below.size, below.mtime_ns
        self.page_size, self.method = below.page_size, below.method
        self._shape = shape_of(below.read(0, 100), below.size)
        if self._shape.page_size != below.page_size or self._shape.reserved:
            raise NotLean("it keeps bytes of every page for an extension")
        roots = dict(below.connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))
        count = below.connection.execute("SELECT count(*) FROM sqlite_schema WHERE rootpage > 0").fetchone()[
            0
        ]
        if count != len(roots):
            raise NotLean("two of its tables have one name")
        fresh: dict[int, bytes] = {}
        for one in emptied:
            missing = [tree for tree in one.trees if tree not in roots]
            if missing:
                raise NotLean(f"`{missing[0]}` is missing")
            pages = empty_roots(below.connection, self.page_size, one.statement, one.trees)
            fresh.update((roots[tree], page) for tree, page in pages.items())
        dropped = {tree for one in emptied for tree in one.trees}
        self._free = self._left_out(
            [(name, root) for name, root in roots.items() if name not in dropped], fresh
        )
        #: Whole pages that read differently; all others of the free ones read as zeros.
        self._changed = {**fresh, **self._trunks()}
        self._patch_first_page()
        self._places = sorted(self._changed)
        #: Runs of pages that read as zeros, changed ones among them: first, and the one after the last.
        self._starts, self._ends = array("I"), array("I")
        for match in re.finditer(b"\1+", self._free):
            self._starts.append(match.start())
            self._ends.append(match.end())
        self.left_out = self._free.count(1) * self.page_size

    def _page(self, number: int) -> bytes:
        page = self._below.read((number - 1) * self.page_size, self.page_size)
        if len(page) != self.page_size:
            raise PageDamaged("it ends in the middle of a page")
        return page

    def _left_out(self, kept: Sequence[tuple[str, int]], fresh: Mapping[int, bytes]) -> bytearray:
        """A byte per page: 1 where the page becomes free."""
        assert self.connection is not None
        shape = self._shape
        already = free_pages(shape, self._page)
        used = kept_pages(self.connection, shape, self._page, kept)
        stay = [0, *shape.pointer_maps(), *fresh]
        if shape.lock_page <= shape.pages:
            stay.append(shape.lock_page)
        for page in stay:
            if page > shape.pages or used[page] or already[page]:
                raise PageDamaged(f"page {page} is used for two things")
            used[page] = 1
        both = int.from_bytes(used, "little") & int.from_bytes(already, "little")
        if both:
            raise PageDamaged("a page of a table is on the free list")
        every = int.from_bytes(b"\1" * len(used), "little")
        taken = int.from_bytes(used, "little") | int.from_bytes(already, "little")
        return bytearray((every ^ taken).to_bytes(len(used), "little"))

    def _trunks(self) -> dict[int, bytes]:
        """The trunk pages of the new part of the free list; the last points to the old part."""
        shape, free = self._shape, self._free
        capacity = shape.usable // 4 - 8  # SQLite itself leaves the last six unused, for old readers
        spans = [
            (start, min(start + capacity, len(free)))
            for start in range(0, len(free), capacity)
            if free.find(1, start, start + capacity) >= 0
        ]
        heads: list[int] = []
        at = -1
        for _ in spans:
            at = free.find(1, at + 1)
            if at < 0:
                break
            heads.append(at)
        leaves = bytearray(free)
        for head in heads:
            leaves[head] = 0
        lists = [list(compress(range(start, end), leaves[start:end])) for start, end in spans]
        pages = {}
        for index, head in enumerate(heads):
            following = heads[index + 1] if index + 1 < len(heads) else shape.first_trunk
            members = lists[index]
            page = struct.pack(f">{len(members) + 2}I", following, len(members), *members)
            pages[head] = page.ljust(shape.page_size, b"\0")
        self._head = heads[0] if heads else shape.first_trunk
        return pages

    def _patch_first_page(self) -> None:
        shape = self._shape
        first = bytearray(self._page(1))
        struct.pack_into(">II", first, 32, self._head, shape.free + self._free.count(1))
        self._changed[1] = bytes(first)
        maps: dict[int, bytearray] = {}
        if shape.auto_vacuum:
            at = self._free.find(1)
            while at >= 0:
                holder, offset = shape.pointer_of(at)
                entries = maps.get(holder)
                if entries is None:
                    entries = maps[holder] = bytearray(self._page(holder))
                entries[offset : offset + 5] = _FREE_PAGE
                at = self._free.find(1, at + 1)
        self._changed.update((number, bytes(page)) for number, page in maps.items())

    def read(self, start: int, length: int) -> bytes:
        """As below, with the changed pages laid over; a stretch of zeros is not even read."""
        size, free = self.page_size, self._free
        end = min(start + length, self.size)
        if end <= start:
            return b""
        first, last = start // size + 1, -(-end // size)
        span = (last - first + 1) * size
        below = b""
        if free.find(0, first, last + 1) >= 0:
            below = self._below.read((first - 1) * size, span)
            below = below if len(below) == span else below + bytes(span - len(below))
        pieces = self._pieces(memoryview(below), first, last)
        whole = b"".join(pieces)
        low = bisect.bisect_left(self._places, first)
        changed = self._places[low : bisect.bisect_right(self._places, last, low)]
        if changed:
            patched = bytearray(whole)
            for number in changed:
                at = (number - first) * size
                patched[at : at + size] = self._changed[number]
            whole = bytes(patched)
        skipped = start - (first - 1) * size
        return whole if not skipped and span == end - start else whole[skipped : skipped + end - start]

    def _pieces(self, below: memoryview, first: int, last: int) -> list[memoryview | bytes]:
        """What each run of pages reads as, in order. A database has tens of thousands of runs."""
        size, starts, ends = self.page_size, self._starts, self._ends
        pieces: list[memoryview | bytes] = []
        index = bisect.bisect_right(ends, first)
        number = first
        while index < len(starts) and starts[index] <= last:
            start, end = max(starts[index], first), min(ends[index], last + 1)
            pieces += below[(number - first) * size : (start - first) * size], _zeros((end - start) * size)
            number = end
            index += 1
        pieces.append(below[(number - first) * size : (last + 1 - first) * size])
        return pieces

    def settle(self) -> None:
        self._below.settle()

    def close(self) -> None:
        self.connection = None
        self._below.close()
