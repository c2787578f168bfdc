"""When databases are checked: if they changed, not too often, and always before what is risky."""

from __future__ import annotations

import time

from safekept.vault.memory import KnownDatabase, Memory

#: A database that changed is checked again only after so long: a check reads and thinks about it all.
CHECK_EVERY_NS = 6 * 3600 * 1_000_000_000
#: Before these, every database is checked, whatever was found an hour ago.
CHECKED_KINDS = frozenset({"pre-update", "pre-migration", "pre-import", "pre-restore"})


class DatabaseChecks:
    """Decides for each database of one snapshot."""

    def __init__(self, check: str, kind: str, memory: Memory) -> None:
        """`check` is "auto", "always", "recent" or "never", as a SnapshotRequest says it."""
        self._memory, self._now = memory, time.time_ns()
        self._always = check == "always" or (check == "auto" and kind in CHECKED_KINDS)
        self._recent = check == "recent"
        self._never = check == "never"

    def due(self, path: str) -> bool:
        """Whether a database that is read is checked too."""
        if self._always or self._recent or self._never:
            return not self._never
        known = self._memory.database(path)
        # A check in the future is no check: somebody set the clock back.
        return known is None or not 0 <= self._now - known.last_check_ns < CHECK_EVERY_NS

    def reread(self, path: str, known: KnownDatabase) -> bool:
        """Whether a database that is as it was is read all the same, to check it."""
        if self._recent:
            return not 0 <= self._now - known.checked_ns < CHECK_EVERY_NS
        return self._always or (not known.checked_ns and self.due(path))
