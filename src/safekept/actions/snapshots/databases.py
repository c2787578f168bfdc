"""When databases are checked: if they changed, not too often, and always before what is risky."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from safekept.core.sqlite.lean import LeanRequest
from safekept.home.layout import Layout
from safekept.vault.write import KnownDatabase, Memory

from ..base.context import HomeRef, UserContext
from ..base.search_behind import not_filled

# Which databases are stored lean: what a setting, a command and earlier snapshots say of each. The text
# of a left-out table is compared with its source when a database is stored lean for the first time, when
# its schema changed, and once a week; in between only the sets of rows are.

LEAN, FULL = "lean", "full"
_WEEK_NS = 7 * 24 * 3600 * 1_000_000_000


def stored_lean(context: UserContext, home: str) -> bool:
    """What the settings say of one home."""
    full = {os.path.realpath(one) for one in context.choices.full_homes}
    return context.choices.databases == LEAN and os.path.realpath(home) not in full


class LeanChoice:
    """Decides for each database of one snapshot or archive."""

    def __init__(self, place: HomeRef, lean: bool, memory: Memory | None = None, now_ns: int = 0) -> None:
        self._layout, self._lean, self._memory = place.layout, lean, memory
        self._filling = lean and bool(not_filled(place.home))
        self._period = (now_ns or time.time_ns()) // _WEEK_NS

    def request(self, path: str) -> LeanRequest | None:
        """How a database is captured; None: every byte of it."""
        if not self._lean:
            return None
        known = self._memory.database(path) if self._memory is not None else None
        lean = known.facts.lean if known is not None else None
        compared = {one["table"]: one["schema"] for one in lean["tables"]} if lean else {}
        return LeanRequest(self._layout.recipes(path), compared, self._period, self._filling)


def questions(layout: Layout, lean: bool) -> str:
    """What a memory of databases depends on: what they are asked, and how they are stored."""
    asked = repr([(count.name, count.query) for count in layout.counts])
    return asked + (repr((LEAN, [recipe for _, recipe in layout.lean])) if lean else "")


#: A database that changed is checked again only after so long: a check reads and thinks about it all.
HOUR_NS = 3600 * 1_000_000_000
CHECK_EVERY_NS = 6 * HOUR_NS
#: Before these, every database is checked, whatever was found an hour ago.
CHECKED_KINDS = frozenset({"pre-update", "pre-migration", "pre-import", "pre-restore"})


def doubted_databases(context: UserContext, home: str) -> Callable[[str], float]:
    """When a database of this home was last found damaged, or could not be restored; 0: never.

    The doctor, a guard and a drill look; what they learned must not be forgotten by one who does not.
    """
    from ..alarms.alarms import DRILL, LOSS, open_alarms
    from ..status.home_now import found_damaged

    doubts = found_damaged(context, home)
    every = 0.0
    for alarm in open_alarms(context, home):
        if alarm.kind == DRILL:
            every = max(every, alarm.time)
        elif alarm.kind == LOSS:
            doubts.update((path, max(alarm.time, doubts.get(path, 0.0))) for path in alarm.paths)
    return lambda path: max(every, doubts.get(path, 0.0))


class DatabaseChecks:
    """Decides for each database of one snapshot."""

    def __init__(
        self,
        check: str,
        kind: str,
        memory: Memory,
        home: str,
        doubted: Callable[[str], float] = lambda path: 0.0,
    ) -> None:
        """`check` is "auto", "always", "recent" or "never", as a SnapshotRequest says it.

        `doubted`: when a database was last found damaged.
        """
        self._memory, self._home, self._now = memory, home, time.time_ns()
        self._always = check == "always" or (check == "auto" and kind in CHECKED_KINDS)
        self._recent = check == "recent"
        self._never = check == "never"
        self._doubted = doubted

    def due(self, path: str) -> bool:
        """Whether a database that is read is checked too."""
        if self._always or self._recent or self._never:
            return not self._never
        known = self._memory.database(path)
        # A check in the future is no check: the clock was set back.
        if known is None or not 0 <= self._now - known.last_check_ns < CHECK_EVERY_NS:
            return True
        return known.facts.state == "damaged" or self._is_doubted(path, known) or self._replaced(path, known)

    def _is_doubted(self, path: str, known: KnownDatabase) -> bool:
        """Whether it was found damaged after it was checked here."""
        return self._doubted(path) * 1e9 > known.last_check_ns

    def _replaced(self, path: str, known: KnownDatabase) -> bool:
        """Whether another file has its name now: what was found out about the old one says nothing of it."""
        main = known.identity[0] if known.identity else None
        try:
            return main is not None and os.lstat(os.path.join(self._home, path)).st_ino != main[2]
        except OSError:
            return False  # one that lies outside the home

    def reread(self, path: str, known: KnownDatabase) -> bool:
        """Whether a database that is as it was is read all the same, to check it."""
        if not self._never and self._is_doubted(path, known):
            return True  # its times are those of before, and its bytes need not be
        if self._recent:
            return not 0 <= self._now - known.checked_ns < CHECK_EVERY_NS
        return self._always or (not known.checked_ns and self.due(path))
