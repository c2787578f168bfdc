"""Open files by number: how they are reached by a name, walked through, piped, and kept in memory.

Linux: `/proc/self/fd`, `O_PATH`, `memfd_create`, `F_SETPIPE_SZ`. macOS: `F_GETPATH`, `/dev/fd`. Elsewhere:
no name, `O_RDONLY`, a file that is unlinked at once, pipes as wide as they are. What is lost: without
`/proc` a name leads by its path again, so a user who can write to a directory on the way can exchange it
meanwhile; without `O_PATH` a directory that may be entered but not read is not walked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

from .system import has

_BY_NUMBER = "/proc/self/fd"
_O_PATH = getattr(os, "O_PATH", 0) if has("o_path") else 0
#: Opens a directory for walking only: where there is `O_PATH`, no right to read is needed on it.
WALK = (_O_PATH or os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Opens a name, and not what is under it; None where that cannot be had.
NAME = _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC if _O_PATH else None


def name_of(descriptor: int) -> str:
    """A name that leads to an open file or directory, whatever its path is by now; "" where there is none."""
    if descriptor >= 0 and has("proc") and os.path.isdir(_BY_NUMBER):
        return f"{_BY_NUMBER}/{descriptor}"
    return ""


def path_of(descriptor: int) -> str:
    """The path that an open directory has at this moment; "" where the system does not say."""
    with contextlib.suppress(OSError):
        if sys.platform == "darwin":
            return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, b"\0" * 1024).rstrip(b"\0"))
        if has("proc"):
            return os.readlink(f"{_BY_NUMBER}/{descriptor}")
    return ""


def open_here() -> list[int]:
    """The numbers of all files that this process has open; one or two of them are closed by now."""
    for listing in (_BY_NUMBER, "/dev/fd") if has("proc") else ("/dev/fd",):
        with contextlib.suppress(OSError):
            return [int(number) for number in os.listdir(listing)]
    return list(range(256))  # as many as a process usually may have


def in_memory(name: str) -> int:
    """An open file that is on no disk, or, where there is no such thing, has no name on one any more."""
    if sys.platform == "linux" and has("memfd"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix=f".{name}-")
    os.unlink(path)
    return descriptor


def keeps_secrets_in_memory() -> bool:
    """Whether `in_memory` is on no disk, and another process can be given its name."""
    return sys.platform == "linux" and has("memfd") and has("proc")


def pipe_without_waiting() -> tuple[int, int]:
    """A pipe of which neither end waits."""
    ends = os.pipe()  # not inherited
    for end in ends:
        os.set_blocking(end, False)
    return ends


def widen_pipe(descriptor: int, size: int) -> bool:
    """Let a pipe hold so much, so that both processes run longer at a stretch; whether it does now."""
    if sys.platform == "linux" and has("pipe_size"):
        with contextlib.suppress(OSError):  # more than an ordinary user may have
            return fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size) >= size
    return False
