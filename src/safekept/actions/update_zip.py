"""The zip before an update, where Hermes looks for it: `backups/pre-update-<stamp>.zip` in the home.

Only zips of the same kind, by Hermes's own name for them, ever go, oldest first and never the last;
an incomplete one pushes none out. A zip that somebody named by hand is nobody's business here.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from safekept.actions.backup import BackupRequest, BackupResult, backup
from safekept.actions.snapshot import SnapshotRequest
from safekept.actions.surroundings import Surroundings
from safekept.archive import identify
from safekept.core.events import Listener
from safekept.core.files import fsync_directory, numbered_name

DIRECTORY = "backups"


def write_update_zip(
    surroundings: Surroundings, request: SnapshotRequest, keep: int, listener: Listener
) -> tuple[BackupResult, tuple[str, ...]]:
    """Write one zip of the home, then let the oldest of its kind go; what was written and what went."""
    home = request.place.home
    directory = os.path.join(home, DIRECTORY)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)  # never the home itself: one that is gone is not made anew here
    result = backup(
        surroundings,
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
