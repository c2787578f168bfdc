"""How much of a home changed since its last whole snapshot: names and times, no file is opened.

An hour is a short time, unless most of what is there now came in that hour: a home that was set up after its
first snapshot, skills that were brought in, a project of notes. Databases are left out: one new row changes
the time of all of it, and how much that is only its rows could tell.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from safekept.home.layout import Layout

#: So many entries are looked at, the ones at the top first: a prompt asks for this, too.
MOST = 4000


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """Files that are newer than a snapshot, among those that were looked at."""

    files: int = 0
    bytes: int = 0
    looked: int = 0


def changed_since(home: str, layout: Layout, when: float, most: int = MOST) -> ChangedSince:
    """Look at a home from its top down; what cannot be looked at counts as nothing."""
    files = size = looked = 0
    waiting: list[tuple[str, Collection[str]]] = [("", ())]
    while waiting and looked < most:
        directory, siblings = waiting.pop(0)
        try:
            with os.scandir(os.path.join(home, directory)) as listing:
                entries = sorted(listing, key=lambda one: one.name)
        except OSError:
            continue
        names = {one.name for one in entries}
        if directory and layout.excluded(directory, True, siblings, names) is not None:
            continue
        for one in entries:
            path = f"{directory}/{one.name}" if directory else one.name
            try:
                if one.is_dir(follow_symlinks=False):
                    waiting.append((path, names))
                    continue
                facts = one.stat(follow_symlinks=False)
            except OSError:
                continue
            looked += 1
            if facts.st_mtime > when and _counts(layout, path):
                files, size = files + 1, size + facts.st_size
    return ChangedSince(files, size, looked)


def _counts(layout: Layout, path: str) -> bool:
    main = path.removesuffix("-wal").removesuffix("-shm").removesuffix("-journal")
    left_out = layout.excluded(path) is not None or layout.machine_bound(path)
    return not left_out and not layout.database(main)
