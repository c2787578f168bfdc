"""Copies of the key, the settings, the journal and the receipts, behind a seat belt of their own.

The originals lie where an `rm -rf ~` finds them. The copies follow whenever an operation ends, and never go
back: one that would be replaced by something else (after the `rm` a new journal begins) stays beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from safekept.core.files import private_directory, quick_write, write_all
from safekept.core.files.belt import Belt
from safekept.core.files.small import open_regular, read_regular

from .record import KEPT

if TYPE_CHECKING:
    from .context import UserContext

KEY, SETTINGS, JOURNAL, RECEIPTS = "vault.key", "config.toml", "journal.jsonl", "receipts"
#: What is remembered of kits, of what a person declined, and of which vault is this machine's.
REMEMBERED = ("kits.json", "declined.json", "vaults.json")
_EARLIER = ".before-"
#: So many earlier versions of a copy stay; of a key all do, each may open a history.
_VERSIONS = 5
#: What is compared before the journal's new lines are added to its copy.
_TAIL = 4096
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def copies_belt(context: UserContext) -> Belt:
    return Belt(copies_directory(context), (RECEIPTS,), "belt", context.choices.seat_belt)


def copies_directory(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, KEPT)


def small_files(context: UserContext) -> dict[str, str]:
    """Each file that is copied whole, and the name of its copy."""
    places = context.places
    named = {places.vault_key_file: KEY, places.settings_file: SETTINGS}
    named |= {os.path.join(places.data_directory, name): name for name in REMEMBERED}
    return {path: name for path, name in named.items() if path}


def gone_originals(context: UserContext) -> dict[str, str]:
    """The files that are gone while their copy is here, with the path of the copy."""
    place = copies_directory(context)
    found = {path: os.path.join(place, name) for path, name in small_files(context).items()}
    return {path: copy for path, copy in found.items() if os.path.isfile(copy) and not os.path.lexists(path)}


def journal_copies(context: UserContext) -> list[str]:
    """Every copy of a journal, the oldest first: after an `rm` each starts empty."""
    place = copies_directory(context)
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(place) if name.startswith(JOURNAL + _EARLIER)]
        last = [JOURNAL] if os.path.isfile(os.path.join(place, JOURNAL)) else []
        return [os.path.join(place, name) for name in (*sorted(names), *last)]
    return []


def keep_copies(context: UserContext) -> None:
    """Bring the copies up to date, where a seat belt is wanted; else let them lie, open. Never an error: the
    originals are there."""
    place, belt = copies_directory(context), copies_belt(context)
    with contextlib.suppress(OSError):
        if context.choices.seat_belt and not os.path.isdir(place):
            private_directory(os.path.join(place, RECEIPTS))
        if belt.wanted is None and belt.state == "off":
            return
        try:
            if belt.wanted is False:
                belt.open(place)
                return
            for source, name in small_files(context).items():
                with contextlib.suppress(OSError):
                    _keep(belt, source, os.path.join(place, name))
            with contextlib.suppress(OSError):
                _keep_journal(belt, context.journal.path, os.path.join(place, JOURNAL))
            with contextlib.suppress(OSError):
                _keep_receipts(belt, context.places.data_directory, place)
        finally:
            belt.let_go()


def _keep(belt: Belt, source: str, copy: str) -> None:
    """A small file, and what was there before if it was something else."""
    wanted = os.stat(source)
    with contextlib.suppress(FileNotFoundError):
        there = os.stat(copy)
        if (there.st_size, there.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
            return
    content = read_regular(source)
    belt.open(os.path.dirname(copy))
    with contextlib.suppress(FileNotFoundError):
        if read_regular(copy) != content:
            _put_aside(copy)
    quick_write(copy, content, 0o400)
    # The next look sees that it is the same without reading it.
    os.utime(copy, ns=(wanted.st_atime_ns, wanted.st_mtime_ns), follow_symlinks=False)


def _keep_journal(belt: Belt, source: str, copy: str) -> None:
    """The lines that are new; the whole of it where the copy is of another journal."""
    reading = open_regular(source)
    try:
        belt.open(os.path.dirname(copy))
        writing = os.open(copy, _APPEND, 0o600)
        try:
            # Another process that is at it adds the same lines; what came after them is added next time.
            fcntl.flock(writing, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(writing).st_size
            if held and not _goes_on(reading, writing, held):
                _put_aside(copy)
                os.close(writing)
                writing = os.open(copy, _APPEND, 0o600)
                held = 0
            while piece := os.pread(reading, 1 << 20, held):
                write_all(writing, piece)
                held += len(piece)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _goes_on(reading: int, writing: int, held: int) -> bool:
    """Whether a journal begins with what its copy holds, by its last lines."""
    start = max(0, held - _TAIL)
    return os.pread(reading, held - start, start) == os.pread(writing, held - start, start)


def _keep_receipts(belt: Belt, data_directory: str, place: str) -> None:
    source, copies = os.path.join(data_directory, RECEIPTS), os.path.join(place, RECEIPTS)
    new = sorted(set(os.listdir(source)) - set(os.listdir(copies)))
    for name in new:
        if name.endswith(".json"):
            belt.open(copies)
            quick_write(os.path.join(copies, name), read_regular(os.path.join(source, name)), 0o400)


def _put_aside(copy: str) -> None:
    os.rename(copy, f"{copy}{_EARLIER}{time.time_ns()}")
    directory, name = os.path.split(copy)
    earlier = sorted(one for one in os.listdir(directory) if one.startswith(name + _EARLIER))
    for one in earlier[:-_VERSIONS] if name != KEY else ():
        os.unlink(os.path.join(directory, one))
