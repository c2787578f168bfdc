"""Taking a checkpoint.

Promise: a checkpoint that is returned is whole and durable in the store; one that is not returned left
nothing behind that anybody sees. The project is only ever read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.events import Listener, silent

from .about import short_reason
from .checkpoint import Checkpoint, new_checkpoint_id
from .making import Making
from .pack_writer import WriteFailed
from .project_lock import project_lock
from .store import Store
from .taken import (
    DEFAULTS,
    ProjectGone,
    Taken,
    TakeSettings,
    TooManyFiles,
    project_gone,
    store_unusable,
)
from .writing import writing

__all__ = ["DEFAULTS", "ProjectGone", "TakeSettings", "Taken", "TooManyFiles", "project_lock", "take"]


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
    only named files are ever known. `always`: also when nothing changed, as for an undo point.
    Raises ProjectGone, TooManyFiles, AlreadyRunning, StoreUnusable; nothing is half done then.
    """
    begun = time.monotonic()
    full = named is None if full is None else full
    try:
        root = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise project_gone(project, error) from error
    try:
        directory = store.project_directory(project)
        with project_lock(directory, "taking a checkpoint", settings.lock_wait), writing(store.directory):
            store.sweep(project)
            now = time.time_ns()
            identity, words = new_checkpoint_id(now), short_reason(reason)
            whole = full and walked
            start = Checkpoint(identity, project, now, kind, words, session, turn, "", whole, 0, 0)
            taking = Making(store, project, directory, root, settings, listener)
            taken = taking.take(start, named or (), full, walked, always)
    except WriteFailed as failure:
        raise store_unusable(store.directory, failure.error) from failure
    except OSError as error:
        raise store_unusable(store.directory, error) from error
    finally:
        os.close(root)
    return replace(taken, seconds=time.monotonic() - begun)
