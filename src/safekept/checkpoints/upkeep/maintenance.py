"""Maintenance: retention, packing, deleting what no point holds; detached, locked, niced, bounded.

It is started after a take, never waited for, and at most every `min_interval_seconds`. In between, a
run may come sooner for two reasons: many small packs, which it only joins, and a store that has grown
beyond its limit. Only one run works at a time; a second one ends at once. Any number of runs may be
killed at any point: `tidy` says why that is harmless. How the last run went, and how many failed in a
row, is written down and shown by `safekept checkpoint status`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, field
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.files import free_bytes
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.processes.process import run_detached
from safekept.core.records import dataclass

from ..store.quarantine import maintenance_lock
from ..store.repository import StoreUnusable
from .last_run import Upkeep, read_upkeep, write_upkeep
from .retention import Limits, RetentionPlan
from .size import Running, add_written, measure, set_running_total

if TYPE_CHECKING:
    from ..store.refs import Refs
    from ..store.store import Store
    from .tidy import Tidy

_STAMP = "maintenance-started"
_SECOND_NS = 1_000_000_000
#: So many packs slow down the search for an object; every take leaves one.
_PACKS = 100
#: Below this much free space nothing is kept for grace's sake.
_FLOOR_BYTES, _FLOOR_SHARE = 1 << 30, 0.05


class GitMissing(SafekeptError):
    code = "git-missing"


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """How often, how long, and what may go."""

    limits: Limits = field(default_factory=Limits)
    auto_prune: bool = True
    min_interval_seconds: float = 86_400.0
    sooner_seconds: float = 300.0  # between two runs of any kind
    grace_seconds: float = 3600.0
    bound_seconds: float = 600.0

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MaintenanceSettings:
        fields = json.loads(text)
        return cls(**{**fields, "limits": Limits(**fields["limits"])})


@dataclass(frozen=True, slots=True)
class UpkeepRequest:
    """What a person wants of a run: how long what it drops can be brought back, or all of it gone at once."""

    operation: str = ""
    grace_seconds: float = 0.0  # 0: the ordinary grace
    now: bool = False  # no grace for anything that is dropped, now or before


def start_if_due(directory: str, settings: MaintenanceSettings, *, written: int = 0, packs: int = 0) -> bool:
    """After a take: note what it wrote, and start a run in the background if one is due. Never raises.

    `packs` is how many the store has, as the take saw it: joining many small ones is worth a run.
    """
    try:
        running = add_written(directory, written)
        stamp = os.path.join(directory, _STAMP)
        try:
            since = time.time() - os.stat(stamp).st_mtime
        except FileNotFoundError:
            # The first take of a store: there is nothing to maintain, the clock starts now.
            _touch(stamp)
            return False
        if not _due(since, running, packs, settings):
            return False
        _touch(stamp)
        start_detached(directory, settings)
        return True
    except OSError:
        return False


def _due(since: float, running: Running, packs: int, settings: MaintenanceSettings) -> bool:
    if since < 0 or since >= settings.min_interval_seconds:
        return True  # a stamp from the future is a clock that was put back
    if since < settings.sooner_seconds or not running.takes:
        return False
    limit = settings.limits.max_total_bytes
    too_large = settings.auto_prune and 0 < limit < running.total
    return too_large or packs >= _PACKS or running.takes >= 2 * _PACKS


def start_detached(directory: str, settings: MaintenanceSettings) -> None:
    """Start a run that is no child of ours."""
    run_detached("safekept.checkpoints.upkeep.maintenance", directory, settings.as_json())


def main() -> None:
    """The detached process: `python -c … ROOT DIRECTORY SETTINGS`."""
    os.nice(19)
    os.umask(0o077)
    try:
        run_maintenance(sys.argv[2], MaintenanceSettings.from_json(sys.argv[3]))
    except (SafekeptError, OSError):
        sys.exit(1)  # it is written down


def run_maintenance(
    directory: str,
    settings: MaintenanceSettings,
    *,
    plan: RetentionPlan | None = None,
    thorough: bool = False,
    wait: float = 0.0,
    attended: UpkeepRequest | None = None,
) -> Upkeep:
    """One run. With `plan` that is carried out; otherwise one is made, without orphans, if one is due.

    `attended`: a person asked for it.
    Raises AlreadyRunning where another run is at work; every other failure is written down first.
    """
    with _alone(directory, wait):
        upkeep = read_upkeep(directory)
        upkeep.started, upkeep.remarks = time.time(), []
        try:
            _run(directory, settings, upkeep, plan, thorough, attended or UpkeepRequest())
        except AlreadyRunning:
            raise
        except Exception as error:
            upkeep.failures += 1
            upkeep.error = f"{type(error).__name__}: {error}"[:500]
            upkeep.ended = time.time()
            write_upkeep(directory, upkeep)
            raise
        upkeep.failures, upkeep.error = 0, ""
        upkeep.ended = upkeep.succeeded = time.time()
        write_upkeep(directory, upkeep)
        return upkeep


@contextlib.contextmanager
def _alone(directory: str, wait: float) -> Iterator[None]:
    """The lock of maintenance. Raises AlreadyRunning, and StoreUnusable where it cannot be had at all."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(process_lock(maintenance_lock(directory), "maintenance of checkpoints", wait))
        except OSError as error:
            raise StoreUnusable(
                f"The checkpoint store at `{directory}` cannot be changed: {error.strerror or error}",
                kept="No checkpoint was dropped",
                next_steps=("Make the place writable, then run the command again",),
                path=directory,
            ) from error
        yield


