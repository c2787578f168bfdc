"""Keep a project as it is now: the point that a person takes, or an agent's hook asks for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.checkpoints.project import find_root, holds_too_much, refuse_others
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import Taken, TakeSettings, take
from safekept.checkpoints.upkeep import MaintenanceSettings, start_if_due
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.projects import CheckpointFacts
from ..base.record import record, recording
from .guarding import forbidden_roots
from .project import NoSuchDirectory, checkpoint_directory

if TYPE_CHECKING:
    from safekept.checkpoints.scan import KeptLook


class NotAProject(SafekeptError):
    code = "not-a-project"


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """What the settings say about checkpoints, as plain values."""

    take: TakeSettings = field(default_factory=TakeSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    delete_orphans: bool = True
    hidden_total: int = 10_000_000_000  # bytes that the hidden halves of all projects may take; 0: no limit


@dataclass(frozen=True, slots=True)
class CheckpointTaken:
    """What was kept."""

    operation: str
    project: str
    taken: Taken
    facts: CheckpointFacts  # what the journal says of it, and every document
    hidden: KeptLook | None = None  # what holds the hidden half
    hidden_error: SafekeptError | None = None  # why nothing does


def take_checkpoint(
    context: UserContext,
    directory: str,
    policy: CheckpointPolicy,
    *,
    reason: str = "",
    files: Sequence[str] = (),
    session: str = "",
    turn: str = "",
    listener: Listener = silent,
) -> CheckpointTaken:
    """Take one of the project around a directory; with `files`, of those only."""
    project = project_around(context, directory, named=bool(files))
    operation = new_id()
    place = checkpoint_directory(context)
    store = Store.open(place, listener=listener)
    with (
        recording(context, operation, CheckpointFacts(project=project), listener),
        contextlib.closing(store),
    ):
        taken = take(
            store,
            project,
            kind="manual",
            reason=reason or "taken by hand",
            session=session,
            turn=turn,
            named=_named(project, directory, files) or None,
            settings=policy.take,
            always=True,
            listener=listener,
        )
    kept, failure = _keep_hidden(context, project, taken, listener)
    work = CheckpointFacts(
        project=project,
        id=taken.checkpoint.id if taken.checkpoint else None,
        reason=reason,
        skipped=len(taken.skipped),
        hidden=kept.files if kept is not None else None,
        seconds=taken.seconds,
    )
    record(context, work.line(operation, "incomplete" if failure else "done"), listener)
    start_if_due(place, policy.maintenance, written=taken.written, packs=taken.packs)
    return CheckpointTaken(operation, project, taken, work, kept, failure)


def _keep_hidden(
    context: UserContext, project: str, taken: Taken, listener: Listener
) -> tuple[KeptLook | None, SafekeptError | None]:
    """The hidden half; what is wrong with it is no trouble of the visible one."""
    if taken.hidden is None:
        return None, None
    from .hidden.record import keep_look

    found = keep_look(context, project, taken.hidden, listener=listener)
    if isinstance(found, SafekeptError):
        return None, found
    if not found.missing:
        return found, None
    from .hidden.repository import partly_kept

    return found, partly_kept(found)


def _named(project: str, directory: str, files: Sequence[str]) -> tuple[str, ...]:
    """The files in full. Writing to a link changes what it leads to: that is taken with it."""
    names = [os.path.abspath(os.path.join(directory, name)) for name in files]
    targets = [os.path.realpath(name) for name in names if "\0" not in name and os.path.islink(name)]
    inside = [path for path in targets if path.startswith(project + os.sep) and not os.path.isdir(path)]
    return tuple(dict.fromkeys([*names, *inside]))


def project_around(context: UserContext, directory: str, *, named: bool = False) -> str:
    """The project that a checkpoint of this directory would be taken of."""
    refuse_others(directory)
    if not os.path.isdir(directory):
        raise NoSuchDirectory(
            f"There is no directory `{directory}`",
            kept="Nothing was changed",
            next_steps=(NextStep("checkpoint", ("DIR",), before="Name the project's directory:"),),
            directory=directory,
        )
    place = os.path.realpath(directory)
    forbidden = forbidden_roots(context)
    root = find_root(place, forbidden=forbidden)
    if root is not None and root.walked and not holds_too_much(root.path, forbidden):
        return root.path
    if root is None or (not named and holds_too_much(place, forbidden)):
        raise _refused(place)
    # A person who names a directory means it, marker or not; a file may be named anywhere.
    return place


def _refused(place: str) -> NotAProject:
    return NotAProject(
        f"`{place}` is not a project: it is a home, holds an agent's home or safekept's stores, "
        "or is a shared or system directory",
        kept="Nothing was changed",
        next_steps=(NextStep("checkpoint", ("DIR",), before="Name a project's directory below it:"),),
        directory=place,
    )
