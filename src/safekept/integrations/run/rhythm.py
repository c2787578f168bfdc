"""When a checkpoint is due while an agent works; nothing here looks at a clock.

At a quiet moment after changes, and during changes that do not end at least once in a while. What a
checkpoint costs bounds how often there is one: after each, so much time passes that all of them together
take no more than a small share of one processor.
"""

from __future__ import annotations

#: The share of one processor that checkpoints may take.
SHARE = 0.1
#: Seconds between two attempts at a checkpoint that does not succeed, at most.
LONGEST = 60.0
#: A change that goes on is kept every so many quiet times.
ENDLESS = 15.0


class Rhythm:
    """All times are seconds of one clock, given by the caller."""

    def __init__(self, quiet: float, share: float = SHARE) -> None:
        self.quiet, self.endless, self._share = quiet, quiet * ENDLESS, share
        self._began: float | None = None  # of the burst that is not kept yet
        self._last = 0.0
        self._rest_until = 0.0
        self._failed = 0  # in a row

    @property
    def waiting(self) -> bool:
        """Whether something changed that no checkpoint holds."""
        return self._began is not None

    def changed(self, now: float) -> None:
        if self._began is None:
            self._began = now
        self._last = now

    def due_at(self) -> float | None:
        """When the next checkpoint is due, if nothing more happens; None where nothing changed."""
        if self._began is None:
            return None
        return max(min(self._last + self.quiet, self._began + self.endless), self._rest_until)

    def due(self, now: float) -> bool:
        at = self.due_at()
        return at is not None and now >= at

    def in_a_burst(self, now: float) -> bool:
        """Whether a checkpoint now would stand in the midst of changes."""
        return self._began is not None and now < self._last + self.quiet

    def taking(self) -> None:
        """A checkpoint begins: what changes from now on belongs to the next."""
        self._began = None

    def took(self, now: float, cost: float) -> None:
        """It ended, and took so many seconds of a processor."""
        self._failed = 0
        self._rest_until = now + cost * (1 - self._share) / self._share

    def failed(self, now: float, cost: float) -> None:
        """It did not succeed: what changed is still to be kept, after a while that grows."""
        failed = self._failed + 1
        self.took(now, cost)
        self.changed(now)
        self._failed = failed
        self._rest_until = max(self._rest_until, now + min(LONGEST, self.quiet * 2 ** min(failed, 20)))
