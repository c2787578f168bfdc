"""Empty every trash that safekept knows of: what is past its days goes, wherever it waits.

Whoever drops something empties the trash of that place on the way. This is for runs that nobody watches,
so that what was dropped in a place where nothing is ever dropped again goes, too.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.trash import empty_trash
from safekept.home.landing import expire

from ..base.context import UserContext
from ..base.operations.archives import BackupFacts
from ..projects.project import checkpoint_directory
from .changes import known_landings


def empty_all_trash(context: UserContext, *, keep_days: float | None = None, now: float | None = None) -> int:
    """The bytes that this freed in trashes. Never raises.

    With `keep_days`, what landings replaced longer ago than that goes, too.
    """
    places = {checkpoint_directory(context)}
    with contextlib.suppress(OSError):
        for entry in context.journal.backwards("backup"):
            made = BackupFacts.read(entry)
            if made.rotated and made.archive:
                places.add(os.path.dirname(made.archive))
    freed = 0
    for place in sorted(places):
        with contextlib.suppress(OSError):
            freed += empty_trash(place, now)
    for home in known_landings(context) if keep_days is not None else ():
        with contextlib.suppress(OSError):
            expire(home, keep_days or 0.0)
    return freed
