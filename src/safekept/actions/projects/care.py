"""The care of all checkpoints: how they are, and what may go."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field, replace

from safekept.checkpoints.hermes import LegacyArchive, legacy_archives
from safekept.checkpoints.project import ORPHAN, presence
from safekept.checkpoints.state import State, read_state
from safekept.checkpoints.store import Damage, Store, current_damage
from safekept.checkpoints.upkeep import (
    Drop,
    Limits,
    ProjectPoints,
    RetentionPlan,
    Soundness,
    StoreSize,
    Upkeep,
    UpkeepRequest,
    dropped,
    make_plan,
    measure,
    read_upkeep,
    run_maintenance,
    survey,
)
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.core.trash import GRACE

from ..base.context import UserContext
from ..base.operations.projects import CheckpointsClearFacts, CheckpointsPruneFacts
from ..base.record import record, recording
from .checkpoint import CheckpointPolicy
from .project import checkpoint_directory
from .rollback import checkpoint_store

_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """One project: what there is of it, and whether taking them works."""

    project: str
    presence: str  # live, orphan, unreachable
    reason: str
    checkpoints: int
    numbered: int
    newest_ns: int
    state: State  # last success, last failure, and whether only named files are taken
    damaged: tuple[str, ...] = ()  # ids of checkpoints that are not whole any more

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return _time(self.state.last_failure) > _time(self.state.last_success)

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "presence": self.presence,
            "presence_reason": self.reason,
            "checkpoints": self.checkpoints,
            "numbered": self.numbered,
            "newest_ns": self.newest_ns,
            "last_success": self.state.last_success,
            "last_failure": self.state.last_failure,
            "failing": self.failing,
            "limited": self.state.limited,
            "unprotected": self.state.unprotected,
            "notices": self.state.notices,
            "damaged": list(self.damaged),
        }


def _time(entry: Mapping[str, object]) -> int:
    value = entry.get("time_ns")
    return value if isinstance(value, int) else 0


@dataclass(slots=True)
class CheckpointStatus:
    """Everything that `safekept checkpoint status` shows."""

    directory: str
    size: StoreSize
    limits: Limits
    projects: list[ProjectStatus]
    upkeep: Upkeep
    damage: Damage
    legacy: list[LegacyArchive] = field(default_factory=list)
    dropped: int = 0  # checkpoints that were dropped and can still be brought back
    dropped_until: float = 0.0  # the first of them goes then

    @property
    def healthy(self) -> bool:
        failing = any(project.failing for project in self.projects)
        damaged = self.upkeep.damage or self.damage.packs or any(one.damaged for one in self.projects)
        return not self.upkeep.failures and not damaged and not failing

    def as_dict(self) -> dict[str, object]:
        return {
            "directory": self.directory,
            "size": self.size.as_dict(),
            "limits": self.limits.as_dict(),
            "projects": [project.as_dict() for project in self.projects],
            "maintenance": self.upkeep.as_dict(),
            "damaged_packs": sorted(self.damage.packs),
            "legacy": [archive.as_dict() for archive in self.legacy],
            "dropped": self.dropped,
            "dropped_until": self.dropped_until or None,
            "healthy": self.healthy,
        }


def checkpoint_status(
    context: UserContext, policy: CheckpointPolicy, listener: Listener = silent
) -> CheckpointStatus:
    """How the checkpoints of all projects are. Projects come newest first."""
    with checkpoint_store(context, listener) as store:
        found = survey(store)
        soundness = Soundness(store)
        projects = [_status(store.project_directory(each.project), each, soundness) for each in found]
        projects += _never_taken(store, {each.project for each in found})
        size = measure(store.directory, store.repository)
        directory = store.directory
    projects.sort(key=lambda one: (-one.newest_ns, one.project))
    ordinary_ns = int(policy.maintenance.grace_seconds * 1e9)
    ends = [one.until_ns(ordinary_ns) for one in dropped(directory)]
    waiting = [end for end in ends if end >= time.time_ns()]
    return CheckpointStatus(
        directory,
        size,
        policy.maintenance.limits,
        projects,
        read_upkeep(directory),
        current_damage(directory),
        legacy_archives(directory),
        len(waiting),
        min(waiting) / 1e9 if waiting else 0.0,
    )


def _never_taken(store: Store, known: set[str]) -> list[ProjectStatus]:
    """Projects that were tried and have no checkpoint: those above all must not be silent."""
    found = []
    base = os.path.join(store.directory, "projects")
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        state = read_state(os.path.join(base, name))
        tried = state.last_failure or state.unprotected
        if state.project and state.project not in known and tried:
            seen = presence(os.path.join(base, name), state.project)
            found.append(ProjectStatus(state.project, seen.state, seen.reason, 0, 0, 0, state))
    return found


def _status(place: str, each: ProjectPoints, soundness: Soundness) -> ProjectStatus:
    return ProjectStatus(
        project=each.project,
        presence=each.presence.state,
        reason=each.presence.reason,
        checkpoints=len(each.checkpoints),
        numbered=sum(1 for point in each.checkpoints if point.numbered),
        newest_ns=max((point.time_ns for point in each.checkpoints), default=0),
        state=read_state(place),
        damaged=tuple(point.id for point in soundness.damaged(each.checkpoints)),
    )


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """What to hold against the limits; None takes what the settings say."""

    retention_days: float | None = None
    max_size_mb: float | None = None
    keep_orphans: bool = False


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did."""

    operation: str
    plan: RetentionPlan
    upkeep: Upkeep
    facts: CheckpointsPruneFacts  # what the journal says of it, and every document

    @property
    def kept_until(self) -> float:
        """Until when what was dropped can be brought back; 0: it is gone for good."""
        return self.facts.kept_until or 0.0


