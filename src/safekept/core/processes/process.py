"""Which process made something, and whether it is surely gone.

A process number alone says little: every container counts from 1, and so does the machine after a restart.
It is taken for gone only where it was counted in this very space: this boot of this kernel, and the PID
namespace that we are in. For another space the answer is that it is unknown.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import sys
import time

from ..platform.processes import boot_id, number_space

_DIGITS = 12
_DAY = 86_400.0


@functools.lru_cache(maxsize=1)
def boot() -> str:
    """A short name for this boot of this machine."""
    return hashlib.sha256(boot_id().encode()).hexdigest()[:_DIGITS]


def process_space() -> str:
    """A short name for the space in which this process has its number."""
    return hashlib.sha256(f"{boot()} {number_space()}".encode()).hexdigest()[:_DIGITS]


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
    """Whether the process that had this number in that space has ended; False where that is unknown."""
    return space == process_space() and pid > 0 and not process_alive(pid)


def owner_mark() -> str:
    """What a name begins with that belongs to this process: its number and its space."""
    return f"{os.getpid()}-{process_space()}"


def left_behind(name: str, changed: float) -> bool:
    """Whether something whose name begins with `owner_mark` belongs to no process any more.

    `changed` is when it was last written. Of another space's process only age can tell: a day.
    """
    pid, _, rest = name.partition("-")
    if not pid.isdigit():
        return False
    space = rest.partition("-")[0]
    if space == process_space():
        return not process_alive(int(pid))
    return time.time() - changed > _DAY


# Starting detached work: a session of its own, no streams, and no child left to us.


#: Seconds for a shell to start something and end.
_SHELL = 10.0


def run_detached(module: str, *words: str) -> None:
    """Start `main()` of a module of ours; it finds the words from `sys.argv[2]` on. Raises OSError."""
    import shlex
    import subprocess

    import safekept

    root = os.path.dirname(os.path.dirname(os.path.abspath(safekept.__file__)))
    start = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"
    command = shlex.join([sys.executable, "-I", "-c", start, root, *words])
    try:
        # The shell ends at once and is waited for; what it leaves behind is no zombie of ours.
        subprocess.run(
            ["/bin/sh", "-c", f"{command} </dev/null >/dev/null 2>&1 &"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_SHELL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
