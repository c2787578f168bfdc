"""Checkpoints that were dropped and whose content is still there get their refs again.

Under the lock of maintenance: nothing can be deleted meanwhile. A checkpoint comes back only where every
piece of it is there; one that is not whole any more is named and stays gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from safekept.core.locks import process_lock

from .about import from_message
from .checkpoint import Checkpoint
from .dropped import Dropped, dropped, forget_dropped
from .objects import BadObject, decode_commit
from .pack_reader import BadPack
from .project import project_id
from .quarantine import maintenance_lock
from .soundness import Soundness
from .store import Store

_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """What has its ref again, and what could not get it."""

    back: tuple[Checkpoint, ...]
    lost: tuple[Dropped, ...]


def bring_back(
    store: Store, wanted: Callable[[Dropped], bool], *, look_only: bool = False, wait: float = 60.0
) -> BroughtBack:
    """Bring back what is wanted of what was dropped; with `look_only`, say what would come."""
    with process_lock(maintenance_lock(store.directory), "bringing checkpoints back", wait):
        back, lost = [], []
        soundness = Soundness(store, _SECONDS)
        for entry in dropped(store.directory):
            if not wanted(entry):
                continue
            point = _read(store, entry)
            if point is None or soundness.damaged([point]):
                lost.append(entry)
                continue
            back.append(point)
            identity = project_id(entry.project)
            if not look_only and store.refs.get(identity, entry.id) is None:
                scratch = store.project_directory(entry.project)
                store.refs.create(identity, entry.id, entry.commit, scratch)
        if back and not look_only:
            again = {(point.project, point.id) for point in back}
            forget_dropped(store.directory, lambda entry: (entry.project, entry.id) in again)
    return BroughtBack(tuple(back), tuple(lost))


def _read(store: Store, entry: Dropped) -> Checkpoint | None:
    try:
        content = store.objects.read_as(b"commit", bytes.fromhex(entry.commit))
        return from_message(decode_commit(content, entry.commit)[1], entry.commit)
    except (BadObject, BadPack, OSError, ValueError):
        return None
