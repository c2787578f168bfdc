"""The vault on its way into a destination."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator

from safekept.core.events import Event, Listener
from safekept.core.files import NoRoom
from safekept.core.objects.base import ObjectStore
from safekept.vault.errors import VaultUnreachable
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository
from safekept.vault.storage import ObjectStorage

from ...base.context import UserContext
from ...vault.keys.escrow import send_escrow
from ...vault.keys.keys import require_recovery_access
from ...vault.keys.kit_record import acknowledge_kit
from ...vault.opening import open_vault, vault_exists
from ..destination import DestinationSetting
from ..homes_in_vault import homes_in_vault
from .another_machine import allow_shared, refuse_shared
from .copying import RepositoryCopy
from .result import INCOMPLETE, PushRequest, PushResult

#: Seconds for which a push waits for a prune of the vault here.
_WAIT = 60.0
#: Why a prune leaves snapshots there.
_NOT_OURS = (
    "another machine has its copy there too, such as one that was rebuilt from it: "
    "snapshots that were never in the vault here stay, and so does the data of all"
)


def local_vault(
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


def push_vault(
    context: UserContext,
    repository: Repository,
    objects: ObjectStore,
    setting: DestinationSetting,
    request: PushRequest,
    result: PushResult,
    listener: Listener,
) -> None:
    """Mirror it; what could not be done is in the result."""
    target = ObjectStorage(objects.below(f"{repository.id[:16]}/"))
    copy = result.copy = RepositoryCopy(context, repository, target)
    with _held(repository, listener) as check:
        plan = copy.compare(listener, _once_here(context) if request.prune else None)
        if request.shared and not request.dry_run:
            allow_shared(context, setting)
        elif not request.shared:
            refuse_shared(context, setting, repository, plan, target)
        if copy.pruning is not None:
            result.leaving = [_named(one) for one in copy.pruning.leaving]
            result.staying = [f"{_named(one)}, made by {one.hostname}" for one in copy.pruning.staying]
            if copy.pruning.staying:
                result.notes.append(_NOT_OURS)
        if request.dry_run:
            return
        trouble = send_escrow(context, repository, target.objects, setting.url)
        mirrored = copy.carry_out(plan, setting.connections or objects.lanes, check, listener)
        for one in filter(None, (trouble, copy.undeleted)):
            result.notes.append(one)
            result.state = INCOMPLETE
        if mirrored.problems:
            result.state = INCOMPLETE
        result.wholes = _wholes(repository)


def _once_here(context: UserContext) -> Callable[[object], Collection[str]]:
    from ...snapshots.forgetting import snapshots_once_here

    return lambda plan: snapshots_once_here(context)


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
