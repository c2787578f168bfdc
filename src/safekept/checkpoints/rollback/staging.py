"""Every new content of a rollback, written beside its target before anything is changed.

Until this is done nothing of the project is touched, apart from names of our own. A full disk, a
damaged object or a directory that may not be written is met here.
"""

from __future__ import annotations

import os

from safekept.core.events import Event, Listener
from safekept.core.files import write_all

from ..checkpoint import FileState
from ..store.store import Store
from .placing import Change
from .preparing import Prepared
from .project_tree import ProjectTree
from .proving import Damaged, checked_content


def stage(ground: ProjectTree, store: Store, prepared: Prepared, listener: Listener) -> None:
    """Write every new content under its name of ours, with its mode and time, and make it durable.

    What the store cannot give back whole is left out, and listed. Raises OSError.
    """
    damaged = []
    waiting = [change for change in prepared.changes if change.aside in prepared.content]
    few = len(waiting) <= 32
    for number, change in enumerate(waiting):
        listener(Event("stage", number, len(waiting), unit="files", path=change.path))
        try:
            change.new = _stage_one(ground, store, change, prepared.content[change.aside], few)
        except Damaged as error:
            ground.unlink(change.aside)
            damaged.append((change.path, str(error)))
    for path, why in damaged:
        prepared.drop(path, "damaged", why)


def _stage_one(ground: ProjectTree, store: Store, change: Change, state: FileState, sync: bool) -> int:
    parent, name = ground.parent(change.aside)
    if state.kind == "symlink":
        text = b"".join(checked_content(store, state))
        os.symlink(text, os.fsencode(name), dir_fd=parent)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            for chunk in checked_content(store, state):
                write_all(descriptor, chunk)
            if change.owner is not None:
                os.fchown(descriptor, *change.owner)
            os.fchmod(descriptor, change.mode or 0)
            if change.mtime_ns is not None:
                os.utime(descriptor, ns=(change.mtime_ns, change.mtime_ns))
            if sync:
                os.fsync(descriptor)
            return os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
    if change.owner is not None:
        os.chown(name, *change.owner, dir_fd=parent, follow_symlinks=False)
    if change.mtime_ns is not None:
        os.utime(name, ns=(change.mtime_ns, change.mtime_ns), dir_fd=parent, follow_symlinks=False)
    return os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino
