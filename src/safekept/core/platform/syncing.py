"""What was written, on the disk.

Linux: `fsync`, and `syncfs` for a whole filesystem. macOS: `F_FULLFSYNC`, since its `fsync` ends at the
drive's own memory. Elsewhere: `fsync`, and `sync` for all filesystems of the machine, which takes longer
and, by POSIX, may return before it is done.
"""

from __future__ import annotations

import errno
import os
import sys

from .system import function, has, last_error

_WRITE = 2  # SYNC_FILE_RANGE_WRITE


def sync_file(descriptor: int) -> None:
    """Make the bytes of an open file durable, or the names in an open directory."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:  # a network share, say, cannot
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
    os.fsync(descriptor)


def sync_filesystem(path: str) -> None:
    """Make everything written so far on one filesystem durable, in one call.

    Twenty thousand fsyncs cost minutes; one syncfs costs what the disk needs.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        call = function("syncfs") if has("syncfs") else None
        if call is None:
            os.sync()
            sync_file(descriptor)  # where that is needed for the drive's own memory
        elif call(descriptor) != 0:
            code = last_error()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(descriptor)


def start_writeback(descriptor: int, start: int, length: int) -> None:
    """Ask Linux to begin writing these bytes to disk, so that a sync later finds little left to do.

    A hint: it neither waits nor makes anything durable, and nothing depends on the answer.
    """
    call = function("sync_file_range") if has("syncfs") else None
    if call is not None:
        import ctypes

        call(ctypes.c_int(descriptor), ctypes.c_int64(start), ctypes.c_int64(length), ctypes.c_uint(_WRITE))
