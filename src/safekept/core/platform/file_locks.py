"""Locks that belong to an open file, and not to its process.

Linux and macOS: *open file description* locks; the two write the request down in another order. Elsewhere
there are none, and the caller does without: SQLite's own backup copies a database then, which waits
for its writers.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from .system import has

#: struct flock: on Linux with the padding a 64-bit kernel expects at its end.
_FLOCK = struct.Struct("qqihh") if sys.platform == "darwin" else struct.Struct("hhqqi0q")
AVAILABLE = hasattr(fcntl, "F_OFD_SETLK") and has("ofd_locks")


def set_lock(descriptor: int, kind: int, start: int, length: int) -> None:
    """Set a lock without waiting. OSError: EAGAIN or EACCES where another's is in the way."""
    if AVAILABLE:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _packed(kind, start, length))


def lock_there(descriptor: int, kind: int, start: int, length: int) -> tuple[int, int]:
    """The kind of the lock that is in the way of such a one (F_UNLCK: none), and its process."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _packed(kind, start, length))
    if sys.platform == "darwin":
        _, _, process, found, _ = _FLOCK.unpack(answer)
    else:
        found, _, _, _, process = _FLOCK.unpack(answer)
    return found, process


def _packed(kind: int, start: int, length: int) -> bytes:
    if sys.platform == "darwin":
        return _FLOCK.pack(start, length, 0, kind, os.SEEK_SET)
    return _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
