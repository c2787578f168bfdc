"""Before an update or a migration: a restore point that costs what changed, so it is always on.

`protect_before` never raises, so it can stand in front of anything. It answers with one of three
outcomes that cannot be taken for each other: *done* (something to go back to exists, and how),
*opted-out* (a person switched it off) and *failed* (nothing was stored, and why).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.archive import identify
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import NoRoom, fsync_directory, numbered_name
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.home.copies import FULL, OFF, QUICK, mode_of, read_updates
from safekept.home.layout import check_home
from safekept.home.scan import Selection

from ..archives.backup import BackupRequest, BackupResult, backup
from ..base.context import HomeRef, UserContext
from ..base.operations.care import PreUpdateFacts
from ..base.record import record
from ..snapshots.create import SnapshotRequest, SnapshotResult, create_snapshot

if TYPE_CHECKING:
    from ..archives.backup import BackupResult


# The zip before an update, where Hermes looks for it: `backups/pre-update-<stamp>.zip` in the home. Only
# zips of the same kind, by Hermes's own name for them, ever go, oldest first and never the last; an
# incomplete one pushes none out. A zip with a name of its own is left alone.

DIRECTORY = "backups"


def write_update_zip(
    context: UserContext, request: SnapshotRequest, keep: int, listener: Listener
) -> tuple[BackupResult, tuple[str, ...]]:
    """Write one zip of the home, then let the oldest of its kind go; what was written and what went."""
    home = request.place.home
    directory = os.path.join(home, DIRECTORY)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)  # never the home itself: one that is gone is not rebuilt here
    result = backup(
        context,
        BackupRequest(
            request.place,
            output=_free_name(directory, request.kind),
            form="zip",
            selection=request.selection,
            deadline=request.deadline,
            isolated=request.isolated,
        ),
        listener,
    )
    for path in (directory, result.written.path):
        _give_to_owner(home, path)
    rotated = rotate(directory, request.kind, keep) if result.written.complete else []
    return result, tuple(rotated)


def rotate(directory: str, kind: str, keep: int) -> list[str]:
    """Remove the oldest complete zips of one kind beyond `keep` (at least 1), and incomplete older ones."""
    stamped = re.compile(rf"{re.escape(kind)}-\d{{4}}-\d\d-\d\d-\d{{6}}(-\d+)?\.zip")
    with os.scandir(directory) as listing:
        ours = [
            item.name
            for item in listing
            if stamped.fullmatch(item.name) and item.is_file(follow_symlinks=False)
        ]
    removed, complete = [], 0
    for name in sorted(ours, key=_age, reverse=True):
        path = os.path.join(directory, name)
        # One that Hermes wrote has no account of itself, and counts as whole.
        whole = (identify(path) or {}).get("complete", True)
        if complete >= max(keep, 1):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
                removed.append(path)
        complete += bool(whole)
    if removed:
        fsync_directory(directory)
    return removed


def _age(name: str) -> tuple[str, int]:
    stem, _, number = name.removesuffix(".zip").rpartition("-")
    # A name with a number of its own (`…-143000-2.zip`) is younger than the one without.
    return (f"{stem}-{number}", 1) if len(number) == 6 else (stem, int(number))


def _free_name(directory: str, kind: str) -> str:
    wanted = os.path.join(directory, f"{kind}-{time.strftime('%Y-%m-%d-%H%M%S')}.zip")
    path, number = wanted, 1
    while os.path.lexists(path):
        number += 1
        path = numbered_name(wanted, number)
    return path


def _give_to_owner(home: str, path: str) -> None:
    """As root, what is written into a home takes that home's owner."""
    if os.geteuid() == 0:
        owner = os.stat(home)
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


DONE, OPTED_OUT, FAILED = "done", "opted-out", "failed"
KINDS = ("pre-update", "pre-migration")


@dataclass(frozen=True, slots=True)
class Protection:
    """What stands between a home and what is about to happen to it."""

    outcome: str  # DONE, OPTED_OUT or FAILED
    kind: str
    place: HomeRef
    mode: str  # QUICK (a snapshot), FULL (a zip in the home too) or OFF
    snapshot: SnapshotResult | None = None
    zip: BackupResult | None = None
    rotated: tuple[str, ...] = ()  # older zips of this kind that went
    problems: tuple[dict[str, object], ...] = ()  # errors as documents: what, kept, next

    @property
    def complete(self) -> bool:
        """Everything that was asked for is stored whole."""
        stored = [self.snapshot.complete] if self.snapshot else []
        stored += [self.zip.written.complete] if self.zip else []
        return self.outcome == DONE and not self.problems and all(stored)


