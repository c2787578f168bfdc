"""Opening scanned entries: one shared object per place, so that an entry stays small.

Plain files follow the rules of `content`, databases are captured through `core.sqlite` with the
census's questions asked in the very state that is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.core.entries import Content, EntryLost, Outcome
from holdfast.core.events import Listener
from holdfast.home.census import LARGEST, Census
from holdfast.home.content import WholeContent, open_plain
from holdfast.home.rules import Count

if TYPE_CHECKING:
    from holdfast.core.sqlite import CaptureOptions

HEADER = b"SQLite format 3\x00"
Opening = Callable[[], Content]


class Opener:
    """Opens what one walk found; used from several threads."""

    def __init__(
        self, base: str, prefix: str, options: CaptureOptions, census: Census, listener: Listener
    ) -> None:
        self.base = base.rstrip("/") + "/"
        self.cut = len(prefix)
        self.options = options
        self.census = census
        self.listener = listener

    def plain(self, path: str, inode: int) -> Content:
        """A plain file that nobody counts; one that turns out to be a database is captured.

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
        if isinstance(content, WholeContent):
            self.census.plain(profile, counts, content.data if content.size <= LARGEST else None)
        else:
            self.census.plain(profile, counts, None)
        return content

    def database(self, path: str, profile: str, counts: tuple[Count, ...]) -> Content:
        """A database: one committed state of it."""
        from holdfast.core.sqlite import capture

        queries = {count.name: count.query for count in counts if count.kind == "query"}
        try:
            content = capture(self.base + path[self.cut :], path, self.options, queries, self.listener)
        except EntryLost as lost:
            if lost.remark.outcome is Outcome.GONE:
                self.census.gone(profile, counts)
            raise
        if counts:
            self.census.captured(profile, counts, content)
        return content
