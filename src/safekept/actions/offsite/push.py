"""Take copies off this host: mirror the vault into a destination, and send archives there.

The order is that of the mirror (`vault/mirror`), so the destination is a whole vault at every moment and
a push that was cut short is continued by the next one. Nothing is deleted there unless asked. The vault
here is read under a shared lock, so that no prune takes away what is being sent; there, no lock is ever
written. Before anything leaves, a second way into the vault must exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import NoRoom
from safekept.core.journal import new_id
from safekept.core.locks import process_lock, sweep_locks
from safekept.core.objects.base import CredentialRights, ObjectStore
from safekept.core.objects.errors import PlaceRefused
from safekept.core.records import dataclass
from safekept.vault.errors import VaultUnreachable
from safekept.vault.format import Snapshot
from safekept.vault.mirror import (
    Mirrored,
    MirrorPlan,
    Problem,
    carry_out,
    lost_packs,
    plan_mirror,
    refuse_other_vault,
)
from safekept.vault.repo import Repository
from safekept.vault.storage import ObjectStorage

from ..alarms.alarms import DESTINATION, OVERDUE, end_alarms
from ..base.context import UserContext
from ..base.operations.stores import PushFacts
from ..base.record import record, recording
from ..vault.keys.escrow import send_escrow
from ..vault.keys.keys import removed_keys, require_recovery_access
from ..vault.keys.kit_record import acknowledge_kit
from ..vault.opening import open_vault, vault_exists
from .destination import ARCHIVES, HIDDEN, VAULT, DestinationSetting, usual_takes
from .homes_in_vault import homes_in_vault
from .place import DestinationAbsent, Reach, find_destination, make_ready, remember_place
from .push_archives import ArchivesPushed, push_archives
from .push_hidden import HiddenPushed, push_hidden

DONE, INCOMPLETE, ABSENT = "done", "incomplete", "absent"
#: Seconds for which a push waits for a prune of the vault here.
_WAIT = 60.0
#: Why a prune leaves snapshots there.
_NOT_OURS = (
    "another machine has its copy there too, such as one that was rebuilt from it: "
    "snapshots that were never in the vault here stay, and so does the data of all"
)


@dataclass(frozen=True, slots=True)
class PushRequest:
    """What to send, and where."""

    destination: str  # its name, or a URL
    archives: tuple[str, ...] = ()  # files to send
    archive_directory: str = ""  # where sealed archives lie of which the missing ones are sent
    prune: bool = False  # delete there what the vault here has not any more
    dry_run: bool = False
    vault: bool = True  # mirror the vault, where the destination takes it
    unsealed: bool = False  # archives that the place could read may go
    anew: bool = False  # the place is meant although it is empty now
    acknowledge_kit: bool = False  # a person says that the kit is kept elsewhere


@dataclass(slots=True)
class PushResult:
    """What was sent, what was not, and why."""

    operation: str
    facts: PushFacts  # what the journal says of it, and every document
    place: str
    state: str = DONE
    absence: DestinationAbsent | None = None  # a disk that is not plugged in is a fact, and this is why
    vault: str = ""  # its id
    plan: MirrorPlan | None = None
    mirrored: Mirrored | None = None
    wholes: dict[str, float] = field(default_factory=dict)  # the newest of each home there
    leaving: list[str] = field(default_factory=list)  # snapshots there that a prune deletes
    staying: list[str] = field(default_factory=list)  # and those that it leaves: they were never here
    deleting: int = 0  # files there that a prune deletes
    archives: ArchivesPushed = field(default_factory=ArchivesPushed)
    hidden: HiddenPushed | None = None  # what git hides in projects, where the destination takes it
    rights: CredentialRights | None = None  # what the credential may do there; None: not tried
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    @property
    def reason(self) -> str:
        """Why nothing was sent, where the place is absent."""
        return self.absence.what if self.absence else ""

    @property
    def destination(self) -> str:
        return self.facts.destination or ""

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self._copied) + self.archives.bytes

    @property
    def _copied(self) -> list[Mirrored]:
        hidden = self.hidden.mirrored if self.hidden else None
        return [one for one in (self.mirrored, hidden) if one is not None]

    @property
    def files(self) -> int:
        return sum(one.files for one in self._copied) + len(self.archives.sent)

    @property
    def problems(self) -> list[Problem]:
        return [problem for one in self._copied for problem in one.problems]

    @property
    def complete(self) -> bool:
        return self.state == DONE

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            **self.facts.document("destination", "bytes", "seconds"),
            "place": self.place,
            "state": self.state,
            "reason": self.reason or None,
            "vault": self.vault or None,
            "plan": self.plan.as_dict() if self.plan else None,
            "mirrored": self.mirrored.as_dict() if self.mirrored else None,
            "leaving": list(self.leaving),
            "staying": list(self.staying),
            "archives": self.archives.as_dict(),
            "hidden": self.hidden.as_dict() if self.hidden else None,
            "rights": self.rights.as_dict() if self.rights else None,
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }


def push(
    context: UserContext,
    request: PushRequest,
    listener: Listener = silent,
    reach: Reach | None = None,
) -> PushResult:
    """Send what is missing to one destination. An absent disk is a result; other failures are errors.

    `reach` is the same destination, on its way already; it is closed here.
    """
    setting = find_destination(context, request.destination)
    operation, began = new_id(), time.monotonic()
    work = PushFacts(destination=setting.name, place=setting.url)
    result = PushResult(operation, work, setting.url, dry_run=request.dry_run)
    if request.dry_run:
        _push(context, setting, request, result, listener, reach)
        work.add(_outcome(result))
        return result
    with _one_at_a_time(context, setting):
        record(context, work.line(operation, "begun"), listener)
        with recording(context, operation, work, listener):
            try:
                _push(context, setting, request, result, listener, reach)
            finally:
                # What arrived is remembered, whatever came after it.
                work.archives = tuple(result.archives.ledger())
        result.seconds = time.monotonic() - began
        work.add(_outcome(result))
        record(context, work.line(operation, "done" if result.state == DONE else "incomplete"), listener)
    if result.state == DONE:
        for kind in (DESTINATION, OVERDUE):
            end_alarms(context, kind, "", f"push:{setting.name}", reason="it arrived", listener=listener)
    return result


def _outcome(result: PushResult) -> dict[str, object]:
    mirrored = result.mirrored
    return {
        "absent": result.state == ABSENT,
        "vault": result.vault,
        "snapshots": mirrored.snapshots if mirrored else 0,
        "wholes": dict(result.wholes),
        "files": result.files,
        "bytes": result.bytes,
        "seconds": round(result.seconds, 3),
        "archive": os.path.basename(result.archives.sent[-1]) if result.archives.sent else "",
        "archives": result.archives.ledger(),
        "problems": [problem.as_dict() for problem in result.problems][:100],
        "rights": result.rights.as_dict() if result.rights else None,
    }


@contextlib.contextmanager
def _one_at_a_time(context: UserContext, setting: DestinationSetting) -> Iterator[None]:
    """Two pushes to one place would do no harm, only everything twice."""
    name = hashlib.sha256(setting.url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    path = os.path.join(context.places.data_directory, f"push-{name}.lock")
    with process_lock(path, "push", remove=True):
        sweep_locks(context.places.data_directory, "push-")  # of places that are no longer pushed to
        yield


def _push(
    context: UserContext,
    setting: DestinationSetting,
    request: PushRequest,
    result: PushResult,
    listener: Listener,
    reach: Reach | None,
) -> None:
    with contextlib.ExitStack() as opened:
        # The other side is looked for while the vault here is opened; nothing is written there yet.
        reach = reach or Reach(context, setting)
        opened.callback(reach.close)
        objects = reach.objects
        result.place = objects.location
        repository = None
        if request.vault and VAULT in setting.takes:
            repository = _local_vault(context, request, result, opened, listener)
        listener(Event("connect"))
        try:
            ready = make_ready(context, reach, anew=request.anew, dry_run=request.dry_run)
        except DestinationAbsent as error:
            result.state, result.absence = ABSENT, error
            return
        if not request.dry_run:
            remember_place(context, setting)
        if not ready:
            # A dry run before the first push: everything would be sent, to a place that would be made.
            from safekept.core.objects.memory import MemoryObjects

            objects = MemoryObjects()
            result.notes.append("the place is not there yet, and would be made")
        if repository is not None:
            _mirror(context, repository, objects, setting, request, result, listener)
        if repository is not None and HIDDEN in setting.takes:
            _push_hidden(context, objects, setting, request, result, listener)
        if ARCHIVES in setting.takes:
            push_archives(
                context,
                setting,
                objects,
                result.archives,
                request.archives,
                request.archive_directory,
                unsealed=request.unsealed or setting.unsealed,
                dry_run=request.dry_run,
                listener=listener,
            )
            result.notes += result.archives.notes
        elif request.archives:
            why = "`takes` in its table" if ARCHIVES in usual_takes(setting.url) else "it keeps vaults only"
            result.notes.append(f"`{setting.name}` takes no archives ({why})")
            result.state = INCOMPLETE
        if not request.dry_run:
            result.rights = _rights(setting, objects)


def _push_hidden(
    context: UserContext,
    objects: ObjectStore,
    setting: DestinationSetting,
    request: PushRequest,
    result: PushResult,
    listener: Listener,
) -> None:
    done = result.hidden = push_hidden(
        context,
        objects,
        lanes=setting.connections,
        prune=request.prune,
        dry_run=request.dry_run,
        listener=listener,
    )
    if done is None:
        return
    result.deleting += done.deleting
    if done.trouble:
        result.notes.append(done.trouble)
    if not done.complete:
        result.state = INCOMPLETE


def _rights(setting: DestinationSetting, objects: ObjectStore) -> CredentialRights | None:
    """What may be done there: tried last, and whatever comes of it, everything has arrived."""
    if setting.is_file:  # a disk that this user can write, this user can empty
        return CredentialRights(write=True, overwrite=True, delete=True, versioning=False)
    try:
        return objects.probe()
    except SafekeptError:
        return None


def _local_vault(
    context: UserContext,
    request: PushRequest,
    result: PushResult,
    opened: contextlib.ExitStack,
    listener: Listener,
) -> Repository | None:
    """The vault here, and proof that it opens elsewhere; None where there is none yet and none is needed."""
    if (request.archives or request.archive_directory) and not vault_exists(context):
        result.notes.append("there is no vault yet; only archives were looked at")
        return None
    repository = opened.enter_context(open_vault(context, listener=listener))
    result.vault = repository.id
    if request.acknowledge_kit and not request.dry_run:
        acknowledge_kit(context, repository, listener)
    if not request.dry_run:
        require_recovery_access(context, repository)
    return repository


def _mirror(
    context: UserContext,
    repository: Repository,
    objects: ObjectStore,
    setting: DestinationSetting,
    request: PushRequest,
    result: PushResult,
    listener: Listener,
) -> None:
    target = ObjectStorage(objects.below(directory_of(repository.id)))
    with _held(repository, listener) as check:
        listener(Event("compare"))
        plan = result.plan = plan_mirror(repository.storage, target)
        refuse_other_vault(repository, plan, target)
        if request.prune:
            from safekept.vault.mirror import plan_mirror_prune, prune_mirror

            from ..snapshots.forgetting import snapshots_once_here

            pruning = plan_mirror_prune(
                repository,
                plan,
                target,
                once_here=snapshots_once_here(context),
                removed_keys=removed_keys(context),
            )
            result.deleting = len(pruning.files)
            result.leaving = [_named(one) for one in pruning.leaving]
            result.staying = [f"{_named(one)}, made by {one.hostname}" for one in pruning.staying]
            if pruning.staying:
                result.notes.append(_NOT_OURS)
        if request.dry_run:
            return
        if trouble := send_escrow(context, repository, target.objects, setting.url):
            result.notes.append(trouble)
            result.state = INCOMPLETE
        lanes = setting.connections or objects.lanes
        mirrored = carry_out(plan, repository.storage, target, lanes=lanes, check=check, listener=listener)
        mirrored.problems += lost_packs(repository, plan.packs)
        result.mirrored = mirrored
        if mirrored.stray_keys:
            gone, found = removed_keys(context), mirrored.stray_keys
            mirrored.stray_keys = tuple(key for key in found if key in gone)
            mirrored.other_keys = tuple(key for key in found if key not in gone)
        if request.prune and not mirrored.problems:
            try:
                mirrored.deleted = prune_mirror(pruning, target, check=check, listener=listener)
                mirrored.stray_keys = ()
            except PlaceRefused as error:
                # Everything has arrived, and what is left is a whole vault: only the room is not given back.
                result.notes.append(f"what was forgotten here stays there: {error.what}")
                result.state = INCOMPLETE
        if mirrored.problems:
            result.state = INCOMPLETE
        result.wholes = _wholes(repository)


def _named(snapshot: Snapshot) -> str:
    return f"{snapshot.short_id} of {snapshot.time[:16].replace('T', ' ')}"


def _wholes(repository: Repository) -> dict[str, float]:
    """When the newest whole snapshot of each home of this machine was taken: the copy holds what is here."""
    host = os.uname().nodename
    found = {}
    for home in homes_in_vault(repository, "")[0]:
        newest = next((one for one in home.usual if not one.partial), None)
        if newest is not None and home.host in ("", host):
            found[home.home] = newest.snapshot.time_ns / 1e9
    return found


@contextlib.contextmanager
def _held(repository: Repository, listener: Listener) -> Iterator[Callable[[], None] | None]:
    """A shared lock on the vault here; where none can be written the vault cannot change either."""
    try:
        lock = repository.lock(wait=_WAIT)
    except (VaultUnreachable, NoRoom) as error:
        listener(Event("lock", text=f"Note: the vault is read without a lock: {error.clause}"))
        yield None
        return
    with lock:
        yield lock.check


def directory_of(vault: str) -> str:
    """Where a vault lies in a destination."""
    return f"{vault[:16]}/"
