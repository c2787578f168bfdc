"""What a file has beside its mode: that it cannot be changed, and labels.

Immutable: Linux `FS_IOC_SETFLAGS`, macOS `fchflags` (`uchg`), elsewhere nothing: root is then bound by no
mode, and the seat belt does not hold root. Extended attributes: Linux; elsewhere they are not copied to a
file that is written again: one that had some (a label of access rights) needs them set again.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys

from .system import function, has, last_error

_LONG = struct.calcsize("l")
_GET_FLAGS, _SET_FLAGS = 0x80006601 | _LONG << 16, 0x40006602 | _LONG << 16
_IMMUTABLE = 0x10


def set_immutable(descriptor: int, immutable: bool) -> None:
    """Whether what is open can be changed at all, by root too. OSError where that cannot be set."""
    if not has("immutable"):
        return
    if sys.platform == "linux":
        import fcntl

        (flags,) = struct.unpack("i", fcntl.ioctl(descriptor, _GET_FLAGS, b"\0" * 4))
        wanted = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("i", wanted))
    elif sys.platform == "darwin":
        import stat

        flags = os.fstat(descriptor).st_flags
        wanted = flags | stat.UF_IMMUTABLE if immutable else flags & ~stat.UF_IMMUTABLE
        if function("fchflags")(descriptor, wanted) != 0:
            raise OSError(last_error(), os.strerror(last_error()))


def copy_labels(source: str, descriptor: int) -> None:
    """Labels and lists of access rights; where the system has none, there is nothing to keep."""
    if sys.platform == "linux" and has("xattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(source):
                with contextlib.suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(source, name))
