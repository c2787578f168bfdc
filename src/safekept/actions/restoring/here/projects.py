"""Projects that are gone and have checkpoints: each comes back as its newest point has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.rollback import unmake
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ...base.context import UserContext
from ...base.operations.projects import RollbackFacts
from ...base.own_places import within
from ...projects.project import checkpoint_directory
from ...projects.rollback import RollbackOutcome, RollbackRequest, rollback


@dataclass(frozen=True, slots=True)
class LostProject:
    """One of them, and the point that has it."""

    project: str
    point: str
    time: float
    files: int

    def as_dict(self) -> dict[str, object]:
        return {"project": self.project, "point": self.point, "time": self.time, "files": self.files}


def lost_projects(context: UserContext) -> tuple[LostProject, ...]:
    """Every project with checkpoints that is not there, or is empty. Makes no store."""
    place = checkpoint_directory(context)
    if not os.path.isdir(os.path.join(place, "store", "refs", "safekept")):
        return ()
    found = []
    with contextlib.closing(Store(place, silent)) as store:
        for project in store.projects():
            if _is_there(project):
                continue
            with contextlib.suppress(SafekeptError):
                point = newest_state(context, store.checkpoints(project))
                if point is not None:
                    found.append(LostProject(project, point.id, point.time_ns / 1e9, point.files))
    return tuple(sorted(found, key=lambda one: one.project))


def newest_state(context: UserContext, points: Sequence[Checkpoint]) -> Checkpoint | None:
    """The point that has the project as it was last; `points`: newest first.

    A point that was taken of an empty project has nothing to bring back. After a rollback of the whole
    project the state is the one that it went to, and not what was kept to undo it.
    """
    known = {one.id: one for one in points}
    held = [one for one in points if one.files]
    newest = held[0] if held else None
    if newest is None or newest.kind != "undo":
        return newest
    with contextlib.suppress(OSError):
        for entry in context.journal.backwards(RollbackFacts.verb):
            work = RollbackFacts.read(entry)
            if work.undo == newest.id and not work.files:
                return known.get(work.target or "", newest)
    return newest


def bring_project(
    context: UserContext,
    lost: LostProject,
    settings: TakeSettings | None = None,
    listener: Listener = silent,
    *,
    rebuild: str = "",
) -> RollbackOutcome:
    """Make it again, as that point has it, its repository too; `undo ID` takes it back, and no bare `undo`.
    Raises the errors of a rollback. `rebuild`: the operation that it is a part of."""
    made = _make_around(lost.project, context.places.user_home)
    try:
        request = RollbackRequest(lost.project, lost.point, git=True, rebuild=rebuild, settings=settings)
        return rollback(context, request, listener)
    except BaseException:
        unmake(made)
        raise


def _make_around(project: str, user_home: str) -> tuple[str, ...]:
    """Make the directories around a project that are gone with it; which, outermost first.

    Only in what is left of the user's own directory: anywhere else a disk may not be mounted.
    """
    missing: list[str] = []
    above = os.path.dirname(project)
    while not os.path.lexists(above):
        missing.insert(0, above)
        above = os.path.dirname(above)
    if not within(above, os.path.realpath(user_home)):
        return ()
    for path in missing:
        os.mkdir(path)
    return tuple(missing)


def waits_for_another(outcome: RollbackOutcome) -> bool:
    """Whether it is a worktree of a repository that is not back yet: bring it once more, after that one."""
    done = outcome.rolled_back
    return done is not None and any(
        reason == "main-gone" for one in done.repositories for _, reason, _ in one.left
    )


def _is_there(project: str) -> bool:
    try:
        with os.scandir(project) as found:
            return any(True for _ in found)
    except NotADirectoryError:
        return True  # something else has its name
    except OSError:
        return False
