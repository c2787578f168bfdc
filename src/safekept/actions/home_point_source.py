"""What a home point holds of a home: named paths whole, of the small state files all but databases.

A database of an agent that runs changes with every message; to read it before each tool call would hold the
agent up, and the regular snapshots hold it. It is named among the remarks, never left out unsaid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from safekept.core.entries import Entry, Outcome, Remark
from safekept.home.scan import NothingSelected, Scan

_REASON = "a database: regular snapshots hold it, a point before one change does not"


def escaped(path: str) -> str:
    """A path as a pattern that means it and nothing else."""
    return "/" + path.replace("\\", "\\\\").replace("*", "\\*")


class PointSource:
    """A Source: the scan without the databases that nobody named."""

    ordered = False

    def __init__(self, inner: Scan, named: Sequence[str]) -> None:
        self._inner = inner
        self._exact, self._below = frozenset(named), tuple(f"{path}/" for path in named)
        self._left: list[Remark] = []

    @property
    def remarks(self) -> list[Remark]:
        return [*self._inner.remarks, *self._left]

    def __iter__(self) -> Iterator[Entry]:
        for group in self.groups():
            yield from group

    def groups(self) -> Iterator[list[Entry]]:
        self._left = []
        try:
            for group in self._inner.groups():
                yield [entry for entry in group if not entry.database or self._named(entry)]
        except NothingSelected:
            return  # nothing of it is there yet, and just that is what is kept

    def _named(self, entry: Entry) -> bool:
        if entry.path in self._exact or entry.path.startswith(self._below):
            return True
        self._left.append(Remark(entry.path, Outcome.EXCLUDED, _REASON, 1, entry.size))
        return False
