"""Which processes have a file open or locked, found without opening it.

Linux: the descriptors of every process in `/proc/*/fd`, and `/proc/locks`. macOS: `lsof`. Elsewhere it
is not known, and the answer is just that, so that unknown is taken for held. What is lost with `lsof`: it
takes up to a second, and shows an ordinary user no file of other users' processes: those count as hidden.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence

from ..records import dataclass
from .system import has, output_of

Inode = tuple[int, int]  # device, number
_PROC = "/proc"


@dataclass(frozen=True, slots=True)
class Users:
    """`open`: a process and the file it has open. `hidden`: processes whose files may not be listed."""

    open: list[tuple[int, Inode]]
    hidden: list[int]
    unknown: bool = False  # nothing could be listed at all


def users_of(files: dict[Inode, str]) -> Users:
    """Who has one of these open (each with its path), apart from this process."""
    if has("proc") and os.path.isdir(f"{_PROC}/self/fd"):
        return _listed(files)
    return _asked(files)


def _listed(files: Collection[Inode]) -> Users:
    found = Users([], [])
    try:
        pids = [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return Users([], [], unknown=True)
    for pid in pids:
        if pid == os.getpid():
            continue
        try:
            descriptors = os.listdir(f"{_PROC}/{pid}/fd")
        except PermissionError:
            found.hidden.append(pid)
            continue
        except OSError:
            continue
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                status = os.stat(f"{_PROC}/{pid}/fd/{descriptor}")
                if (status.st_dev, status.st_ino) in files:
                    found.open.append((pid, (status.st_dev, status.st_ino)))
    return found


def _asked(files: dict[Inode, str]) -> Users:
    text = output_of(["lsof", "-w", "-n", "-P", "-F", "pi", "--", *files.values()])
    if text is None:
        return Users([], [], unknown=True)
    found, pid = Users([], _of_others()), 0
    by_number: dict[int, list[Inode]] = {}  # two disks may have the same number
    for key in files:
        by_number.setdefault(key[1], []).append(key)
    for line in text.splitlines():
        kind, value = line[:1], line[1:]
        if not value.isdigit():
            continue
        if kind == "p":
            pid = int(value)
        elif kind == "i" and pid not in (0, os.getpid()):
            found.open.extend((pid, key) for key in by_number.get(int(value), ()))
    return found


def _of_others() -> list[int]:
    """Processes of other users, whose files are not shown to an ordinary one."""
    if os.geteuid() == 0:
        return []
    rows = (
        line.split() for line in (output_of(["ps", "-ax", "-o", "pid=", "-o", "uid="]) or "").splitlines()
    )
    return [int(pid) for pid, user in rows if user != str(os.geteuid())]


def locks_on(files: Collection[Inode]) -> Sequence[tuple[int, Inode]]:
    """The process of every lock on one of these; 0 or less where it cannot be seen from here."""
    if not has("proc"):
        return []
    try:
        with open(f"{_PROC}/locks", "rb") as file:
            lines = file.read().decode("ascii", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        # 4: POSIX  ADVISORY  READ 412 fe:00:131 1073741826 1073742335
        words = [word for word in line.split() if word != "->"]
        if len(words) < 6 or words[1] not in ("POSIX", "OFDLCK"):
            continue
        major, minor, inode = words[5].split(":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(inode))
        if key in files:
            found.append((int(words[4]), key))
    return found
