"""The hidden half goes with its checkpoint, and all of it stays within its limit.

A snapshot is needed while a checkpoint names its look, or was dropped so lately that it can still be brought
back; and the newest of each project always is. Beyond `checkpoints.hidden_total` the oldest go first.
Snapshots are removed before their data, and their data only under a lock of its own: a kill delays a
deletion, and never causes one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from safekept.checkpoints.project import project_id
from safekept.checkpoints.scan import KeptHidden, KeptLook
from safekept.checkpoints.store import Store
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.trash import GRACE
from safekept.vault.care import carry_out, plan_prune
from safekept.vault.repo import Lock, Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind

from ...base.context import UserContext
from .lines_again import all_lines_again
from .record import hidden_exists
from .repository import open_hidden

#: Seconds for which a snapshot that no line names is left alone: its line may be about to be written.
_YOUNG = 3600.0


def drop_unneeded(
    context: UserContext, store: Store, *, total: int = 0, now: bool = False, listener: Listener = silent
) -> int:
    """Drop what is not needed any more; how many snapshots went. `now`: what was dropped lately goes, too.

    A repository that is in use, or does not open, is left for another time.
    """
    if not hidden_exists(context):
        return 0
    if not _all_there(context, store, listener):
        return 0
    kept = _lines(store)
    grace = 0.0 if now else GRACE
    gone = 0
    for project, lines in kept.items():
        gone += len(lines.keep_only(_needed(store, project, lines, grace)))
    named = {one.snapshot for lines in kept.values() for one in lines.looks.values()}
    if not gone and not total:
        return 0
    try:
        with open_hidden(context, listener=listener) as repository:
            return _drop(repository, kept, named, total, bool(gone), now, listener)
    except (SafekeptError, OSError):
        return 0


def _all_there(context: UserContext, store: Store, listener: Listener) -> bool:
    """See that every project has its lines: what no line names would be dropped."""
    records = (store.project_directory(project) for project in store.projects())
    if all(os.path.exists(KeptHidden(place).path) for place in records):
        return True
    try:
        with open_hidden(context, listener=listener) as repository:
            all_lines_again(context, repository)
    except (SafekeptError, OSError):
        return False
    return True


def _lines(store: Store) -> dict[str, KeptHidden]:
    """The lines of every project, by its id; of those, too, whose checkpoints are all gone."""
    place = os.path.join(store.directory, "projects")
    return {name: KeptHidden(os.path.join(place, name)) for name in os.listdir(place)}


class _Needed:
    """Which lines of one project are needed."""

    def __init__(self, lines: KeptHidden, looks: set[str], grace: float) -> None:
        self._looks = looks
        self._since = time.time_ns() - int(grace * 1e9)
        self._newest = max(lines.looks.values(), key=lambda one: one.time_ns, default=None) if looks else None

    def __call__(self, one: KeptLook) -> bool:
        return one.look in self._looks or one.time_ns > self._since or one is self._newest


def _needed(store: Store, identity: str, lines: KeptHidden, grace: float) -> _Needed:
    path = store.project_path(identity)
    points = store.checkpoints(path) if path is not None and project_id(path) == identity else []
    held = (lines.of(point) for point in points)
    return _Needed(lines, {one.look for one in held if one is not None}, grace)


def _drop(
    repository: Repository,
    kept: Mapping[str, KeptHidden],
    named: set[str],
    total: int,
    dropped: bool,
    now: bool,
    listener: Listener,
) -> int:
    size = sum(size for _, size in repository.storage.list(FileKind.PACK))
    if not dropped and (not total or size <= total):
        return 0
    with repository.lock(exclusive=True, wait=5.0) as lock:
        snapshots = list_snapshots(repository)[0]
        young = time.time_ns() - (0 if now else int(_YOUNG * 1e9))
        going = [one.id for one in snapshots if one.id not in named and one.time_ns < young]
        for name in going:
            repository.delete_snapshot(name)
        count = len(going)
        if going or dropped:
            size = _prune(repository, lock, listener)
        while total and size > total and (oldest := _oldest(kept)):
            for lines, one in oldest:
                lines.drop(one.snapshot)
                if one.snapshot in {snapshot.id for snapshot in list_snapshots(repository)[0]}:
                    repository.delete_snapshot(one.snapshot)
                    count += 1
            size = _prune(repository, lock, listener)
    return count


def _oldest(kept: Mapping[str, KeptHidden]) -> list[tuple[KeptHidden, KeptLook]]:
    """A tenth of all lines, the oldest, but none that is the newest of its project."""
    rows = [
        (lines, one)
        for lines in kept.values()
        for one in sorted(lines.looks.values(), key=lambda one: one.time_ns)[:-1]
        if one.snapshot
    ]
    rows.sort(key=lambda row: row[1].time_ns)
    return rows[: max(1, len(rows) // 10)]


def _prune(repository: Repository, lock: Lock, listener: Listener) -> int:
    carry_out(repository, plan_prune(repository, now_ns=time.time_ns(), grace=0), lock, listener=listener)
    return sum(size for _, size in repository.storage.list(FileKind.PACK))
