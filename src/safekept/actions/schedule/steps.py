"""The pieces of work of a scheduled run, each by itself: what it does, and how it ended in a line.

A step raises what its action raises. Whether that is tried again, notified or left for the next
run is not decided here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.agents import recognise_home
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.home.scan import Selection
from safekept.schedule import tasks
from safekept.schedule.tasks import Plan, Task

from ..base.context import HomeRef, UserContext
from ..base.own_places import known_homes
from ..offsite.destination import VAULT

if TYPE_CHECKING:
    from ..projects.checkpoint import CheckpointPolicy

DONE, INCOMPLETE, FAILED = "done", "incomplete", "failed"
POSTPONED, ABSENT, OUT_OF_TIME = "postponed", "absent", "out-of-time"
#: Seconds to wait for a process that has the vault locked.
WAIT = 120.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    """How the work is done: what the settings say about snapshots, archives and checkpoints."""

    selection: Selection = field(default_factory=Selection)
    deadline: float = 30.0  # seconds without progress before a locked database is given up
    form: str = "zip"
    seal: tuple[str, ...] = ()  # recipients; without any there is no archive
    policy: CheckpointPolicy | None = None
    everything: bool = False  # also what is not due yet
    tries: int = 3  # for what may be tried again


@dataclass(frozen=True, slots=True)
class Work:
    """What every step needs."""

    context: UserContext
    plan: Plan
    request: RunRequest
    now: float
    listener: Listener = silent

    @property
    def now_ns(self) -> int:
        return int(self.now * 1e9)

    def place(self, home: str) -> HomeRef:
        return self.context.locate(home)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a step ended."""

    state: str
    text: str = ""
    error: str = ""


def tasks_of(context: UserContext, plan: Plan, request: RunRequest) -> list[Task]:
    """Everything that is to be done regularly, in the order in which it is done."""
    from safekept.schedule.tasks import DAY

    from ..projects.project import checkpoint_directory

    found = []
    for home in homes_of(context, plan):
        found.append(Task(tasks.SNAPSHOT, home, limit=plan.overdue_hours * 3600))
        if request.seal:
            found.append(Task(tasks.ARCHIVE, home, limit=plan.push_overdue_days * DAY))
        for kind, days in ((tasks.DRILL, plan.drill_days), (tasks.SMALL_DRILL, plan.small_drill_days)):
            if days:
                # What could not be proven once cannot be an hour later either.
                found.append(Task(kind, home, days * DAY, limit=(2 * days + 1) * DAY, again=False))
    for destination in context.choices.destinations:
        found.append(Task(tasks.PUSH, destination.name, limit=plan.push_overdue_days * DAY))
    if plan.prune_days:
        found.append(Task(tasks.PRUNE, every=plan.prune_days * DAY))
    if plan.checkpoint_days and os.path.isdir(os.path.join(checkpoint_directory(context), "store")):
        found.append(Task(tasks.CHECKPOINTS, every=plan.checkpoint_days * DAY))
    return sorted(found, key=lambda task: tasks.ORDER.index(task.kind))


def homes_of(context: UserContext, plan: Plan) -> list[str]:
    """The homes to look after, links resolved; they need not be there.

    Those that the settings name; else the usual one, where it is or was here, and those of every other agent
    that is here.
    """
    if plan.homes:
        return [context.locate(home, existing=False).home for home in plan.homes]
    usual = context.locate(existing=False)
    meant = usual.named or os.path.lexists(usual.home) or context.was_here(usual.home)
    here = (path for path in known_homes(context) if os.path.isdir(path))
    found = [path for path in here if recognise_home(path, context.home_places)]
    return list(dict.fromkeys([*([usual.home] if meant else []), *found])) or [usual.home]


def archives_directory(context: UserContext, plan: Plan) -> str:
    return plan.archives or os.path.join(context.places.data_directory, "archives")


def perform(work: Work, task: Task) -> Ended:
    """Do one piece of work; raises what it raises."""
    return _STEPS[task.kind](work, task)


def _snapshot(work: Work, task: Task) -> Ended:
    from ..snapshots.create import SnapshotRequest, create_snapshot

    request = SnapshotRequest(
        work.place(task.subject),
        kind="scheduled",
        selection=work.request.selection,
        deadline=work.request.deadline,
        wait=WAIT,
        now_ns=work.now_ns,
    )
    result = create_snapshot(work.context, request, work.listener)
    text = f"snapshot {result.id[:8]}, {_count(result.files, 'file')}, {result.added:,} bytes new"
    if result.complete:
        return Ended(DONE, text)
    missing = [remark.path for remark in result.remarks if remark.incomplete]
    return Ended(INCOMPLETE, f"{text}; not complete: {_some(missing)}", "incomplete")