@contextlib.contextmanager
def _room_does_not_matter() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _run(
    directory: str,
    settings: MaintenanceSettings,
    upkeep: Upkeep,
    plan: RetentionPlan | None,
    thorough: bool,
    attended: UpkeepRequest,
) -> None:
    from ..store.git import find_git
    from ..store.refs import Refs, pack_refs
    from ..store.store import Store
    from .surveying import make_plan, survey
    from .tidy import OutOfTime, Tidy

    git = find_git()
    if git is None:
        raise GitMissing(
            "git is not installed, so checkpoints cannot be packed",
            kept="All checkpoints are kept as they are",
            next_steps=("Install git; the next run catches up",),
        )
    store = Store.open(directory)
    try:
        store.belt.open_all()  # git writes anywhere in it
        tidy = Tidy(directory, store.repository, git, time.monotonic() + settings.bound_seconds)
        tidy.mend()
        size = measure(directory, store.repository).total
        full = thorough or plan is not None or _full_is_due(upkeep, size, settings)
        now_ns, tight = time.time_ns(), attended.now or _no_room(directory)
        # Within its limit the store has room for a longer grace; beyond it only for the ordinary one.
        longer = not 0 < settings.limits.max_total_bytes < size
        if full and (plan is not None or settings.auto_prune):
            plan = plan or make_plan(store, survey(store), settings.limits, now_ns)
            _drop_points(store, plan, upkeep, attended, now_ns, longer=longer)
        refs = Refs(store.repository)
        try:
            if full:
                grace_ns = 0 if tight else int(settings.grace_seconds * _SECOND_NS)
                _delete_unneeded(directory, refs, tidy, settings, upkeep, now_ns, grace_ns, thorough, longer)
            else:
                tidy.join()
            with _room_does_not_matter():
                pack_refs(refs)
        except OutOfTime:
            upkeep.remarks.append(
                f"the run was ended after {settings.bound_seconds:.0f} seconds; the next goes on"
            )
        upkeep.freed = tidy.result.freed
        upkeep.remarks += tidy.result.remarks
        with contextlib.suppress(OSError):
            set_running_total(directory, measure(directory, store.repository).total)
    finally:
        store.close()


def _drop_points(
    store: Store, plan: RetentionPlan, upkeep: Upkeep, attended: UpkeepRequest, now_ns: int, *, longer: bool
) -> None:
    """Let go of the points that the plan names."""
    from .dropping import drop_checkpoints, tidy_records

    upkeep.dropped = drop_checkpoints(
        store,
        [drop.checkpoint for drop in plan.drop],
        now_ns,
        operation=attended.operation,
        grace_ns=int(attended.grace_seconds * _SECOND_NS) if longer else 0,
    )
    upkeep.still_over = plan.still_over
    if upkeep.dropped:
        tidy_records(store)


def _delete_unneeded(
    directory: str,
    refs: Refs,
    tidy: Tidy,
    settings: MaintenanceSettings,
    upkeep: Upkeep,
    now_ns: int,
    grace_ns: int,
    thorough: bool,
    longer: bool,
) -> None:
    """Pack what is needed, and delete what no point needs and no grace holds any more."""
    from ..project import project_id
    from ..store.damage import note_findings
    from ..store.repositories.own_repository import drop_unused
    from .dropping import dropped as all_dropped
    from .dropping import forget_dropped, held_by_grace

    # Not the age of the file but the time of the drop decides; what is written and not held
    # yet is protected by its age besides.
    youth_ns = int(min(settings.grace_seconds, 600) * _SECOND_NS)
    if thorough and not grace_ns:  # a person waits for room, and the two rules hold without it
        youth_ns = 0
    horizon_ns = now_ns - max(grace_ns, youth_ns)

    def roots() -> set[str]:
        held = {commit for project in refs.projects() for commit in refs.of(project).values()}
        waiting = held_by_grace(directory, now_ns, grace_ns, longer=longer) if grace_ns else set()
        return held | waiting

    known = [name for name, since in upkeep.damage.items() if time.time() - since > 86_400]
    tidy.expire(roots, horizon_ns, thorough, known)
    if tidy.result.no_room and thorough and grace_ns:
        # A person waits for room, and there is none to keep anything for grace's sake.
        grace_ns = 0
        tidy.expire(roots, now_ns, thorough, known)
    if tidy.result.no_room:
        upkeep.remarks.append("there was no room to pack; only what nothing needs was deleted")
    spare_ns = grace_ns
    forget_dropped(
        directory,
        lambda one: not spare_ns or one.until_ns(spare_ns, longer=longer) < now_ns,
    )
    known_to_drop = {project_id(one.project) for one in all_dropped(directory)}
    with_points = refs.projects()
    drop_unused(directory, lambda one: one in with_points or one in known_to_drop)
    upkeep.full = time.time()
    upkeep.damage = {n: upkeep.damage.get(n, time.time()) for n in tidy.result.damage}
    note_findings(directory, tidy.result.damage)


def _full_is_due(upkeep: Upkeep, size: int, settings: MaintenanceSettings) -> bool:
    since = time.time() - upkeep.full
    if since < 0 or since >= settings.min_interval_seconds:
        return True
    return settings.auto_prune and 0 < settings.limits.max_total_bytes < size


def _no_room(directory: str) -> bool:
    facts = os.statvfs(directory)
    return free_bytes(directory) < min(_FLOOR_BYTES, int(facts.f_blocks * facts.f_frsize * _FLOOR_SHARE))


def _touch(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.utime(descriptor)
    os.close(descriptor)