def protect_before(
    context: UserContext,
    place: HomeRef,
    kind: str = "pre-update",
    backup: bool | None = None,
    *,
    mode: str = "",
    keep: int = 0,
    label: str = "",
    selection: Selection | None = None,
    check: str = "always",
    deadline: float = 30.0,
    isolated: bool = False,
    listener: Listener = silent,
) -> Protection:
    """Take a restore point of a home before it is changed; never raises.

    `backup` is what was said on the command line: True also writes the zip, False switches all off
    and wins. Else `mode` (a safekept setting), else the home's own `updates.pre_update_backup`; a
    migration does not ask, as with Hermes. `keep` is how many zips of this kind stay; 0: as the home says.
    """
    operation, began, chosen = new_id(), time.monotonic(), QUICK
    try:
        check_home(place.home, place.layout)
        wanted = read_updates(place.home)
        chosen = _chosen(kind, backup, mode, wanted.mode)
        if chosen == OFF:
            protection = Protection(OPTED_OUT, kind, place, chosen)
        else:
            request = SnapshotRequest(
                place,
                kind,
                label,
                selection or Selection(),
                check=check,
                deadline=deadline,
                isolated=isolated,
            )
            protection = _protect(context, request, chosen, max(keep, 1) if keep else wanted.keep, listener)
    except Exception as error:
        protection = Protection(FAILED, kind, place, chosen, problems=(problem_of(error),))
    _note(context, operation, protection, time.monotonic() - began, listener)
    return protection


def _chosen(kind: str, backup: bool | None, mode: str, of_the_home: str) -> str:
    if backup is not None:
        return FULL if backup else OFF
    if kind != "pre-update":
        return QUICK
    return mode_of(mode) if mode else of_the_home


def _protect(
    context: UserContext, request: SnapshotRequest, mode: str, keep: int, listener: Listener
) -> Protection:
    snapshot: SnapshotResult | None = None
    zipped: BackupResult | None = None
    rotated: tuple[str, ...] = ()
    problems: list[dict[str, object]] = []
    try:
        snapshot = _snapshot(context, request, listener)
    except Exception as error:
        problems.append(problem_of(error))
    if mode == FULL:
        try:
            zipped, rotated = write_update_zip(context, request, keep, listener)
        except Exception as error:
            problems.append(problem_of(error))
    outcome = DONE if snapshot or zipped else FAILED
    return Protection(outcome, request.kind, request.place, mode, snapshot, zipped, rotated, tuple(problems))


def _snapshot(context: UserContext, request: SnapshotRequest, listener: Listener) -> SnapshotResult:
    try:
        return create_snapshot(context, request, listener)
    except NoRoom:
        if request.selection.quick:
            raise
        # Better the brain alone than nothing: the state files are a small part of most homes.
        listener(Event("snapshot", text="Note: no room for the whole home; trying its state files alone"))
        small = replace(request, selection=replace(request.selection, quick=True))
        return create_snapshot(context, small, listener)


def problem_of(error: Exception) -> dict[str, object]:
    """An error as a document, also one that was not foreseen."""
    if isinstance(error, SafekeptError):
        return error.as_dict()
    return {
        "code": "unexpected",
        "what": f"{type(error).__name__}: {error}",
        "kept": "The home was only read",
        "next": [],
        "retry": False,
        "facts": {},
    }


def _note(
    context: UserContext, operation: str, protection: Protection, seconds: float, listener: Listener
) -> None:
    work = PreUpdateFacts(home=protection.place.home, mode=protection.mode, seconds=round(seconds, 3))
    if taken := protection.snapshot:
        work.snapshot, work.files, work.bytes = taken.id, taken.files, taken.bytes
    if protection.zip:
        work.zip, work.rotated = protection.zip.written.path, tuple(protection.rotated)
    if protection.problems:
        work.problems = tuple(protection.problems)
    state = "incomplete" if protection.outcome == DONE and not protection.complete else protection.outcome
    record(context, work.line(operation, state, protection.kind), listener)