def _archive(work: Work, task: Task) -> Ended:
    from safekept.core.files import private_directory

    from ..archives.backup import BackupRequest, backup

    directory = archives_directory(work.context, work.plan)
    private_directory(directory)
    request = BackupRequest(
        work.place(task.subject),
        output=os.path.join(directory, ""),
        form=work.request.form,
        selection=work.request.selection,
        keep=work.plan.keep,
        deadline=work.request.deadline,
        seal=work.request.seal,
        now=work.now,
    )
    result = backup(work.context, request, work.listener)
    text = f"{os.path.basename(result.written.path)}, {result.written.stored_bytes:,} bytes"
    if result.written.complete:
        return Ended(DONE, text)
    missing = [remark.path for remark in result.written.remarks if remark.incomplete]
    return Ended(INCOMPLETE, f"{text}; not complete: {_some(missing)}", "incomplete")


def _push(work: Work, task: Task) -> Ended:
    from ..offsite.push.push import push
    from ..offsite.push.result import ABSENT as PLACE_ABSENT
    from ..offsite.push.result import PushRequest

    archives = archives_directory(work.context, work.plan)
    request = PushRequest(task.subject, archive_directory=archives if os.path.isdir(archives) else "")
    result = push(work.context, request, work.listener)
    if result.state == PLACE_ABSENT:
        return Ended(ABSENT, result.reason, "destination-absent")
    snapshots = result.mirrored.snapshots if result.mirrored else 0
    sent = f"{_count(snapshots, 'snapshot')} and {_count(len(result.archives.sent), 'archive')}"
    text = f"{sent}, {result.bytes:,} bytes sent"
    if VAULT in _takes(work.context, task.subject) and result.mirrored is None:
        return Ended(FAILED, f"the vault is not there, so it was not sent; {text}", "no-such-vault")
    if not result.complete:
        return Ended(FAILED, "; ".join(["not everything was sent", text, *result.notes]), "push-incomplete")
    return Ended(DONE, text)


def _takes(context: UserContext, destination: str) -> tuple[str, ...]:
    return next((one.takes for one in context.choices.destinations if one.name == destination), ())


def absent(context: UserContext, destination: str) -> bool:
    """Whether it is a disk that was here before and is not plugged in now: nothing to try, and no failure."""
    from ..offsite.place import MARKER, known_place

    with contextlib.suppress(OSError):  # where that is unknown, the push itself says so
        for one in context.choices.destinations:
            if one.name == destination and one.is_file and known_place(context, one):
                return not os.path.lexists(os.path.join(one.url.removeprefix("file:"), MARKER))
    return False


def _prune(work: Work, task: Task) -> Ended:
    from ..undo.dropped import empty_all_trash
    from ..vault.care import plan_vault_prune, prune_vault
    from ..vault.opening import open_vault, vault_exists

    empty_all_trash(work.context, now=work.now)
    if not vault_exists(work.context):
        return Ended(DONE, "there is no vault yet")
    with open_vault(work.context, listener=work.listener) as repository:
        plan = plan_vault_prune(repository, now_ns=work.now_ns, wait=WAIT, listener=work.listener)
        if plan.empty:
            return Ended(DONE, "nothing to give back")
        pruned = prune_vault(work.context, repository, plan, wait=WAIT, listener=work.listener)
    gone = _count(pruned.snapshots, "forgotten snapshot")
    text = f"{gone} gone, {max(pruned.bytes_freed, 0):,} bytes given back"
    if pruned.damaged:
        damaged = _count(len(pruned.damaged), "damaged pack")
        return Ended(INCOMPLETE, f"{text}; {damaged}, which a check of the vault names", "damaged-packs")
    return Ended(DONE, text)


def _checkpoints(work: Work, task: Task) -> Ended:
    from safekept.checkpoints.upkeep import run_maintenance

    from ..projects.checkpoint import CheckpointPolicy
    from ..projects.project import checkpoint_directory

    policy = work.request.policy or CheckpointPolicy()
    upkeep = run_maintenance(checkpoint_directory(work.context), policy.maintenance, wait=WAIT)
    text = f"{_count(upkeep.dropped, 'checkpoint')} dropped, {upkeep.freed:,} bytes given back"
    return Ended(DONE, "; ".join([text, *upkeep.remarks]))


def _drill(work: Work, task: Task) -> Ended:
    from ..drill.drill import DrillRequest, drill
    from ..vault.opening import vault_exists

    if not vault_exists(work.context):
        return Ended(POSTPONED, "there is no vault to prove anything from")
    small = task.kind == tasks.SMALL_DRILL
    request = DrillRequest(home=task.subject, small=small)
    receipt = drill(work.context, request, work.listener).receipt
    passed = sum(row.state == "passed" for row in receipt.rows)
    if receipt.ok:
        return Ended(DONE, f"{receipt.name[:8]} proven, {_count(passed, 'check')} passed")
    failed = [f"{row.check}: {row.text}" for row in receipt.failed]
    return Ended(FAILED, f"{receipt.name[:8]} could not be proven: {_some(failed)}", "drill-failed")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


_STEPS: dict[str, Callable[[Work, Task], Ended]] = {
    tasks.SNAPSHOT: _snapshot,
    tasks.ARCHIVE: _archive,
    tasks.PUSH: _push,
    tasks.PRUNE: _prune,
    tasks.CHECKPOINTS: _checkpoints,
    tasks.DRILL: _drill,
    tasks.SMALL_DRILL: _drill,
}
