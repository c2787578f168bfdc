"""Which databases are stored lean: what a setting, a command and earlier snapshots say of each.

The text of a left-out table is compared with its source when a database is stored lean for the first
time, when its schema changed, and once a week; in between only the sets of rows are.
"""

from __future__ import annotations

import os
import time

from safekept.actions.surroundings import Surroundings
from safekept.core.sqlite.lean_wish import LeanWish
from safekept.home.layout import Layout
from safekept.vault.memory import Memory

LEAN, FULL = "lean", "full"
_WEEK_NS = 7 * 24 * 3600 * 1_000_000_000


def stored_lean(surroundings: Surroundings, home: str) -> bool:
    """What the settings say of one home."""
    full = {os.path.realpath(one) for one in surroundings.full_homes}
    return surroundings.databases == LEAN and os.path.realpath(home) not in full


class LeanChoice:
    """Decides for each database of one snapshot or archive."""

    def __init__(self, layout: Layout, lean: bool, memory: Memory | None = None, now_ns: int = 0) -> None:
        self._layout, self._lean, self._memory = layout, lean, memory
        self._period = (now_ns or time.time_ns()) // _WEEK_NS

    def wish(self, path: str) -> LeanWish | None:
        """How a database is captured; None: every byte of it."""
        if not self._lean:
            return None
        known = self._memory.database(path) if self._memory is not None else None
        lean = known.facts.lean if known is not None else None
        compared = {one["table"]: one["schema"] for one in lean["tables"]} if lean else {}
        return LeanWish(self._layout.recipes(path), compared, self._period)


def questions(layout: Layout, lean: bool) -> str:
    """What a memory of databases depends on: what they are asked, and how they are stored."""
    asked = repr([(count.name, count.query) for count in layout.counts])
    return asked + (repr((LEAN, [recipe for _, recipe in layout.lean])) if lean else "")
