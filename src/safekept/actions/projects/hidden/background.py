"""The hidden half of one project, kept by a process in the background."""

from __future__ import annotations

import os

from safekept.checkpoints.store import Store
from safekept.checkpoints.take import look_now
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.locks import AlreadyRunning, process_lock

from ...base.context import UserContext
from ..checkpoint import CheckpointPolicy
from ..project import checkpoint_directory
from .record import keep_look
from .retention import drop_unneeded
from .trouble import LOCK


def keep_project(
    context: UserContext, project: str, policy: CheckpointPolicy, listener: Listener = silent
) -> None:
    """Look at all that is hidden, keep it, and drop what no checkpoint needs any more. One at a time."""
    with Store.open(checkpoint_directory(context), listener=listener) as store:
        place = store.project_directory(project)
        try:
            with process_lock(os.path.join(place, LOCK), "keeping what is hidden"):
                look = look_now(store, project, policy.take, listener).hidden
                if look is None:
                    return
                found = keep_look(context, project, look, listener=listener)
                if isinstance(found, SafekeptError):
                    raise found
        except AlreadyRunning:
            return
        drop_unneeded(context, store, total=policy.hidden_total, listener=listener)
    if os.path.exists(context.choices.keeper_socket):
        from ...keeper.transfer import begin_transfer

        begin_transfer(context)
