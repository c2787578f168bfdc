"""What a checkpoint is, and what it knows of one path.

Ids sort by time, are unique in a store and never change; nor does anything else here. Only *before*
and *manual* points are numbered for the user; *after* marks say what an agent's turn left behind, and
*undo* points are taken before a rollback.
"""

from __future__ import annotations

import os

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

NUMBERED = ("before", "manual")
KINDS = ("before", "after", "undo", "manual")

#: Twelve characters: nine of time (milliseconds, enough until the year 3084), three of chance.
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
ID_LENGTH = 12
SHORTEST_PREFIX = 4
#: The reason of an *undo* point that was only taken to look at the project as it is.
LOOKED_AT = "looked at"


class NoSuchCheckpoint(SafekeptError):
    code = "no-such-checkpoint"


class CheckpointDamaged(SafekeptError):
    code = "checkpoint-damaged"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One point that can be gone back to."""

    id: str
    project: str  # absolute, resolved path
    time_ns: int
    kind: str  # one of KINDS
    reason: str
    session: str
    turn: str
    commit: str
    full: bool  # a full pass; otherwise named files only, over the last known state
    files: int
    skipped: int
    #: The look at what is hidden (ignored files, secrets, large files); two points that name one differ in
    #: nothing of it. Empty: it was not looked at, or not in time.
    hidden: str = ""

    @property
    def numbered(self) -> bool:
        return self.kind in NUMBERED

    @property
    def place(self) -> str:
        """The directory that it is a point of."""
        return self.project

    @property
    def short(self) -> str:
        """The id as a list shows it; it means the same."""
        return self.id

    @property
    def title(self) -> str:
        return f"checkpoint {self.id}"

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "project": self.project,
            "time_ns": self.time_ns,
            "kind": self.kind,
            "reason": self.reason,
            "session": self.session,
            "turn": self.turn,
            "commit": self.commit,
            "full": self.full,
            "files": self.files,
            "skipped": self.skipped,
            **({"hidden": self.hidden} if self.hidden else {}),
        }


@dataclass(slots=True)
class FileState:
    """One path of a checkpoint, or of the project as it lies. To be read, not changed."""

    kind: str  # "file", "symlink" or "directory"
    mode: int  # permission bits
    mtime_ns: int
    size: int
    oid: str  # git blob; of a link: the blob of its target; of a directory: ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that is in the project and not in the checkpoint, and why."""

    path: str
    reason: str  # one of the codes of `REASONS`
    detail: str = ""
    size: int = 0


#: Why something is not in a checkpoint. What is absent for one of these was never "created since".
REASONS = {
    "excluded": "left out by the list of exclusions",
    "ignored": "ignored by the project's .gitignore",
    "oversize": "larger than the limit",
    "secret": "holds secrets, which are only kept encrypted",
    "unreadable": "could not be read",
    "special": "a socket, pipe or device",
    "git": "belongs to a git repository's own data",
    "name": "has a name that git cannot hold",
    "sidecar": "belongs to a database that was stored whole",
    "changing": "kept changing while it was read",
    "gone": "vanished while it was read",
    "database": "a database that could not be read as one state",
    "outside": "lies outside the project",
    "limit": "nested too deep to be walked",
    "too-much": "holds your home, an agent's home or safekept's own stores, and is never taken whole: "
    "only files that a tool names are kept",
    "unmarked": "is no project (no .git, pyproject.toml or the like): only files that a tool names are kept",
}


def new_checkpoint_id(time_ns: int) -> str:
    """A name that sorts by time: nine characters of milliseconds, three of chance."""
    milliseconds, letters = time_ns // 1_000_000, []
    for _ in range(9):
        letters.append(_ALPHABET[milliseconds & 31])
        milliseconds >>= 5
    return "".join(reversed(letters)) + "".join(_ALPHABET[byte % 32] for byte in os.urandom(3))


def time_of_id(id: str) -> int:
    """The first nanosecond of the millisecond that an id was made in."""
    milliseconds = 0
    for letter in id[:9]:
        milliseconds = milliseconds << 5 | _ALPHABET.index(letter)
    return milliseconds * 1_000_000


def time_after(now_ns: int, newest: str) -> int:
    """A time for a new point: now, or right behind the newest id where the clock was set back.

    The order of points is the order of their times and of their ids, so both must only ever grow.
    """
    return max(now_ns, time_of_id(newest) + 1_000_000) if newest else now_ns


def derived_checkpoint_id(time_ns: int, source: bytes) -> str:
    """The same for one taken over from elsewhere: the same source gives the same id every time."""
    return new_checkpoint_id(time_ns)[:9] + "".join(_ALPHABET[byte & 31] for byte in source[:3])


def is_checkpoint_id(text: str, shortest: int = ID_LENGTH) -> bool:
    """Whether a text can be an id, or with `shortest` the beginning of one."""
    return shortest <= len(text) <= ID_LENGTH and all(letter in _ALPHABET for letter in text)
