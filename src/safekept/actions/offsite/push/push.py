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
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.locks import process_lock, sweep_locks
from safekept.core.objects.base import CredentialRights, ObjectStore

from ...alarms.alarms import DESTINATION, OVERDUE, end_alarms
from ...base.context import UserContext
from ...base.operations.stores import PushFacts
from ...base.record import record, recording
from ..destination import ARCHIVES, HIDDEN, VAULT, DestinationSetting, usual_takes
from ..place import DestinationAbsent, Reach, find_destination, make_ready, remember_place
from .archives import push_archives
from .result import ABSENT, DONE, INCOMPLETE, PushRequest, PushResult
from .vault import local_vault, push_vault


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
        work.add(result.outcome())
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
        work.add(result.outcome())
        record(context, work.line(operation, "done" if result.state == DONE else "incomplete"), listener)
    if result.state == DONE:
        for kind in (DESTINATION, OVERDUE):
            end_alarms(context, kind, "", f"push:{setting.name}", reason="it arrived", listener=listener)
    return result


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
            repository = local_vault(context, request, result, opened, listener)
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
            push_vault(context, repository, objects, setting, request, result, listener)
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
    from .hidden import push_hidden  # few destinations take it, and it brings all of the checkpoints along

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
