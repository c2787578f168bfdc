"""Which process made something, and whether it is surely gone.

A process number alone says little: every container counts from 1, and so does the machine after a restart.
It is taken for gone only where it was counted in this very space: this boot of this kernel, and the PID
namespace that we are in. For another space the answer is that nobody can know.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
import uuid

_DIGITS = 12
_DAY = 86_400.0


@functools.lru_cache(maxsize=1)
def boot() -> str:
    """A short name for this boot of this machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            name = file.read(100).strip()
    except (OSError, ValueError):
        # No Linux: the machine's name and its network card have to do.
        name = f"{os.uname().nodename} {uuid.getnode()}"
    return hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]


def process_space() -> str:
    """A short name for the space in which this process has its number."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{boot()} {namespace}".encode()).hexdigest()[:_DIGITS]


def process_alive(pid: int) -> bool:
    """Whether a process of that number exists in our own space; one that we may not signal exists too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def surely_gone(pid: int, space: str) -> bool:
    """Whether the process that had this number in that space has ended; False where nobody can know."""
    return space == process_space() and pid > 0 and not process_alive(pid)


def owner_mark() -> str:
    """What a name begins with that belongs to this process: its number and its space."""
    return f"{os.getpid()}-{process_space()}"


def left_behind(name: str, changed: float) -> bool:
    """Whether something whose name begins with `owner_mark` belongs to nobody any more.

    `changed` is when it was last written. Of another space's process only age can tell: a day.
    """
    pid, _, rest = name.partition("-")
    if not pid.isdigit():
        return False
    space = rest.partition("-")[0]
    if space == process_space():
        return not process_alive(int(pid))
    return time.time() - changed > _DAY


def uptime() -> float:
    """Seconds by a clock that nobody sets, and that goes on while the machine sleeps; of this boot only."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
