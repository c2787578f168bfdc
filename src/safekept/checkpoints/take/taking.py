"""Taking a checkpoint.

Promise: a checkpoint that is returned is whole and durable in the store; one that is not returned left
nothing behind that is seen. The project is only ever read.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import private_directory
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint, Skipped, new_checkpoint_id, time_after
from ..project import project_id, refuse_others
from ..store.metadata import short_reason
from ..store.pack_writer import WriteFailed
from ..store.repository import writing
from ..store.store import Store
from .making import Making
from .taken import (
    DEFAULTS,
    ProjectGone,
    Seen,
    Taken,
    TakeSettings,
    TooManyFiles,
    project_gone,
    store_unusable,
)

# One taker per project.

LOCK = "take.lock"

#: Takers of this process hand a project over to each other at once; only other processes are looked for.
_inside: dict[str, threading.Lock] = {}


@contextlib.contextmanager
def project_lock(directory: str, doing: str, wait: float) -> Iterator[None]:
    """One taker per project. The lock dies with its holder, and is held shortly: a waiter looks often."""
    deadline, pause = time.monotonic() + wait, 0.002
    inside = _inside.setdefault(directory, threading.Lock())
    got = inside.acquire(timeout=max(0.0, wait))
    try:
        # One that did not get it is told below who has it.
        while True:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(process_lock(os.path.join(directory, LOCK), doing))
                except AlreadyRunning:
                    if time.monotonic() >= deadline:
                        raise
                else:
                    yield
                    return
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
    finally:
        if got:
            inside.release()


__all__ = [
    "DEFAULTS",
    "ProjectGone",
    "TakeSettings",
    "Taken",
    "TooManyFiles",
    "look_now",
    "project_lock",
    "take",
]


def take(
    store: Store,
    project: str,
    *,
    kind: str = "before",
    reason: str = "",
    session: str = "",
    turn: str = "",
    named: Sequence[str] | None = None,
    full: bool | None = None,
    walked: bool = True,
    settings: TakeSettings = DEFAULTS,
    always: bool = False,
    listener: Listener = silent,
) -> Taken:
    """Take a checkpoint of `project`, a resolved absolute path.

    `named`: files to take whatever the rules say, absolute or relative to the project. `full` (the
    default without `named`): walk everything. `walked=False`: a directory that is no project, of which
    only named files are ever known; such a one need not be there yet. `always`: also when nothing
    changed, as for an undo point.
    Raises ProjectOfAnother, ProjectGone, TooManyFiles, AlreadyRunning, StoreUnusable; nothing is half
    done then.
    """
    begun = time.monotonic()
    refuse_others(project)
    walked = walked and not (settings.guard is not None and settings.guard.never(project))
    full = named is None if full is None else full
    if settings.seat_belt is not None:
        store.belt.wanted = settings.seat_belt
    root = _open(store, project, nothing=named is not None and not walked)
    try:
        directory = store.project_directory(project)
        with project_lock(directory, "taking a checkpoint", settings.lock_wait), writing(store.directory):
            store.sweep(project)
            now = time_after(time.time_ns(), store.refs.newest(project_id(project)))
            identity, words = new_checkpoint_id(now), short_reason(reason)
            whole = full and walked
            start = Checkpoint(identity, project, now, kind, words, session, turn, "", whole, 0, 0)
            taking = Making(store, project, directory, root, settings, listener)
            try:
                taken = taking.take(start, named or (), full, walked, always)
            finally:
                store.let_go()
    except WriteFailed as failure:
        raise store_unusable(store.directory, failure.error) from failure
    except OSError as error:
        raise store_unusable(store.directory, error) from error
    finally:
        os.close(root)
    return replace(taken, seconds=time.monotonic() - begun)


def look_now(
    store: Store, project: str, settings: TakeSettings = DEFAULTS, listener: Listener = silent
) -> Seen:
    """Look at a project, and at what is hidden in it, however long that takes; no checkpoint is taken.

    Raises ProjectGone and the like, as `take` does.
    """
    refuse_others(project)
    root = _open(store, project, nothing=False)
    try:
        making = Making(store, project, store.project_directory(project), root, settings, listener)
        return making.look()
    finally:
        os.close(root)


def _open(store: Store, project: str, nothing: bool) -> int:
    """The project's directory; with `nothing`, one that is yet to be made is like an empty one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(project, flags)
    except FileNotFoundError as error:
        if not nothing:
            raise project_gone(project, error) from error
    except OSError as error:
        raise project_gone(project, error) from error
    try:
        empty = os.path.join(store.project_directory(project), "nothing")
        private_directory(empty)
        return os.open(empty, flags)
    except OSError as error:
        raise store_unusable(store.directory, error) from error


# What one call before or after an agent's change came to; what went wrong is a part of it.


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that is not protected, and why."""

    project: str
    code: str
    what: str


@dataclass(slots=True)
class Protection:
    """What one call came to."""

    taken: list[Taken] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)  # named, and not covered
    failures: list[Failure] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)  # sentences for the user, each given once

    @property
    def complete(self) -> bool:
        """Whether everything that was named is in a checkpoint."""
        return not self.failures and not self.skipped


def failure_of(project: str, error: Exception) -> Failure:
    """An error as something that is not protected."""
    if isinstance(error, SafekeptError):
        return Failure(project, error.code, error.what)
    return Failure(project, "internal-error", f"{type(error).__name__}: {error}")