def plan_prune(
    context: UserContext, policy: CheckpointPolicy, request: PruneRequest, listener: Listener = silent
) -> tuple[RetentionPlan, list[ProjectPoints]]:
    """What would go, and every project with its presence. Nothing is changed."""
    limits = policy.maintenance.limits
    if request.retention_days is not None:
        limits = replace(limits, retention_days=request.retention_days)
    if request.max_size_mb is not None:
        limits = replace(limits, max_total_bytes=int(request.max_size_mb * 1_000_000))
    with checkpoint_store(context, listener) as store:
        projects = survey(store)
        orphans = policy.delete_orphans and not request.keep_orphans
        return make_plan(store, projects, limits, time.time_ns(), drop_orphans=orphans), projects


def plan_clear(context: UserContext, listener: Listener = silent) -> RetentionPlan:
    """Everything goes: what that would be."""
    with checkpoint_store(context, listener) as store:
        projects = survey(store)
        size = measure(store.directory, store.repository).total
    drops = [Drop(point, "clear") for each in projects for point in each.checkpoints]
    orphans = tuple(each.project for each in projects if each.presence.state == ORPHAN)
    return RetentionPlan(tuple(drops), orphans, size, 0, 0)


def carry_out_prune(
    context: UserContext,
    policy: CheckpointPolicy,
    plan: RetentionPlan,
    *,
    everything: bool = False,
    now: bool = False,
    listener: Listener = silent,
) -> Pruned:
    """Drop what the plan says, then pack and reclaim what is past its grace; with `now`, without grace.

    `everything`: the plan is that of a clearing.
    """
    directory = checkpoint_directory(context)
    operation, began = new_id(), time.monotonic()
    repository = os.path.join(directory, "store")
    before = measure(directory, repository).total
    work = CheckpointsClearFacts() if everything else CheckpointsPruneFacts()
    with recording(context, operation, work, listener):
        upkeep = run_maintenance(
            directory,
            policy.maintenance,
            plan=plan,
            thorough=True,
            wait=_WAIT,
            attended=UpkeepRequest(operation, GRACE, now),
        )
    _drop_hidden(context, policy, now, listener)
    work.dropped, work.orphans = upkeep.dropped, tuple(plan.orphans)
    work.size_before, work.size_after = before, measure(directory, repository).total
    ordinary_ns = int(policy.maintenance.grace_seconds * 1e9)
    waiting = [one.until_ns(ordinary_ns) for one in dropped(directory) if one.operation == operation]
    work.kept_until = min(waiting) / 1e9 if upkeep.dropped and waiting else 0.0
    work.seconds = round(time.monotonic() - began, 3)
    record(context, work.line(operation, "done"), listener)
    return Pruned(operation, plan, upkeep, work)


def _drop_hidden(context: UserContext, policy: CheckpointPolicy, now: bool, listener: Listener) -> None:
    """The hidden half of what was dropped goes with it, when it cannot be brought back any more."""
    from .hidden.record import hidden_exists

    if hidden_exists(context):
        from .hidden.retention import drop_unneeded

        with checkpoint_store(context, listener) as store:
            drop_unneeded(context, store, total=policy.hidden_total, now=now, listener=listener)
