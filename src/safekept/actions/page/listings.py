"""The snapshots of a home for a page that asks often: taken apart once, and again when there are new ones.

A snapshot file and a mark never change under their names, so a list is still right while the names are the
same. Asking for the names costs little, however many there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from safekept.core.records import dataclass
from safekept.vault.storage import FileKind

from ..base.context import UserContext
from ..snapshots.listing import Listed, list_home
from ..vault.opening import open_vault

#: Homes that are remembered.
_HOMES = 8


@dataclass(frozen=True, slots=True)
class _Remembered:
    names: tuple[frozenset[str], ...]  # of snapshots, of marks
    day: str  # a pin ends with a day
    listed: Sequence[Listed]


class Listings:
    """Those of a few homes. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Remembered] = {}

    def of_home(self, context: UserContext, home: str) -> Sequence[Listed]:
        """Everything of this home that is not forgotten, newest first. Raises what opening the vault does."""
        with open_vault(context) as repository:
            names = tuple(map(repository.storage.names, (FileKind.SNAPSHOT, FileKind.MARK)))
            key, day = (repository.id, home), time.strftime("%Y-%m-%d")
            with self._lock:
                known = self._known.get(key)
            if known is not None and (known.names, known.day) == (names, day):
                return known.listed
            listed = tuple(list_home(repository, home).of_home)
        with self._lock:
            self._known.pop(key, None)
            while len(self._known) >= _HOMES:
                self._known.pop(next(iter(self._known)))
            self._known[key] = _Remembered(names, day, listed)
        return listed
