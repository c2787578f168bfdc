"""What a snapshot holds, by class: conversations, memories, skills, settings and the rest, with their sizes.

A snapshot never changes, so one that was gone through is remembered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from safekept.core.entries import Entry, Kind
from safekept.core.records import dataclass
from safekept.home.layout import Layout, is_file

from ..base.context import UserContext
from ..snapshots.contents import opened

#: More files are not gone through for a picture.
MOST_FILES = 100_000
_REMEMBERED = 16
#: Classes of the census that are the same to a person.
_TITLES = {
    "sessions": "Conversations",
    "messages": "Conversations",
    "memories": "Memories",
    "skills": "Skills",
    "cron_jobs": "Jobs",
    "settings": "Settings",
    "settings_sections": "Settings",
}


@dataclass(frozen=True, slots=True)
class SizeClass:
    """One class of files."""

    name: str
    files: int
    bytes: int


class SnapshotSizes:
    """Sizes by class of the snapshots that were asked for. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[SizeClass, ...]] = {}

    def of(self, context: UserContext, home: str, snapshot: str, files: int | None) -> tuple[SizeClass, ...]:
        """The largest first; nothing where there are too many files to look at. Raises as opening does."""
        with self._lock:
            if (known := self._known.get(snapshot)) is not None:
                return known
        if files is None or files > MOST_FILES:
            return ()
        with opened(context, context.locate(home, existing=False), snapshot) as found:
            classes = size_classes(found.stored.layout, found.stored.source)
        with self._lock:
            while len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[snapshot] = classes
        return classes


def size_classes(layout: Layout, entries: Iterable[Entry]) -> tuple[SizeClass, ...]:
    """Every file in one class: by what the census counts, else what the layout says it is."""
    counted = [
        (_TITLES.get(count.name, count.name.replace("_", " ").capitalize()), places)
        for count, places in layout.counted
        if not is_file(count.name)
    ]
    sums: dict[str, list[int]] = {}
    for one in entries:
        if one.kind is not Kind.FILE:
            continue
        name = "Secrets" if layout.secret(one.path) else ""
        name = name or next((title for title, places in counted if places.covers(one.path)), "")
        if not name:
            top = one.path.partition("/")[0].casefold()
            name = next((title for title, _ in counted if title.casefold() == top), "")
        name = name or ("Databases" if one.database else "Other files")
        found = sums.setdefault(name, [0, 0])
        found[0] += 1
        found[1] += one.size
    made = (SizeClass(name, count, size) for name, (count, size) in sums.items())
    return tuple(sorted(made, key=lambda one: (-one.bytes, one.name)))
