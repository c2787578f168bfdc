"""What is hidden in a project and not kept: the limits, the reasons and their words, the small record of it.

Beyond a limit the largest are left out first.

The record lies beside the project's other records, so that `status` and the list of a
rollback can name what would be lost without a look at the project.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from safekept.core.files.small import read_fields, write_document
from safekept.core.records import dataclass

if TYPE_CHECKING:
    from .hidden_folders import HiddenFolders

#: Files and bytes as far as they were counted.
Left = tuple[str, int, int]

REMAKEABLE, YOURS, TOO_LARGE, BUDGET, TOO_MANY = "remakeable", "yours", "too-large", "budget", "too-many"
UNREADABLE = "unreadable"
LEFT_WORDS = {
    YOURS: "your setting `checkpoints.exclude` leaves it out",
    TOO_LARGE: "larger than one hidden file may be",
    BUDGET: "more than `checkpoints.hidden_budget` allows; the largest are left out first",
    TOO_MANY: "more files than `checkpoints.hidden_files` allows; the largest directories are left out first",
    "git": "the data of a git repository",
    UNREADABLE: "cannot be read",
    "special": "a socket, pipe or device",
    "limit": "nested too deep to be walked",
}
#: These were not chosen, and they hold something that could be lost.
_EXPOSED = frozenset({TOO_LARGE, BUDGET, TOO_MANY, "git", UNREADABLE, "limit"})
_NAME = "hidden-left.json"
_MOST = 50


@dataclass(frozen=True, slots=True)
class HiddenLimits:
    """How much of what is hidden is kept of one project, and how long a call waits for it."""

    bytes: int = 2_000_000_000
    files: int = 50_000
    largest: int = 1_000_000_000  # bytes of one file
    remakeable: tuple[str, ...] = ()  # a user's own rows; see `core/files/remakeable.py`
    avoid: tuple[str, ...] = ()  # our own places, wherever they are
    wait: float = 0.0  # seconds; 0: as long as it takes


@dataclass(frozen=True, slots=True)
class NotKept:
    """One path that is there, is hidden, and would be lost."""

    path: str
    reason: str
    files: int = 0
    bytes: int = 0

    @property
    def why(self) -> str:
        return LEFT_WORDS.get(self.reason, self.reason)

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def exposed(left: Mapping[bytes, Left]) -> tuple[NotKept, ...]:
    """Those of what is left out that would be lost, the largest first."""
    found = [
        NotKept(os.fsdecode(path), reason, files, size)
        for path, (reason, files, size) in left.items()
        if reason in _EXPOSED
    ]
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.path)))


@dataclass(frozen=True, slots=True)
class LeftRecord:
    """What the last look left out that would be lost: the largest by name, and how many there are."""

    some: tuple[NotKept, ...] = ()
    count: int = 0
    bytes: int = 0

    def as_dict(self) -> dict[str, object]:
        return {"count": self.count, "bytes": self.bytes, "largest": [one.as_dict() for one in self.some]}


def write_left(directory: str, found: tuple[NotKept, ...]) -> None:
    """Write it down; where nothing is exposed there is no record."""
    path = os.path.join(directory, _NAME)
    with contextlib.suppress(OSError):
        if not found:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        record = LeftRecord(found[:_MOST], len(found), sum(one.bytes for one in found))
        write_document(path, record.as_dict(), durable=False)


def read_left(directory: str) -> LeftRecord:
    """What stands there; nothing where nothing is exposed, or before the first look."""
    fields = read_fields(os.path.join(directory, _NAME))
    with contextlib.suppress(KeyError, TypeError, ValueError):
        some = tuple(
            NotKept(str(one["path"]), str(one["reason"]), int(one["files"]), int(one["bytes"]))
            for one in fields["largest"]  # type: ignore[attr-defined]
        )
        return LeftRecord(some, int(fields["count"]), int(fields["bytes"]))  # type: ignore[call-overload]
    return LeftRecord()


# ── beyond the limits ─────────────────────────────────────────────────────────────────────────────


def leave_largest(found: HiddenFolders, counts: dict[bytes, int], most: int) -> None:
    """Leave the largest of the directories in `counts` out until the rest is within the number of files."""
    while sum(counts.values()) > most:
        largest = max(counts, key=lambda path: (counts[path], path))
        below = largest + b"/"
        gone = [path for path in found.folders if path == largest or path.startswith(below)]
        files = sum(len(found.folders[path].names) for path in gone)
        size = sum(found.folders[path].size for path in gone)
        for path in gone:
            del found.folders[path]
        found.left = {path: why for path, why in found.left.items() if not path.startswith(below)}
        found.left[largest] = (TOO_MANY, files, size)
        del counts[largest]


def bound_bytes(found: HiddenFolders, limits: HiddenLimits) -> None:
    """Files over the limit are left out, then the largest, until the rest is within the budget."""
    total = found.size()
    sizes_of = (max(folder.sizes, default=0) for folder in found.folders.values())
    largest = max(sizes_of, default=0)
    if largest <= limits.largest and total <= limits.bytes:
        return
    sizes = [
        (size, path + b"/" + name if path else name)
        for path, folder in found.folders.items()
        for name, size in zip(folder.names, folder.sizes, strict=True)
    ]
    for size, path in sorted(sizes, reverse=True):
        if size <= limits.largest and total <= limits.bytes:
            break
        found.left[path] = (TOO_LARGE if size > limits.largest else BUDGET, 1, size)
        total -= size
