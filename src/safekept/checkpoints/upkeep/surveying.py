"""What there is to decide about: every project with its checkpoints, whether it lives, what is in use."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from safekept.core.locks import lock_is_held

from ..checkpoint import Checkpoint
from ..points.rollback_plan import RollbackJournal
from ..project import LIVE, presence, remember_place
from ..state import read_state
from ..store.object_store import ObjectStore
from ..store.objects import BadObject
from ..store.store import Store
from .inventory import Reach, bytes_held, take_inventory
from .retention import DAY_NS, Limits, ProjectPoints, RetentionPlan, plan_retention
from .size import measure

_AT_WORK_NS = 7 * DAY_NS


def survey(store: Store) -> list[ProjectPoints]:
    """Every project of the store; a living one is remembered as such."""
    found = []
    for project in store.projects():
        points = store.checkpoints(project)
        place = store.project_directory(project)
        state = presence(place, project)
        if state.state == LIVE:
            remember_place(place, project)
        used = frozenset(point.id for point in points) if _rollback_in_progress(place) else frozenset()
        found.append(ProjectPoints(project, points, state, used, _before_sessions(place, points)))
    return found


def _before_sessions(place: str, points: Sequence[Checkpoint]) -> frozenset[str]:
    """The oldest point of each session whose turn was not marked as ended.

    A long run of an agent takes more points than are kept, and the one that is wanted most is the first.
    One that was killed never ends; after some days it counts as ended.
    """
    sessions = {turn[0] for turn in read_state(place).turns if turn and turn[0]}
    since = time.time_ns() - _AT_WORK_NS
    oldest: dict[str, Checkpoint] = {}
    for point in points:  # newest first
        if point.numbered and point.session in sessions:
            oldest[point.session] = point
    return frozenset(point.id for point in oldest.values() if point.time_ns > since)


def make_plan(
    store: Store,
    projects: Sequence[ProjectPoints],
    limits: Limits,
    now_ns: int,
    *,
    drop_orphans: bool = False,
) -> RetentionPlan:
    """The plan for these limits, with sizes as they really are.

    Measured against the size limit is what checkpoints hold, not what lies on the disk: what was
    dropped and waits for its grace to pass must not cost a second checkpoint its life.
    """
    on_disk = measure(store.directory, store.repository)
    if not limits.max_total_bytes or on_disk.total <= limits.max_total_bytes:
        return plan_retention(projects, limits, now_ns, total_bytes=on_disk.total, drop_orphans=drop_orphans)
    sizes = take_inventory(store.repository).sizes()
    objects = ObjectStore(os.path.join(store.repository, "objects"))

    def read(name: bytes) -> bytes | None:
        try:
            return objects.read(name)[1]
        except (BadObject, OSError):
            return None

    try:
        everything = [point for each in projects for point in each.checkpoints]
        whole = Reach(read, sizes.get)
        held = sum(whole.add(point.commit) for point in everything)

        def bytes_of_each(order: Sequence[Checkpoint]) -> list[int]:
            going = {point.id for point in order}
            return bytes_held(order, [p for p in everything if p.id not in going], Reach(read, sizes.get))

        return plan_retention(
            projects,
            limits,
            now_ns,
            total_bytes=held + on_disk.other_bytes,
            bytes_held=bytes_of_each,
            drop_orphans=drop_orphans,
        )
    finally:
        objects.close()


def _rollback_in_progress(project_directory: str) -> bool:
    """Whether a rollback runs there, or was killed and waits to be finished: then all points are in use."""
    if RollbackJournal(project_directory).pending():
        return True
    return lock_is_held(os.path.join(project_directory, "rollback.lock"))
