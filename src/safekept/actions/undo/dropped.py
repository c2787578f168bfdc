"""Bring back what an operation dropped, as long as it is kept: forgotten snapshots, dropped checkpoints,
archives that `--keep` rotated away. `safekept undo ID` comes here for what changed no home and no project.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import Record, new_id
from safekept.core.next_step import NextStep, Step, step_texts
from safekept.core.records import dataclass
from safekept.core.trash import empty_trash, take_out, trash_in
from safekept.home.landing import expire

from ..base.context import HomeRef, UserContext
from ..base.operations.care import DoctorFacts
from ..base.operations.facts import Facts
from ..base.operations.homes import BringBackFacts, MarkFacts
from ..base.operations.projects import CheckpointsPruneFacts, LegacyClearFacts
from ..base.operations.stores import BackupFacts, SnapshotPruneFacts
from ..base.record import record
from ..projects.project import checkpoint_directory
from .changes import Change, journal_of, known_landings
from .undo_refusals import already_back, find_entry, undo_refusal

if TYPE_CHECKING:
    from safekept.checkpoints.upkeep import Dropped

    from .undo import Undone, UndoRequest


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """Things that were dropped and are there again, or would be."""

    what: str  # "snapshot", "checkpoint", "archive", …
    back: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # gone for good
    notes: tuple[Step, ...] = field(default=())

    def as_dict(self) -> dict[str, object]:
        return {
            "what": self.what,
            "back": list(self.back),
            "lost": list(self.lost),
            "notes": list(self.notes),
        }


def bring_back_dropped(context: UserContext, request: UndoRequest, listener: Listener) -> Undone:
    """Take an operation back that changed no home and no project; raises where that cannot be."""
    from .undo import Undone

    entry = find_entry(context, request.operation)
    ways: dict[str, _Way] = {
        "forget": _snapshots,
        "prune": _snapshots,
        "checkpoints-prune": _checkpoints,
        "checkpoints-clear": _checkpoints,
        "checkpoints-clear-legacy": _legacy,
        "backup": _archives,
        "doctor": _modes,
    }
    if by := _brought_back(context).get(entry.operation):
        raise already_back(entry, by)
    way = ways.get(entry.verb)
    if way is None or entry.state not in ("done", "incomplete"):
        raise undo_refusal(entry)
    found = way(context, entry, request.dry_run, listener)
    if not found.back and not found.lost:
        raise undo_refusal(entry)
    home = Facts.read(entry).home or ""
    change = Change(entry.operation, entry.verb, "dropped", entry.time, home=home, lines=(entry,))
    if request.dry_run:
        return Undone("", change, brought_back=found)
    operation = new_id()
    work = BringBackFacts(undoes=entry.operation, of=entry.verb, home=home or None)
    work.add({**found.as_dict(), "notes": step_texts(found.notes)})
    record(context, work.line(operation, "incomplete" if found.lost else "done"), listener)
    return Undone(operation, change, brought_back=found)


def _brought_back(context: UserContext) -> dict[str, str]:
    """Operations whose drops were all brought back before, and what did that."""
    return {
        BringBackFacts.read(one).undoes or "": one.operation
        for one in journal_of(context, "bring-back")
        if one.state == "done"
    }


_Way = Callable[[UserContext, Record, bool, Listener], BroughtBack]


def _snapshots(context: UserContext, entry: Record, dry_run: bool, listener: Listener) -> BroughtBack:
    from safekept.vault.errors import NoSuchSnapshot

    from ..snapshots.choosing import choose
    from ..snapshots.forgetting import call_back
    from ..snapshots.listing import list_home
    from ..vault.opening import open_vault

    # A prune counts as `snapshots` those that went for good; the ones that it only forgot are told beside.
    names = SnapshotPruneFacts.read(entry).forgotten or MarkFacts.read(entry).snapshots
    if not names:
        return BroughtBack("snapshot")
    place = _place(context, Facts.read(entry).home or "")
    back, lost = [], []
    with open_vault(context, listener=listener) as repository:
        listing = list_home(repository, place.home)
        for name in names:
            try:
                choose(listing, name, forgotten=True)
                back.append(name)
            except NoSuchSnapshot:
                lost.append(name)
        if back and not dry_run:
            call_back(context, repository, place, back, listener)
    return BroughtBack("snapshot", tuple(name[:8] for name in back), tuple(name[:8] for name in lost))


def _place(context: UserContext, home: str) -> HomeRef:
    return context.locate(home, existing=False)


def _checkpoints(context: UserContext, entry: Record, dry_run: bool, listener: Listener) -> BroughtBack:
    found = recall_checkpoints(
        context, lambda one: one.operation == entry.operation, dry_run=dry_run, listener=listener
    )
    known = len(found.back) + len(found.lost)
    gone = (CheckpointsPruneFacts.read(entry).dropped or 0) - known
    if gone > 0:
        lost = (*found.lost, f"{gone:,} that are not kept any more")
        return BroughtBack(found.what, found.back, lost, found.notes)
    return found


def recall_checkpoints(
    context: UserContext,
    wanted: Callable[[Dropped], bool],
    *,
    dry_run: bool = False,
    listener: Listener = silent,
) -> BroughtBack:
    """Bring dropped checkpoints back whose content is still kept."""
    from safekept.checkpoints.upkeep import bring_back

    from ..projects.rollback import checkpoint_store

    with checkpoint_store(context, listener) as store:
        found = bring_back(store, wanted, look_only=dry_run)
    notes = (
        (NextStep("checkpoint status", before="the limits may drop them again: see"),) if found.back else ()
    )
    return BroughtBack(
        "checkpoint",
        tuple(f"{point.id} of {point.project}" for point in found.back),
        tuple(f"{entry.id} of {entry.project}" for entry in found.lost),
        notes,
    )


def _archives(context: UserContext, entry: Record, dry_run: bool, listener: Listener) -> BroughtBack:
    made = BackupFacts.read(entry)
    archive, rotated = made.archive or "", list(made.rotated or ())
    if not rotated or not archive:
        return BroughtBack("archive")
    return _from_trash(os.path.dirname(archive), entry.operation, rotated, dry_run)


def _legacy(context: UserContext, entry: Record, dry_run: bool, listener: Listener) -> BroughtBack:
    names = ["what was archived"] if LegacyClearFacts.read(entry).archives else []
    return _from_trash(checkpoint_directory(context), entry.operation, names, dry_run)


def _modes(context: UserContext, entry: Record, dry_run: bool, listener: Listener) -> BroughtBack:
    from ..doctor.repairs import put_modes_back

    back, lost = put_modes_back(DoctorFacts.read(entry).fixes or (), dry_run=dry_run)
    return BroughtBack("mode", tuple(back), tuple(lost))


def _from_trash(directory: str, operation: str, names: list[str], dry_run: bool) -> BroughtBack:
    trashed = next((one for one in trash_in(directory) if one.operation == operation), None)
    if trashed is None:
        return BroughtBack("archive", (), tuple(names))
    if dry_run:
        return BroughtBack("archive", trashed.things)
    try:
        back, lost = take_out(trashed)
    except OSError as error:
        raise NotBroughtBack(
            f"What is in `{trashed.path}` could not be put back: {error.strerror or error}",
            kept="What was not put back is still there",
            next_steps=("Mend the cause, then run the command again",),
            path=trashed.path,
        ) from error
    return BroughtBack("archive", tuple(back), tuple(lost))


class NotBroughtBack(SafekeptError):
    code = "not-brought-back"


# Empty every trash that safekept knows of: what is past its days goes, wherever it waits. A command that
# drops something empties the trash of that place on the way. This is for unattended runs, so that
# what was dropped in a place where nothing is ever dropped again goes, too.


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
