"""How much of a home changed since its last whole snapshot: names and times, no file is opened.

An hour is a short time, unless most of what is there now came in that hour: a home that was set up after its
first snapshot, skills that were brought in, a project of notes. One new row changes the time of a whole
database, so of databases it is the size that counts, beside what the journal says of them then.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import field

from safekept.core.records import dataclass
from safekept.home.layout import Layout

#: So many entries are looked at, the ones at the top first: a prompt asks for this, too.
MOST = 4000


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """Files that are newer than a snapshot, among those that were looked at."""

    files: int = 0
    bytes: int = 0
    looked: int = 0
    grown: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # database: its bytes then, and now


def changed_since(
    home: str, layout: Layout, when: float, databases: Mapping[str, int] | None = None, most: int = MOST
) -> ChangedSince:
    """Look at a home from its top down; what cannot be looked at counts as nothing.

    `databases`: what each of them took then, its log included; None where that is unknown.
    """
    files = size = looked = 0
    there = dict.fromkeys(databases or (), 0)
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
            if facts.st_mtime <= when or layout.excluded(path) is not None or layout.machine_bound(path):
                continue
            main = path.removesuffix("-wal").removesuffix("-shm").removesuffix("-journal")
            if layout.database(main):
                there.setdefault(main, 0)
            else:
                files, size = files + 1, size + facts.st_size
    grown = {} if databases is None else _grown(home, {path: databases.get(path, 0) for path in there})
    return ChangedSince(files, size, looked, grown)


def _grown(home: str, databases: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Those that are larger than they were, however deep they lie."""
    found = {}
    for path, then in databases.items():
        now = sum(_size(os.path.join(home, path + end)) for end in ("", "-wal", "-journal"))
        if now > then:
            found[path] = (then, now)
    return found


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
