"""The simplest Source: a list in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from safekept.core.entries import Entry, Remark


@dataclass(slots=True)
class EntryList:
    """Entries in the order in which they are given."""

    entries: list[Entry]
    remarks: list[Remark] = field(default_factory=list)
    ordered: bool = False

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)
