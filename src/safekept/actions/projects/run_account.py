"""What an agent's run came to, read from the checkpoints it left: every point, and all that changed.

Also what is missing. An agent may delete the project or our own store while it runs, or files that no
checkpoint holds, and those who ask afterwards must hear of it from us.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace

from safekept.checkpoints.checkpoint import Checkpoint, Skipped
from safekept.checkpoints.points import (
    HIDDEN_REASONS,
    Changes,
    ReconstructedState,
    count_pairs,
    missed,
    reconstruct_all,
    vanished,
)
from safekept.checkpoints.rollback import as_it_is
from safekept.checkpoints.take import DEFAULTS, TakeSettings, take
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ..base.context import UserContext
from .difference import PointDifference, pairs_of, pairs_to_nothing
from .hidden.difference import with_hidden
from .hidden.record import kept_looks
from .rollback import checkpoint_store
from .timeline import PointRow, timeline


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The points of one run, newest first, and what changed from the first of them until now."""

    project: str
    first: Checkpoint | None  # the project as it was before the agent started; None where it is lost
    rows: tuple[PointRow, ...] = ()
    changes: Changes | None = None
    files: tuple[str, ...] = ()  # that differ from the first point now
    missing: tuple[str, ...] = ()  # points that were taken and are not there any more
    project_gone: bool = False
    gone: tuple[Skipped, ...] = ()  # in no checkpoint, and not there any more: it cannot be brought back

    def as_dict(self) -> dict[str, object]:
        return {
            "first": self.first.id if self.first else None,
            "points": [row.as_dict() for row in self.rows],
            "changes": self.changes.as_dict() if self.changes else None,
            "files": list(self.files),
            "missing": list(self.missing),
            "project_gone": self.project_gone,
            "gone": [{"path": one.path, "reason": one.reason} for one in self.gone],
        }


def account_of_run(
    context: UserContext,
    project: str,
    session: str,
    taken: Sequence[str],
    *,
    settings: TakeSettings | None = None,
    listener: Listener = silent,
) -> RunAccount:
    """Look at the project as it is and at what was kept of it. `taken`: the ids as they were reported."""
    gone = not os.path.isdir(project)
    with checkpoint_store(context, listener) as store:
        points = store.checkpoints(project)
        there = {point.id for point in points}
        missing = tuple(one for one in taken if one not in there)
        first = next((point for point in points if taken and point.id == taken[0]), None)
        rows = timeline(store, project, context, settings=settings, session=session).rows
        if first is None:
            return RunAccount(project, None, tuple(rows), None, (), missing, gone)
        if gone:
            pairs = pairs_to_nothing(store, project, first)
            changes = count_pairs(store, pairs)
            lost = list(store.skipped(first))
        else:
            with as_it_is(store, project, settings) as (reading, live):
                if live is None:
                    return RunAccount(project, first, tuple(rows), None, (), missing, gone)
                known = reconstruct_all(reading, reading.checkpoints(project), live)
                pairs = pairs_of(
                    reading, known.get(first.id, ReconstructedState(first)), ReconstructedState(live)
                )
                changes = count_pairs(reading, pairs)
                lost = vanished(reading.state(first), reading.state(live), _on_disk(project))
        files = tuple(path for path, _, _ in pairs)
        if kept_looks(context, project).of(first) is not None:
            lost = [one for one in lost if one.reason not in HIDDEN_REASONS]
            if settings is not None and not gone:
                found = PointDifference(first, files, ())
                files = with_hidden(context, store, found, settings).files
                changes = replace(changes, files=len(files))
    lost_paths = tuple(missed(lost, lambda path: True))
    return RunAccount(project, first, tuple(rows), changes, files, missing, gone, lost_paths)


def _on_disk(project: str) -> Callable[[str], int]:
    """Whether something is there under a name; where that is unknown, it is not called gone."""

    def look(path: str) -> int:
        try:
            return os.lstat(os.path.join(project, path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError:
            return stat.S_IFBLK

    return look


def mark_end_of_run(
    context: UserContext,
    project: str,
    session: str,
    reason: str,
    *,
    settings: TakeSettings | None = None,
    listener: Listener = silent,
) -> None:
    """The mark of what an agent left behind, where its watcher cannot make it any more."""
    with checkpoint_store(context, listener) as store:
        take(store, project, kind="after", reason=reason, session=session, settings=settings or DEFAULTS)
