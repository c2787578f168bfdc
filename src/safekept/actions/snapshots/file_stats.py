"""What a snapshot saw of every file, kept for a later look at the same home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from safekept.core.entries import DatabaseFacts
from safekept.core.records import dataclass
from safekept.home.health import Counts, Directory, Recorded, beside, owner_of
from safekept.vault.write import marks_in


@dataclass(frozen=True, slots=True)
class FileStats:
    """The status of every file, packed as the cache keeps it."""

    records: Mapping[str, bytes] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)  # prefix of entries -> directory; "" is the home

    def recorded(self, census: Counts, databases: Mapping[str, Mapping[str, Any]]) -> Recorded:
        """The same as the health check wants it; takes down what no record has, so call it at once."""
        facts = {path: _facts(found) for path, found in databases.items()}
        bare = Recorded(self.roots, self._directories, census, facts)
        return Recorded(
            self.roots,
            self._directories,
            census,
            facts,
            owner_of(bare.home),
            {path: beside(bare.full(path)) for path in facts},
        )

    def _directories(self) -> Iterator[Directory]:
        for path, record in self.records.items():
            yield path, *marks_in(record)


def _facts(found: Mapping[str, Any]) -> DatabaseFacts:
    counts = found.get("counts")
    return DatabaseFacts(
        str(found.get("state", "unverified")),
        str(found.get("method", "")),
        str(found.get("detail", "")),
        counts=dict(counts) if isinstance(counts, Mapping) else {},
    )
