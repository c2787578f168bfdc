"""Who else has a database open: found without opening it.

Opening and closing a database as a plain file drops this process's own locks on it, so nothing
here does. The kernel's lists are read instead: descriptors of every process (`/proc/*/fd`) and all
file locks (`/proc/locks`). A process whose descriptors may not be read counts as a holder when its
command line names the database's directory: unknown means held.
"""

from __future__ import annotations

import contextlib
import os

from ..records import dataclass
from .descriptors import used_here
from .format import SIDECARS


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
    unseen = _scan_descriptors(inodes, os.path.dirname(os.path.abspath(path)), found)
    _scan_locks(inodes, unseen, found)
    return [found[pid] for pid in sorted(found)]


def command_of(pid: int) -> str:
    """The command line of a process, shortened; its bare name where it shows none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read(4096).replace(b"\0", b" ")).strip()
        if not words:
            with open(f"/proc/{pid}/comm", "rb") as file:
                words = os.fsdecode(file.read(64)).strip()
    except OSError:
        return "unknown"
    words = " ".join(words.split())
    return words if len(words) <= 100 else words[:97] + "..."


def describe(found: list[Holder]) -> str:
    """Holders in words, for an error text."""
    if not found:
        return "a process that cannot be seen from here"
    words = ", ".join(str(holder) for holder in found[:3])
    return words if len(found) <= 3 else f"{words} and {len(found) - 3} more"


def _scan_descriptors(inodes: dict[tuple[int, int], str], directory: str, found: dict[int, Holder]) -> bool:
    """Look at the open files of every process; True when some could not be looked at."""
    unseen = False
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for pid in pids:
        if pid == os.getpid():
            continue
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except PermissionError:
            unseen = True
            if _names(pid, directory):
                found[pid] = Holder(pid, command_of(pid), "may have it open; its files cannot be listed")
            continue
        except OSError:
            continue
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{descriptor}")
                suffix = inodes.get((status.st_dev, status.st_ino))
                if suffix is not None:
                    what = f"its {suffix} file" if suffix else "it"
                    found[pid] = Holder(pid, command_of(pid), f"has {what} open")
                    if not suffix:
                        break
    return unseen


def _names(pid: int, directory: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsencode(directory) in file.read()
    except OSError:
        return False


def _scan_locks(inodes: dict[tuple[int, int], str], unseen: bool, found: dict[int, Holder]) -> None:
    """Add processes that hold a lock although their open files could not be seen."""
    try:
        with open("/proc/locks", "rb") as file:
            lines = file.read().decode("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        # 4: POSIX  ADVISORY  READ 412 fe:00:131 1073741826 1073742335
        words = [word for word in line.split() if word != "->"]
        if len(words) < 6 or words[1] not in ("POSIX", "OFDLCK"):
            continue
        major, minor, inode = words[5].split(":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
        if key not in inodes:
            continue
        pid = int(words[4])
        if pid > 0 and pid != os.getpid() and pid not in found:
            found[pid] = Holder(pid, command_of(pid), "holds a lock on it")
        elif pid <= 0 and unseen and not found and not used_here(key):
            found[0] = Holder(0, "unknown", "holds a lock on it")
