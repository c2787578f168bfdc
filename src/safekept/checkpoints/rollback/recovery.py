"""A rollback that was killed: finished if all of it was staged, else taken back.

Every command that plans, carries out or undoes a rollback comes through here first.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep
from safekept.core.platform.filesystems import keeps_numbers
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint
from ..points.reconstructed_state import every_name
from ..points.rollback_plan import REPOSITORY, RollbackJournal
from ..project import refuse_others
from ..store.store import Store
from ..take.taking import TakeSettings, take
from .placing import Change
from .project_tree import ProjectTree, check_project
from .proving import no_undo_point, room
from .run import finish, go_back, go_forward

_WAIT = 30.0
#: The locks that this thread has.
_own = threading.local()


@contextlib.contextmanager
def rollback_lock(store: Store, project: str) -> Iterator[None]:
    """One rollback at a time in a project; takes go on beside it.

    Raises ProjectOfAnother, UndoPointFailed, AlreadyRunning.

    Its holder may take it again: a plan and its carrying out are one thing, with nothing in between.
    """
    refuse_others(project)
    held: set[str] = _own.__dict__.setdefault("held", set())
    with contextlib.ExitStack() as stack:
        try:
            place = os.path.join(store.project_directory(project), "rollback.lock")
            if place not in held:
                stack.enter_context(process_lock(place, "rollback", wait=_WAIT))
                stack.callback(held.discard, place)
                held.add(place)
        except OSError as error:
            raise no_undo_point(project, error.strerror or str(error), room(error)) from error
        yield


@dataclass(frozen=True, slots=True)
class RecoveredRollback:
    """What became of a rollback that was killed."""

    project: str
    how: str  # "finished" or "taken back"
    target: str
    undo: str
    remarks: tuple[str, ...] = ()


def recover(
    store: Store, project: str, *, settings: TakeSettings | None = None, listener: Listener = silent
) -> RecoveredRollback | None:
    """Finish, or take back, a rollback that was killed; None where there is none."""
    journal = RollbackJournal(store.project_directory(project))
    if not journal.pending():
        return None
    with rollback_lock(store, project):
        return recover_locked(store, project, settings, listener)


def recover_locked(
    store: Store, project: str, settings: TakeSettings | None, listener: Listener = silent
) -> RecoveredRollback | None:
    """The same for who holds the lock already. Raises RollbackStuck, ProjectGone, ProjectReplaced."""
    journal = RollbackJournal(store.project_directory(project))
    lines = journal.pending()
    repositories = [line for line in lines if line["state"] == REPOSITORY]
    lines = [line for line in lines if line["state"] != REPOSITORY]
    found = _recover_files(store, project, settings, journal, lines, listener) if lines else None
    if repositories:
        found = _recover_repositories(store, project, settings, journal, repositories[-1], found, listener)
    return found


def _recover_repositories(
    store: Store,
    project: str,
    settings: TakeSettings | None,
    journal: RollbackJournal,
    line: Mapping[str, object],
    files: RecoveredRollback | None,
    listener: Listener,
) -> RecoveredRollback:
    """The files are back, or there was nothing to do with them: what is left of the repositories is done."""
    from ..store.repositories.planning import plan_again, restore_repositories

    operation, target, undo = (str(line.get(name, "")) for name in ("operation", "target", "undo"))
    point = next((point for point in store.checkpoints(project) if point.id == target), None)
    items, remarks = line.get("items"), list(files.remarks) if files else []
    if point is None or not isinstance(items, dict) or (files is not None and files.how != "finished"):
        journal.close("taken-back", operation, time=time.time())
        return files or RecoveredRollback(project, "taken back", target, undo)
    plans = plan_again(store, project, point, items)
    for one in restore_repositories(store, project, plans, target, undo):
        remarks += [*one.remarks, *(f"{name} could not be put back: {why}" for name, _, why in one.left)]
    facts = {"project": project, "target": target, "undo": undo, "git": True, "recovered": True}
    journal.close("done", operation, **facts, files=[], done=len(items), left=0, time=time.time())
    after_mark(store, project, target, undo, settings=settings, remarks=remarks, listener=listener)
    return RecoveredRollback(project, "finished", target, undo, tuple(remarks))


def _recover_files(
    store: Store,
    project: str,
    settings: TakeSettings | None,
    journal: RollbackJournal,
    lines: Sequence[dict[str, object]],
    listener: Listener,
) -> RecoveredRollback:
    by_state: Mapping[str, dict[str, object]] = {str(line["state"]): line for line in lines}
    begun, committed = by_state.get("begun", {}), by_state.get("committed", {})
    operation = str(lines[-1]["operation"])
    opened = {str(path): int(mode) for path, mode in _pairs(begun.get("opened"))}
    changes, outsides = _changes(committed.get("changes")), _changes(committed.get("outsides"))
    target, undo = str(begun.get("target", "")), str(begun.get("undo", ""))
    check_project(project, target)
    remarks: list[str] = []
    with ProjectTree(project) as ground:
        ground.numbers_last = keeps_numbers(project)
        if committed and "taking-back" not in by_state:
            try:
                outcome = go_forward(ground, changes, listener)
            except OSError:
                journal.write("taking-back", operation)
                go_back(ground, changes, outsides, opened)
            else:
                hidden = begun.get("hidden") is True
                remarks, not_set = finish(ground, changes, outsides, opened, undo, target if hidden else "")
                whole = begun.get("complete") is not False and not outcome.left + not_set and not hidden
                until = str(begun.get("until") or "")
                if hidden and not until:  # one turn is gone on with as a whole
                    listener(Event("rollback", text=_half(project, target)))
                journal.close(
                    "done",
                    operation,
                    project=project,
                    target=target,
                    undo=undo,
                    files=_words(begun.get("files")),
                    done=len(outcome.made),
                    left=len(outcome.left + not_set),
                    complete=whole,
                    recovered=True,
                    **({"until": until} if until else {}),
                    time=time.time(),
                )
                after_mark(
                    store, project, target, undo, settings=settings, remarks=remarks, listener=listener
                )
                return RecoveredRollback(project, "finished", target, undo, tuple(remarks))
        else:
            for aside in _words(begun.get("asides")) if not committed else []:
                ground.unlink(aside)
            go_back(ground, changes, outsides, opened)
        journal.close("taken-back", operation, time=time.time())
    return RecoveredRollback(project, "taken back", target, undo, tuple(remarks))


def _half(project: str, target: str) -> NextStep:
    """What is said of a rollback that was finished without its hidden half."""
    return NextStep(
        "rollback",
        (target, "--dir", project),
        before="Note: a rollback that was cut short is finished for what git sees, and not yet for what it"
        " hides. Bring that back:",
    )


def _changes(found: object) -> list[Change]:
    return [Change.from_dict(one) for one in found] if isinstance(found, list) else []


def _words(found: object) -> list[str]:
    return [str(word) for word in found] if isinstance(found, list) else []


def _pairs(found: object) -> list[tuple[str, int]]:
    return [(str(path), int(mode)) for path, mode in found.items()] if isinstance(found, dict) else []


def after_mark(
    store: Store,
    project: str,
    target: str,
    undo: str,
    *,
    settings: TakeSettings | None,
    session: str = "",
    remarks: list[str],
    listener: Listener,
) -> Checkpoint | None:
    """What the rollback left behind, so that a later edit of the user's is known for one."""
    points = store.checkpoints(project)
    # As the undo point was taken: of a directory that is no project only named files are known.
    only_named = any(point.id == undo and not point.full for point in points)
    try:
        taken = take(
            store,
            project,
            kind="after",
            named=every_name(store, points) if only_named else None,
            walked=not only_named,
            reason=f"rollback to {target}",
            session=session,
            turn=f"rollback {undo}",
            settings=settings or TakeSettings(),
            always=True,
            listener=listener,
        )
    except (SafekeptError, OSError) as error:
        remarks.append(f"the mark after the rollback could not be taken: {error}")
        return None
    return taken.checkpoint
