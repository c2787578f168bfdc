"""Which older archives go when `--keep N` says so.

Counted are only whole, complete, undamaged archives that safekept made of this very home with the
same scope: a nightly archive without secrets never pushes out the last one that has them. Anything
else in the directory, whatever its name, is left alone here: an incomplete archive never
pushes a complete one out, and a foreign file is never touched.

What goes waits in the trash of that directory for three days, where the disk has room for that and for
one more archive, and no more of them than are kept.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import field

from safekept.core.archive_names import OWN_ENDINGS
from safekept.core.files import fsync_directory
from safekept.core.records import dataclass
from safekept.core.trash import empty_trash, limit_trash, room_to_keep, throw_away

from ..base.context import HomeRef
from .output import OwnArchives

#: How the names of archives end, sealed or not.


@dataclass(frozen=True, slots=True)
class Rotated:
    """What went, and until when it can be brought back; 0: it is gone for good."""

    paths: list[str] = field(default_factory=list)
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """The plan: what stays, newest first, and what would go."""

    keep: list[str]
    remove: list[str]

    def carry_out(self, operation: str) -> Rotated:
        """Remove what the plan names, into the trash where there is room; what really went."""
        there = [path for path in self.remove if os.path.lexists(path)]
        if not there:
            return Rotated()
        directory = os.path.dirname(there[0])
        needed = max((os.path.getsize(path) for path in self.keep[:1]), default=0)
        with contextlib.suppress(OSError):
            empty_trash(directory)
            if room_to_keep(directory, needed):
                trashed = throw_away(directory, operation, there)
                limit_trash(directory, max(len(self.keep), 1))
                if os.path.isdir(trashed.path):
                    return Rotated(there, trashed.until)
        return Rotated(_delete(there))


def _delete(paths: list[str]) -> list[str]:
    """For good; those that really went. One that is in the trash already is no longer at its place."""
    removed = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if not os.path.lexists(path):
            removed.append(path)
    fsync_directory(os.path.dirname(paths[0]))
    return removed


def plan_rotation(
    directory: str,
    place: HomeRef,
    scope: dict[str, object],
    keep: int,
    coming: int = 0,
    *,
    known: OwnArchives,
    to: tuple[str, ...] = (),
    new: str = "",
) -> Rotation:
    """Judge the archives in a directory; `coming` counts one that is about to be written.

    `new` was written just now and is the newest, whatever a clock that was set back says of the others.

    Sealed ones count among those that the same keys open (`to`): a new key pushes nothing out.
    """
    if keep <= 0 or not os.path.isdir(directory):
        return Rotation([], [])
    ours: list[tuple[bool, str, int, str]] = []
    with os.scandir(directory) as listing:
        for item in listing:
            if not item.name.endswith(OWN_ENDINGS) or not item.is_file(follow_symlinks=False):
                continue
            head = known.head(item.path)
            if head and _comparable(head, place, scope, to):
                # Two of one second differ in their time on the disk.
                written = item.stat(follow_symlinks=False).st_mtime_ns
                ours.append((item.path == new, str(head.get("created", "")), written, item.path))
    ours.sort(reverse=True)
    limit = max(keep - coming, 0)
    return Rotation([path for *_, path in ours[:limit]], [path for *_, path in ours[limit:]])


def _comparable(
    head: dict[str, object], place: HomeRef, scope: dict[str, object], to: tuple[str, ...]
) -> bool:
    sealed = head.get("sealed")
    opened_by = sealed.get("to") if isinstance(sealed, dict) else ()
    return (
        opened_by == (list(to) or ())
        and bool(head.get("complete"))
        and not head.get("damaged")
        and head.get("layout") == place.layout.name
        and head.get("home") == place.home
        and head.get("scope") == scope
    )
