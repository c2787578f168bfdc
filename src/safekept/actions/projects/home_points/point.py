"""What a home point is: some files of an agent's home as they were before the agent changed them.

Nothing here needs the vault that holds it: to list or name points costs no more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

if TYPE_CHECKING:
    from ...base.context import UserContext

SHORT = 8
SHORTEST_PREFIX = 4


class NotInHomePoint(SafekeptError):
    code = "not-in-home-point"


@dataclass(frozen=True, slots=True)
class HomePoint:
    """One point in time of some paths of a home."""

    id: str  # the id that is shown; of the snapshot
    snapshot: str  # the same, for those who look for a snapshot
    home: str
    paths: tuple[str, ...]  # below the home, as they were named
    time_ns: int
    reason: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""  # the agent's program: "hermes", "claude-code"
    absent: tuple[str, ...] = ()  # those of `paths` that were not there: going back removes them
    missing: tuple[str, ...] = ()  # directories above those that were not there either
    undo: bool = False  # taken before a rollback of a home point, only to take that back
    taken: bool = True  # False: nothing had changed since this one, so no other was taken

    @property
    def kind(self) -> str:
        """As the kinds of checkpoints: this one is of a home."""
        return "home"

    @property
    def place(self) -> str:
        """The directory that it is a point of."""
        return self.home

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    @property
    def title(self) -> str:
        return f"home point {self.short}"

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "kind": self.kind,
            "home": self.home,
            "paths": list(self.paths),
            "absent": list(self.absent),
            "time_ns": self.time_ns,
            "reason": self.reason,
            "session": self.session,
            "turn": self.turn,
            "host": self.host,
            "undo": self.undo,
        }


def may_be_point(word: str) -> bool:
    """Whether a word can be the id of a home point, or the start of one."""
    word = word.lower()
    return SHORTEST_PREFIX <= len(word) <= 64 and all(sign in "0123456789abcdef" for sign in word)


def any_taken(context: UserContext) -> bool:
    """Whether one was ever taken here; where none was, the vault need not be opened."""
    return os.path.isdir(os.path.join(context.places.data_directory, "home-points"))
