"""Bytes from one open file to another inside the kernel, and files with holes.

Linux: `copy_file_range`, which shares blocks where the filesystem can. Elsewhere the bytes go through this
process: slower, and twice on the disk. (`clonefile` of macOS makes a new name only; our copies go into
files that are open and private already.) `SEEK_DATA` is on both; without it holes are read as zeros, which
costs time only.
"""

from __future__ import annotations

import errno
import os
import sys

from .system import has

_UNABLE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)


def copy_inside(source: int, target: int, count: int, start: int, to: int | None = None) -> int | None:
    """Copy up to `count` bytes; how many it were. None: this cannot be had here.

    `to`: where in the target; without it, at its place, which moves on.
    """
    if sys.platform == "linux" and has("copy_file_range"):
        try:
            return os.copy_file_range(source, target, count, start, to)
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
    return None


def knows_holes() -> bool:
    """Whether a file can be asked where its holes are."""
    return hasattr(os, "SEEK_DATA") and has("seek_data")


def next_data(descriptor: int, position: int) -> int:
    """Where from `position` on there is something. OSError: ENXIO where a hole goes to the end."""
    return os.lseek(descriptor, position, os.SEEK_DATA)
