"""What this system has: its own features, functions of its C library, its programs.

`SAFEKEPT_PLATFORM_WITHOUT=proc,renameat2` (or `all`) is for tests only: safekept then works as on a system
that never had these. Everything is still kept; `docs/reference/platforms.md` says what is lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctypes

#: Every feature that can be switched off, by the name that stands in the variable.
FEATURES = frozenset(
    "proc programs renameat2 memfd peercred seqpacket copy_file_range seek_data immutable syncfs "
    "pipe_size ofd_locks waitid prlimit boottime setresuid xattr o_path namespaces ioprio".split()
)
#: What macOS has too, each in its own way; `linux` switches off everything but this.
ON_MACOS = frozenset("programs renameat2 peercred seek_data immutable ofd_locks namespaces".split())
VARIABLE = "SAFEKEPT_PLATFORM_WITHOUT"
_PLACES = "/usr/bin:/bin:/usr/sbin:/sbin"
_SECONDS = 20.0


def _read(text: str) -> frozenset[str]:
    names = frozenset(text.replace(",", " ").split())
    if "all" in names:
        return FEATURES
    return names | (FEATURES - ON_MACOS) if "linux" in names else names


off = _read(os.environ.get(VARIABLE, ""))


def has(feature: str) -> bool:
    """Whether a feature may be used, if this system has it."""
    return feature not in off


def on_linux() -> bool:
    return sys.platform == "linux"


def on_macos() -> bool:
    return sys.platform == "darwin"


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    import ctypes  # most commands never need it

    return ctypes.CDLL(None, use_errno=True)


def function(name: str) -> Any:
    """A function of the C library; None where it has none of this name."""
    return getattr(_library(), name, None)


def last_error() -> int:
    """`errno` of the last call."""
    import ctypes

    return ctypes.get_errno()


def output_of(words: Sequence[str], *, seconds: float = _SECONDS) -> str | None:
    """What a program printed; None where there is none, or it failed. Nothing of ours is handed to it."""
    import shutil
    import subprocess

    program = shutil.which(words[0], path=_PLACES) if has("programs") else None
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *words[1:]],
            env={"LC_ALL": "C", "PATH": _PLACES},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0 and (done.stderr.strip() or done.returncode < 0):
        return None
    return os.fsdecode(done.stdout)


def features() -> dict[str, bool]:
    """Which features there are here, for a report: whether the system has its own way at all."""
    import fcntl
    import socket
    import time

    def any_of(*names: str) -> bool:
        return any(function(name) is not None for name in names)

    found = {
        "proc": os.path.isdir("/proc/self/fd"),
        "programs": all(output_of([*words]) is not None for words in (("ps", "-p", "1"), ("lsof", "-v"))),
        "renameat2": any_of("renameat2", "renameatx_np"),
        "memfd": hasattr(os, "memfd_create"),
        "peercred": hasattr(socket, "SO_PEERCRED") or on_macos(),
        "seqpacket": on_linux(),
        "copy_file_range": hasattr(os, "copy_file_range"),
        "seek_data": hasattr(os, "SEEK_DATA"),
        "immutable": on_linux() or hasattr(os, "chflags"),
        "syncfs": any_of("syncfs") or hasattr(fcntl, "F_FULLFSYNC"),
        "pipe_size": hasattr(fcntl, "F_SETPIPE_SZ"),
        "ofd_locks": hasattr(fcntl, "F_OFD_SETLK"),
        "waitid": hasattr(os, "waitid"),
        "prlimit": any_of("prlimit"),
        "boottime": hasattr(time, "CLOCK_BOOTTIME") or hasattr(time, "CLOCK_UPTIME_RAW"),
        "setresuid": hasattr(os, "setresuid"),
        "xattr": hasattr(os, "listxattr"),
        "o_path": hasattr(os, "O_PATH"),
        "namespaces": any_of("unshare") or on_macos(),
        "ioprio": on_linux(),
    }
    return {name: there and has(name) for name, there in sorted(found.items())}
