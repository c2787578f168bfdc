"""Which older archives go when `--keep N` says so.

Counted are only whole, complete, undamaged archives that holdfast made of this very home with the
same scope: a nightly archive without secrets never pushes out the last one that has them. Anything
else in the directory, whatever its name, is nobody's business here: an incomplete archive never
pushes a complete one out, and a foreign file is never touched.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from holdfast.actions.surroundings import Place
from holdfast.archive import identify
from holdfast.core.files import fsync_directory


@dataclass(frozen=True, slots=True)
class Rotation:
    """The plan: what stays, newest first, and what would go."""

    keep: list[str]
    remove: list[str]

    def carry_out(self) -> list[str]:
        """Remove what the plan names; returns what really went."""
        removed = []
        for path in self.remove:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                removed.append(path)
        if removed:
            fsync_directory(os.path.dirname(removed[0]))
        return removed


def plan_rotation(
    directory: str, place: Place, scope: dict[str, object], keep: int, coming: int = 0
) -> Rotation:
    """Judge the archives in a directory; `coming` counts one that is about to be written."""
    if keep <= 0 or not os.path.isdir(directory):
        return Rotation([], [])
    ours: list[tuple[str, str, str]] = []
    with os.scandir(directory) as listing:
        for item in listing:
            if not item.name.endswith((".zip", ".tar.zst")) or not item.is_file(follow_symlinks=False):
                continue
            head = identify(item.path)
            if head and _comparable(head, place, scope):
                ours.append((str(head.get("created", "")), item.name, item.path))
    ours.sort(reverse=True)
    limit = max(keep - coming, 0)
    return Rotation([path for *_, path in ours[:limit]], [path for *_, path in ours[limit:]])


def _comparable(head: dict[str, object], place: Place, scope: dict[str, object]) -> bool:
    return (
        bool(head.get("complete"))
        and not head.get("damaged")
        and head.get("layout") == place.layout.name
        and head.get("home") == place.home
        and head.get("scope") == scope
    )
