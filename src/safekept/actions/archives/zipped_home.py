"""The home in a zip that Hermes made, entry by entry: one that is damaged is lost, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from safekept.archive.errors import ArchiveDamaged, ArchiveUnsupported
from safekept.core.entries import Content, Entry, EntryLost, Kind, Outcome, Remark, Source
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from ..base.context import HomeRef

EXTERNAL = "_external"


@dataclass(frozen=True, slots=True)
class ZippedHome:
    """What a zip holds, below its profile where it is of one; databases known by their place.

    The bytes of a database in the zip are stored as those of a live one, so that what both share is
    stored once.
    """

    source: Source
    place: HomeRef
    below: str

    @property
    def ordered(self) -> bool:
        return self.source.ordered

    @property
    def remarks(self) -> list[Remark]:
        return self.source.remarks

    def __iter__(self) -> Iterator[Entry]:
        for entry in self.source:
            if entry.path == EXTERNAL:
                continue
            path = entry.path
            if self.below and not path.startswith(EXTERNAL + "/"):
                path = f"{self.below}/{path}"
            database = entry.kind is Kind.FILE and (
                self.place.layout.database(path) or path.endswith((".db", ".sqlite"))
            )
            opening = _Sound(entry, path) if entry.kind is Kind.FILE else entry.open
            yield replace(entry, path=path, database=database, open=opening)


@dataclass(frozen=True, slots=True)
class _Sound:
    """Opens one file of a zip; where it is damaged, that file is lost and no other."""

    entry: Entry
    path: str

    def __call__(self) -> Content:
        try:
            return _SoundContent(self.entry.open(), self.path)
        except (ArchiveDamaged, ArchiveUnsupported) as error:
            raise _lost(self.path, error) from error


class _SoundContent(Content):
    """The bytes of one file of a zip, or EntryLost."""

    def __init__(self, content: Content, path: str) -> None:
        super().__init__()
        self._content, self._path = content, path
        self.size, self.mtime_ns = content.size, content.mtime_ns
        self.remarks, self.database = content.remarks, content.database

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._content.chunks()
        except (ArchiveDamaged, ArchiveUnsupported) as error:
            raise _lost(self._path, error) from error
        self.remarks, self.database = self._content.remarks, self._content.database

    def close(self) -> None:
        self._content.close()


def _lost(path: str, error: SafekeptError) -> EntryLost:
    reason = str(error.facts.get("reason") or error.what)
    return EntryLost(Remark(path, Outcome.UNREADABLE, f"damaged in the zip: {reason}"))
