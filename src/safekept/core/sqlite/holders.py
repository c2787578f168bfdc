"""Who else has a database open: found without opening it.

Opening and closing a database as a plain file drops this process's own locks on it, so nothing
here does. The kernel's lists of open files and of locks are read instead. A process whose files may not be
listed counts as a holder when its command line names the database's directory, and where nothing can be
listed there is an unknown holder: unknown means held.
"""

from __future__ import annotations

import contextlib
import os

from ..platform.open_files import Inode, Users, locks_on, users_of
from ..platform.processes import command_line, mentioning
from ..records import dataclass
from .descriptors import used_here
from .format import SIDECARS

#: How a database is held where nothing can be listed: unknown means held.
NOT_KNOWN = "may have it open; this system does not say who has"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a database open or locked."""

    pid: int  # 0 where it cannot be seen
    command: str
    how: str

    def __str__(self) -> str:
        if not self.pid:
            return "a process that cannot be seen from here"
        return f"pid {self.pid} ({self.command})"


def holders(path: str) -> list[Holder]:
    """Processes other than this one that have the database or one of its sidecars open or locked."""
    inodes = {}
    for suffix in ("", *SIDECARS):
        with contextlib.suppress(OSError):
            status = os.stat(path + suffix)
            inodes[status.st_dev, status.st_ino] = suffix
    if not inodes:
        return []
    found: dict[int, Holder] = {}
    users = users_of({key: path + suffix for key, suffix in inodes.items()})
    if users.unknown:
        found[0] = Holder(0, "unknown", NOT_KNOWN)
    _note_open(users, inodes, os.path.dirname(os.path.abspath(path)), found)
    _note_locks(inodes, bool(users.hidden) or users.unknown, found)
    return [found[pid] for pid in sorted(found)]


def command_of(pid: int) -> str:
    """The command line of a process, shortened; its bare name where it shows none."""
    words = command_line(pid) or "unknown"
    return words if len(words) <= 100 else words[:97] + "..."


def describe(found: list[Holder]) -> str:
    """Holders in words, for an error text."""
    if not found:
        return "a process that cannot be seen from here"
    words = ", ".join(str(holder) for holder in found[:3])
    return words if len(found) <= 3 else f"{words} and {len(found) - 3} more"


def _note_open(users: Users, inodes: dict[Inode, str], directory: str, found: dict[int, Holder]) -> None:
    for pid in mentioning(users.hidden, directory):
        found[pid] = Holder(pid, command_of(pid), "may have it open; its files cannot be listed")
    for pid, key in sorted(users.open, key=lambda one: inodes[one[1]], reverse=True):
        suffix = inodes[key]  # the database itself comes last, and is what is said
        what = f"its {suffix} file" if suffix else "it"
        found[pid] = Holder(pid, command_of(pid), f"has {what} open")


def _note_locks(inodes: dict[Inode, str], unseen: bool, found: dict[int, Holder]) -> None:
    """Add processes that hold a lock although their open files could not be seen."""
    for pid, key in locks_on(inodes):
        if pid > 0 and pid != os.getpid() and pid not in found:
            found[pid] = Holder(pid, command_of(pid), "holds a lock on it")
        elif pid <= 0 and unseen and not found and not used_here(key):
            found[0] = Holder(0, "unknown", "holds a lock on it")
