"""Links in a home: which of them lead away from what a backup holds, and what to say then.

A link is stored as a link and never followed. Where what matters to the agent is behind one that
leads out, its content is not in the backup, and the backup must not call itself complete.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from safekept.core.entries import Outcome, Remark

from ..layout.layout import Layout


class Link(NamedTuple):
    """Where a link leads."""

    path: str  # of the link, in the home
    full: str  # of the link, on disk
    target: str  # as it is written

    @property
    def directory(self) -> bool:
        return os.path.isdir(self.full)

    def names(self) -> list[str]:
        """What is in the directory that it leads to."""
        try:
            return sorted(os.listdir(self.full))
        except OSError:
            return []

    def within(self, places: Sequence[str]) -> bool:
        """Whether what it leads to exists, and is at or below one of these (links resolved)."""
        if not os.path.exists(self.full):
            return False
        real = os.path.realpath(self.full)
        return any(real == place or real.startswith(place.rstrip("/") + "/") for place in places)

    def remark(self, layout: Layout) -> Remark:
        """What to say of one that leads away, or nowhere."""
        if not os.path.exists(self.full):
            where, lost = "which is not there", layout.database(self.path)
        else:
            where, lost = "outside this home", layout.essential(self.path, self.directory)
        if not lost:
            ending = ": the link is kept, what it points to is not"
            if not os.path.exists(self.full):
                ending = "; the link itself is kept"
            return Remark(self.path, Outcome.NOTED, f"a link to `{self.target}`, {where}{ending}")
        pattern = "/" + self.path.replace("\\", "\\\\").replace("*", "\\*")
        reason = (
            f"a link to `{self.target}`, {where}: what it points to is not in this backup; "
            f"back up that place too, move it into the home, or leave the link out: `--exclude {pattern}`"
        )
        return Remark(self.path, Outcome.OUTSIDE, reason)
