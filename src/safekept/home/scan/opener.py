"""Opening scanned entries: one shared object per place, so that an entry stays small.

Plain files follow the rules of `content`, databases are captured through `core.sqlite` with the
census's questions asked in the very state that is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.entries import Content, DatabaseFacts, EntryLost, Outcome
from safekept.core.events import Listener

from ..census import LARGEST, Census
from ..layout.rules import Count
from .content import WholeContent, open_plain

if TYPE_CHECKING:
    from safekept.core.sqlite import CaptureOptions
    from safekept.core.sqlite.lean import LeanRequest

HEADER = b"SQLite format 3\x00"
Opening = Callable[[], Content]


class Opener:
    """Opens what one walk found; used from several threads."""

    def __init__(
        self,
        base: str,
        prefix: str,
        options: CaptureOptions,
        census: Census,
        listener: Listener,
        check: Callable[[str], bool] | None = None,
        lean: Callable[[str], LeanRequest | None] | None = None,
    ) -> None:
        """`check` decides for each database by its path whether it is checked, `lean` what need not be
        stored of it; else `options` do."""
        self.base = base.rstrip("/") + "/"
        self.cut = len(prefix)
        self.options = options
        self.census = census
        self.listener = listener
        self.check, self.lean = check, lean

    def plain(self, path: str, inode: int) -> Content:
        """A plain file that is not counted; one that turns out to be a database is captured.

        A database whose size is odd was cut short: no name and no size told the scan, its first
        bytes do. An import looks at them too, so both call the same files databases.
        """
        content = open_plain(self.base, path[self.cut :], path, inode)
        if content.head.startswith(HEADER):
            content.close()
            return self.database(path, "", ())
        return content

    def noticed(
        self, path: str, inode: int, profile: str, counts: tuple[Count, ...], expected: bool
    ) -> Content:
        """A plain file that the census counts, or that should have been a database."""
        try:
            content = open_plain(self.base, path[self.cut :], path, inode, expected)
        except EntryLost as lost:
            if lost.remark.outcome is Outcome.GONE:
                self.census.gone(profile, counts)
            raise
        if content.head.startswith(HEADER):
            content.close()
            return self.database(path, profile, counts)
        data = content.data if isinstance(content, WholeContent) and content.size <= LARGEST else None
        self.census.plain(profile, counts, data, path=path, size=content.size)
        return content

    def database(self, path: str, profile: str, counts: tuple[Count, ...]) -> Content:
        """A database: one committed state of it."""
        from safekept.core.sqlite.capture import capture

        queries = {count.name: count.query for count in counts if count.kind == "query"}
        options = self.options
        if self.check is not None:
            options = replace(options, check=self.check(path))
        if self.lean is not None:
            options = replace(options, lean=self.lean(path))
        try:
            content = capture(self.base + path[self.cut :], path, options, queries, self.listener)
        except EntryLost as lost:
            if lost.remark.outcome is Outcome.GONE:
                self.census.gone(profile, counts)
            raise
        if counts:
            self.census.captured(profile, counts, lambda: content.database)
        return content

    def known_plain(
        self,
        path: str,
        size: int,
        profile: str,
        counts: tuple[Count, ...],
        expected: bool,
        facts: DatabaseFacts | None,
    ) -> bool:
        """A counted file that is as it was before and is not read; False where counting needs its bytes."""
        if expected or not all(count.by_name for count in counts):
            return False
        self.census.plain(profile, counts, None, path=path, size=size)
        return True

    def known_database(self, profile: str, counts: tuple[Count, ...], facts: DatabaseFacts | None) -> bool:
        """A database that is as it was when these facts were found; False where they do not answer all."""
        if facts is None or any(
            count.kind == "query" and facts.counts.get(count.name) is None for count in counts
        ):
            return False
        if counts:
            self.census.captured(profile, counts, lambda: facts)
        return True
