"""The trash: what was dropped waits beside where it was, on the same disk, until its days are over.

    <directory>/.safekept-trash/<operation>/
        trash.json       what is in it, where it came from, until when it is kept
        0-NAME, 1-NAME   the things themselves, files or directories; their names still say what they are

The list is durable before the first thing is moved, so that one that was killed can be taken up or put
back. Taking back never replaces anything: where a name is taken meanwhile, the next free one is used.
Below the free-space floor nothing waits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .files import free_bytes, fsync_directory, numbered_name, private_directory, rename_to_free_name
from .files.small import read_document, write_document
from .records import dataclass

NAME = ".safekept-trash"
#: Seconds for which what was dropped can be brought back.
GRACE = 3 * 86400.0
_ABOUT = "trash.json"
#: Below this much free room, or this share of the disk where that is less, nothing waits.
_FLOOR, _FLOOR_SHARE = 1 << 30, 0.05


@dataclass(frozen=True, slots=True)
class Trashed:
    """What one operation dropped, and until when it can be brought back."""

    path: str  # the directory of this operation in the trash
    operation: str
    time: float
    until: float
    things: tuple[str, ...]  # where they were

    @property
    def bytes(self) -> int:
        return weight(self.path)

    def place(self, number: int) -> str:
        """Where one of the things is now."""
        return os.path.join(self.path, f"{number}-{os.path.basename(self.things[number])}")


def room_to_keep(directory: str, needed: int = 0) -> bool:
    """Whether the disk has room for what is only kept for grace's sake: the floor, and `needed` beside it."""
    facts = os.statvfs(directory)
    floor = min(_FLOOR, int(facts.f_blocks * facts.f_frsize * _FLOOR_SHARE))
    return free_bytes(directory) >= floor + needed


def throw_away(
    directory: str,
    operation: str,
    paths: Sequence[str],
    *,
    grace: float = GRACE,
    now: float | None = None,
) -> Trashed:
    """Move these, which lie in `directory`, into its trash. Raises OSError; nothing is lost then."""
    moment = time.time() if now is None else now
    place = os.path.join(directory, NAME, operation)
    _make_base(os.path.join(directory, NAME))
    os.mkdir(place, 0o700)
    trashed = Trashed(place, operation, moment, moment + grace, tuple(paths))
    document = {"version": 1, "operation": operation, "time": moment, "until": trashed.until}
    document["things"] = list(paths)
    write_document(os.path.join(place, _ABOUT), document)
    for number, path in enumerate(paths):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, trashed.place(number))
    for changed in (place, os.path.join(directory, NAME), directory):
        fsync_directory(changed)
    return trashed


def trash_in(directory: str) -> list[Trashed]:
    """Everything in the trash of a directory, oldest first. What has no list of ours is not ours."""
    base = os.path.join(directory, NAME)
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(base):
            place = os.path.join(base, name)
            if os.path.islink(place):
                continue
            trashed = read_document(os.path.join(place, _ABOUT), partial(_trashed, place), None)
            if trashed is not None:
                found.append(trashed)
    return sorted(found, key=lambda one: (one.time, one.operation))


def _trashed(place: str, document: Mapping[str, Any]) -> Trashed:
    things = tuple(str(thing) for thing in document["things"])
    times = float(document["time"]), float(document["until"])
    return Trashed(place, str(document["operation"]), *times, things)


def take_out(trashed: Trashed) -> tuple[list[str], list[str]]:
    """Put everything back where it was; the names it has now, and what was not there to be put back."""
    back, lost = [], []
    for number, path in enumerate(trashed.things):
        kept = trashed.place(number)
        try:
            facts = os.lstat(kept)
        except FileNotFoundError:
            lost.append(path)
            continue
        private_directory(os.path.dirname(path))
        if stat.S_ISDIR(facts.st_mode):
            back.append(_rename_directory(kept, path))
        else:
            back.append(rename_to_free_name(kept, path))
        fsync_directory(os.path.dirname(path))
    _remove(trashed)
    return back, lost


def empty_trash(directory: str, now: float | None = None, *, everything: bool = False) -> int:
    """Delete what is past its days, or all of it; the bytes that this freed."""
    moment = time.time() if now is None else now
    all_of_it = everything or (os.path.isdir(os.path.join(directory, NAME)) and not room_to_keep(directory))
    freed = 0
    for trashed in trash_in(directory):
        if all_of_it or trashed.until < moment:
            freed += trashed.bytes
            _remove(trashed)
    return freed


def limit_trash(directory: str, things: int) -> None:
    """Keep no more than so many things in a trash; the oldest operations go first."""
    kept = trash_in(directory)
    while kept and sum(len(one.things) for one in kept) > things:
        _remove(kept.pop(0))


def weight(path: str) -> int:
    """The bytes of everything below a path."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_size
    return total


def _make_base(base: str) -> None:
    """A real directory of this user's: no link that another user put there first leads us elsewhere."""
    private_directory(base)
    facts = os.lstat(base)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), base)


def _rename_directory(kept: str, path: str) -> str:
    candidate, number = path, 1
    while os.path.lexists(candidate):
        number += 1
        candidate = numbered_name(path, number)
    os.rename(kept, candidate)
    return candidate


def _remove(trashed: Trashed) -> None:
    """The things first and the list last, so that a removal that was killed can be taken up again."""
    for number in range(len(trashed.things)):
        kept = trashed.place(number)
        if os.path.isdir(kept) and not os.path.islink(kept):
            shutil.rmtree(kept, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(kept)
    shutil.rmtree(trashed.path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(trashed.path))
