"""The lines of kept looks, written again from the snapshots themselves where they are lost.

They lie beside the stores and not behind the seat belt, so `rm -rf ~` takes them. Without them it would
not be known which snapshot holds the hidden half of a checkpoint, and retention would drop every one.
"""

from __future__ import annotations

import os

from safekept.checkpoints.scan import KeptLook
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots

from ...base.context import UserContext
from .keeping import LOOK
from .record import hidden_exists, kept_looks
from .repository import open_hidden


def write_lines_again(context: UserContext, project: str, listener: Listener = silent) -> None:
    """Those of one project, if it has none. A repository that does not open is left for another time."""
    if os.path.exists(kept_looks(context, project).path) or not hidden_exists(context):
        return
    try:
        with open_hidden(context, listener=listener) as repository:
            all_lines_again(context, repository)
    except (SafekeptError, OSError):
        return


def all_lines_again(context: UserContext, repository: Repository) -> bool:
    """Those of every project that has none; whether there were any."""
    found: dict[str, list[KeptLook]] = {}
    for one in list_snapshots(repository)[0]:
        about = one.extra.get(LOOK)
        if not isinstance(about, dict) or not one.paths:
            continue
        look, since = about.get("look"), about.get("since_ns")
        if isinstance(look, str) and isinstance(since, int):
            found.setdefault(one.paths[0], []).append(KeptLook(look, one.id, one.time_ns, since))
    written = False
    for project, looks in found.items():
        kept = kept_looks(context, project)
        if os.path.exists(kept.path):
            continue
        os.makedirs(os.path.dirname(kept.path), mode=0o700, exist_ok=True)
        for look in sorted(looks, key=lambda look: look.time_ns):
            kept.add(look)
        written = True
    return written
