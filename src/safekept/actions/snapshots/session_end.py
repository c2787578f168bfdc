"""A quick snapshot of a home at the end of a session, unless a recent one is there.

It is tagged as taken automatically, and thinned among its like: it pushes out no snapshot of a person's.
"""

from __future__ import annotations

import hashlib
import os
import time

from safekept.core.events import Listener, silent
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.home.layout import Layout
from safekept.home.scan import Selection
from safekept.vault.tags import AUTOMATIC, QUICK, tidy_label

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import SnapshotFacts
from ..vault.opening import open_vault
from .create import SnapshotRequest, SnapshotResult, create_snapshot


def snapshot_if_due(
    context: UserContext,
    home: str,
    layout: Layout | str,
    *,
    hours: float,
    reason: str = "",
    isolated: bool = False,
    listener: Listener = silent,
) -> SnapshotResult | None:
    """A quick snapshot, unless one of this home, quick or whole, is younger than so many hours; 0: never.

    Home points and what was stored only to undo something do not count: they hold no database.
    """
    home = os.path.realpath(home)
    if hours <= 0:
        return None
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    lock = os.path.join(context.places.data_directory, f"snapshot-{name}.lock")
    try:
        with process_lock(lock, "snapshot", remove=True):
            if not snapshot_is_due(context, home, hours):
                return None
            layout = context.layout(layout) if isinstance(layout, str) else layout
            request = SnapshotRequest(
                place=HomeRef(home, layout),
                kind=QUICK,
                label=tidy_label(reason),
                selection=Selection(quick=True),
                isolated=isolated,
                tags=(AUTOMATIC,),
            )
            return create_snapshot(context, request, listener)
    except AlreadyRunning:
        return None  # another end of a session is at it


def snapshot_is_due(context: UserContext, home: str, hours: float) -> bool:
    """Whether no snapshot of this home, quick or whole, is younger than so many hours; 0: never."""
    return hours > 0 and _age_hours(context, os.path.realpath(home)) >= hours


def _age_hours(context: UserContext, home: str) -> float:
    """How long ago the last one was stored, by the journal; where it knows none, by the vault."""
    from ..status.recent import OF_THE_PAST, STORED
    from ..vault.opening import vault_exists
    from .listing import UNDO_POINTS, list_home

    now = time.time()
    try:
        for entry in context.journal.backwards("snapshot"):
            taken = SnapshotFacts.read(entry)
            ours = taken.home == home and taken.kind not in OF_THE_PAST
            if ours and entry.state in STORED and entry.time <= now:
                return (now - entry.time) / 3600
    except OSError:
        pass
    if not vault_exists(context):
        return float("inf")
    with open_vault(context) as repository:
        shown = list_home(repository, home).shown
    newest = [one for one in shown if one.kind not in (*UNDO_POINTS, "adopted") and not one.future]
    return (now - newest[0].snapshot.time_ns / 1e9) / 3600 if newest else float("inf")
