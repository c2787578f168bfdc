"""What a snapshot holds, what it does not, and what is known of the databases in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from safekept.core.entries import DatabaseFacts, Remark

from ..format.times import format_time


@dataclass(frozen=True, slots=True)
class StoredDatabase:
    """What is known of a database in the snapshot."""

    facts: DatabaseFacts
    checked_ns: int  # when these bytes were checked; 0: never
    read: bool  # False: it was as it had been, and was not read

    def as_dict(self) -> dict[str, object]:
        checked = format_time(self.checked_ns, 0) if self.checked_ns else None
        return {**self.facts.as_dict(), "counts": dict(self.facts.counts), "checked": checked}


@dataclass(slots=True)
class Account:
    """What a snapshot holds and what it does not."""

    files: int = 0  # links included
    bytes: int = 0
    reused: int = 0  # files whose content was known and not read
    new: int = 0
    changed: int = 0
    remarks: list[Remark] = field(default_factory=list)
    databases: dict[str, StoredDatabase] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not any(remark.incomplete for remark in self.remarks)

    def unread(self, files: int, size: int) -> None:
        """Files that are what they were, and were not read."""
        self.files += files
        self.reused += files
        self.bytes += size
