"""Remove the older repositories of Hermes's that `adopt` archived: into the trash, where there is room."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from safekept.checkpoints.hermes import clear_legacy, legacy_archives
from safekept.core.events import Listener, silent
from safekept.core.journal import Record, new_id
from safekept.core.trash import empty_trash, room_to_keep, throw_away

from ..base.context import UserContext
from ..base.record import record
from .project import checkpoint_directory


@dataclass(frozen=True, slots=True)
class Cleared:
    """What `clear-legacy` removed."""

    operation: str
    archives: int
    bytes: int
    kept_until: float = 0.0  # until when it can be brought back; 0: it is gone for good


def remove_legacy(context: UserContext, *, now: bool = False, listener: Listener = silent) -> Cleared:
    """Remove what `adopt` archived, into the trash where there is room; with `now`, for good."""
    directory, operation = checkpoint_directory(context), new_id()
    archives = legacy_archives(directory)
    size, until = sum(archive.bytes for archive in archives), 0.0
    empty_trash(directory, everything=now)
    if archives and not now and room_to_keep(directory):
        with contextlib.suppress(OSError):
            until = throw_away(directory, operation, [archive.path for archive in archives]).until
    if not until:
        clear_legacy(directory)
    facts: dict[str, object] = {"archives": len(archives), "bytes": size, "kept_until": until}
    record(context, Record(operation, "checkpoints-clear-legacy", "done", facts=facts), listener)
    return Cleared(operation, len(archives), size, until)
