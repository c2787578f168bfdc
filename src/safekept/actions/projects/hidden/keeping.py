"""Keep what is hidden in a project: a snapshot of it, where it is not kept already.

What did not change costs a look, as in the vault: it is the vault's writer. Databases are captured as one
committed state. A caller who cannot wait gives a deadline; what came in until then is stored, and the next
try builds on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from safekept import __version__
from safekept.checkpoints.scan import HiddenFolders, HiddenLook, KeptLook
from safekept.core.entries import Outcome, Remark
from safekept.core.events import Listener, silent
from safekept.core.sqlite.capture import CaptureOptions
from safekept.home.scan import Scan, Selection, scan
from safekept.vault.tags import kind_tag
from safekept.vault.write import (
    Description,
    Memory,
    SnapshotAccount,
    StoredSnapshot,
    marks_in,
    write_snapshot,
)

from ...base.context import UserContext
from ...base.own_places import own_places
from ...base.scratch import copies_directory, usable_cache
from ...vault.opening import cache_of
from ..home_points.paths import escaped
from .record import keep_nothing, kept_looks, named_left
from .repository import open_hidden, refuse_full_disk
from .source import LookSource
from .state import LEFT_OUT

if TYPE_CHECKING:
    from safekept.vault.repo import Repository

#: What a snapshot of the hidden half is called, and where it says of which look it is.
KIND, LOOK = "hidden", "safekept_hidden"
_MOST_MOVED = 1000


def keep_hidden(
    context: UserContext,
    project: str,
    look: HiddenLook,
    *,
    deadline: float = 0.0,
    create: bool = True,
    again: bool = False,
    isolated: bool = False,
    listener: Listener = silent,
) -> KeptLook:
    """Keep what a look found. `deadline`: by the monotonic clock; 0: as long as it takes. Without `create`
    no repository is made: that opens the vault, which may be far away. `again`: what could not be read before
    is tried again within the deadline, too.

    Raises HiddenNotReady where it takes longer, and what keeps the repository shut.
    """
    kept = kept_looks(context, project)
    known = kept.looks.get(look.id)
    if known is not None and not (known.missing and (again or not deadline)):
        return known  # what is missing is tried again by a call without a deadline
    folders = look.folders
    if look.empty:
        return keep_nothing(context, project, look)
    refuse_full_disk(context)
    with open_hidden(context, create=create, listener=listener) as repository:
        wait = max(0.0, deadline - time.monotonic()) if deadline else 60.0
        with repository.lock(wait=wait) as lock:
            memory = Memory(repository, usable_cache(cache_of(context, repository), listener), project, KIND)
            scanner = partial(_scan, context, project, folders, repository, isolated, listener)
            source = LookSource(project, folders, memory, scanner, deadline)
            stored = write_snapshot(
                repository,
                source,
                lock=lock,
                roots={"": project},
                describe=lambda account: _described(project, look, account),
                memory=memory,
                listener=source.heard(listener),
            )
    account = stored.account
    moved, missing = _moved(folders, stored, source.unchanged), _missing(look, account.remarks)
    one = KeptLook(
        look.id,
        stored.snapshot.id,
        time.time_ns(),
        look.since_ns,
        account.files,
        account.bytes,
        moved,
        named_left(look),
        missing,
    )
    kept.add(one)
    return one


def _scan(
    context: UserContext,
    project: str,
    folders: HiddenFolders,
    repository: Repository,
    isolated: bool,
    listener: Listener,
    names: Collection[str] | None,
) -> Scan:
    """The one scanner, narrowed to what the look found, or to these names of it."""
    layout = context.layout("generic")
    layout = replace(layout, external=(), counts=(), proven=(), secret_patterns=(), quick_patterns=())
    left = [os.path.join(project, os.fsdecode(path)) for path in folders.left]
    cache = usable_cache(cache_of(context, repository), listener)
    wanted = [os.fsdecode(path) for path in folders.wanted()] if names is None else names
    return scan(
        project,
        layout,
        Selection(include=tuple(map(escaped, wanted)), quick=True),
        # Databases of projects are only ever captured in processes of their own, so reading the
        # first bytes of one here drops no lock.
        capture=CaptureOptions(
            scratch=copies_directory(context, cache),
            deadline=10.0,
            isolated=isolated,
            heads_isolated=False,
        ),
        avoid=[*own_places(context), *left],
        user_home=context.places.user_home,
        check=lambda path: False,
        listener=listener,
    )


def _described(project: str, look: HiddenLook, account: SnapshotAccount) -> Description:
    manifest = {
        "format": "safekept-snapshot",
        "version": 1,
        "kind": KIND,
        "home": project,
        "tool": f"safekept {__version__}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "complete": account.complete,
        "databases": {path: one.as_dict() for path, one in sorted(account.databases.items())},
        "remarks": [remark.as_dict() for remark in account.remarks],
        LEFT_OUT: {os.fsdecode(path): reason for path, (reason, _, _) in look.left.items()},
        LOOK: {"look": look.id, "since_ns": look.since_ns},
    }
    return Description(manifest, (kind_tag(KIND),), extra={LOOK: manifest[LOOK]})


def _missing(look: HiddenLook, remarks: Iterable[Remark]) -> tuple[str, ...]:
    """What is there and could not be read: it is in no snapshot of this look."""
    outcomes = (Outcome.UNREADABLE, Outcome.LOCKED)
    found = {*look.unread, *(remark.path for remark in remarks if remark.outcome in outcomes)}
    return tuple(sorted(found))[:_MOST_MOVED]


def _moved(folders: HiddenFolders, stored: StoredSnapshot, unchanged: Collection[bytes]) -> tuple[str, ...]:
    """Files that were changed between the look and the reading of them."""
    found: list[str] = []
    for path, record in stored.records.items():
        folder = folders.folders.get(os.fsencode(path))
        if folder is None or os.fsencode(path) in unchanged:
            continue
        seen = {os.fsdecode(name): folder.changed_at(place) for place, name in enumerate(folder.names)}
        for mark in marks_in(record)[0]:
            name = mark[0].partition("\0")[0]
            if seen.get(name) != mark[5]:
                found.append(f"{path}/{name}" if path else name)
    return tuple(found[:_MOST_MOVED])
