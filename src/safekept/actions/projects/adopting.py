"""What Hermes left of checkpoints: taken over into our store, and removed once it is archived here."""

from __future__ import annotations

import contextlib
import os
import time

from safekept.checkpoints.hermes import (
    AdoptedProject,
    LegacyArchive,
    adopt_store,
    archive_legacy,
    clear_legacy,
    legacy_archives,
)
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.core.trash import empty_trash, room_to_keep, throw_away

from ..base.context import UserContext
from ..base.operations.projects import CheckpointsAdoptFacts, LegacyClearFacts
from ..base.record import record, recording
from .project import checkpoint_directory
from .rollback import checkpoint_store


@dataclass(frozen=True, slots=True)
class CheckpointAdoption:
    """What was taken over from a Hermes home."""

    operation: str
    source: str
    projects: list[AdoptedProject]
    legacy: LegacyArchive | None

    @property
    def complete(self) -> bool:
        return not any(project.lost for project in self.projects)

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "source": self.source,
            "projects": [project.as_dict() for project in self.projects],
            "legacy": self.legacy.as_dict() if self.legacy else None,
            "complete": self.complete,
        }


def adopt_checkpoints(context: UserContext, home: str, listener: Listener = silent) -> CheckpointAdoption:
    """Copy Hermes's checkpoints into ours and archive its older repositories; nothing of Hermes's changes."""
    operation, began = new_id(), time.monotonic()
    source = os.path.join(home, "checkpoints")
    work = CheckpointsAdoptFacts(home=home, source=source)
    with (
        recording(context, operation, work, listener),
        checkpoint_store(context, listener) as store,
    ):
        projects = adopt_store(store, source, listener)
        legacy = archive_legacy(store.directory, source, listener)
    result = CheckpointAdoption(operation, source, projects, legacy)
    work.checkpoints = sum(project.taken for project in projects)
    work.lost = sum(len(project.lost) for project in projects)
    work.legacy = legacy.path if legacy else None
    work.seconds = round(time.monotonic() - began, 3)
    record(context, work.line(operation, "done" if result.complete else "incomplete"), listener)
    return result


@dataclass(frozen=True, slots=True)
class Cleared:
    """What `clear-legacy` removed."""

    operation: str
    facts: LegacyClearFacts  # what the journal says of it, and every document

    @property
    def kept_until(self) -> float:
        """Until when it can be brought back; 0: it is gone for good."""
        return self.facts.kept_until or 0.0


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
    work = LegacyClearFacts(archives=len(archives), bytes=size, kept_until=until)
    record(context, work.line(operation, "done"), listener)
    return Cleared(operation, work)
