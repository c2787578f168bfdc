"""What one look at the hidden half found: what is to be kept of it, and what is named as left out."""

from __future__ import annotations

import os

from safekept.core.records import dataclass

from .hidden_folders import HiddenFolders
from .hidden_left import UNREADABLE, Left, NotKept, exposed


@dataclass(frozen=True, slots=True)
class HiddenLook:
    """What is hidden now. `id` is the same where nothing hidden changed; empty: it was not ready."""

    id: str
    folders: HiddenFolders
    began: float  # by the monotonic clock
    since_ns: int  # since then no hidden file changed, and no name in any directory came or went
    changed: bool = True  # since the look before

    @property
    def empty(self) -> bool:
        """Whether nothing hidden is there that would be kept."""
        return not self.folders.roots and not self.folders.wanted()

    @property
    def left(self) -> dict[bytes, Left]:
        return self.folders.left

    @property
    def unread(self) -> tuple[str, ...]:
        """What could not even be looked at."""
        return tuple(
            os.fsdecode(path) for path, (why, _, _) in self.folders.left.items() if why == UNREADABLE
        )

    @property
    def exposed(self) -> tuple[NotKept, ...]:
        """What is there, is not kept, and would be lost, the largest first."""
        return exposed(self.folders.left)
