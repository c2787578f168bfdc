"""Who is at the other end of a socket, and open files that come through one.

Linux: `SO_PEERCRED`, `MSG_CMSG_CLOEXEC`. macOS: `LOCAL_PEERCRED` and `LOCAL_PEERPID`; descriptors are
closed to children after they came, so that a process that is started in that very moment inherits one.
Elsewhere the caller is not known: PermissionError, and it is not served.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from .system import has

_CREDENTIALS = struct.Struct("3i")
#: Of <sys/un.h> on macOS; `struct xucred` begins with a version and the user.
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID, _XUCRED = 0, 1, 2, 76


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel knows them. PermissionError where it does not say."""
    if sys.platform == "linux" and has("peercred"):
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(data)
        return process, user
    if sys.platform == "darwin":
        data = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED)
        return connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID), struct.unpack_from("I", data, 4)[0]
    raise PermissionError("this system does not say who calls")


def receive_descriptors(connection: socket.socket, size: int, most: int) -> tuple[bytes, list[int], int]:
    """One packet, the open files beside it, which no child inherits, and the flags."""
    at_once = 0
    if sys.platform == "linux":
        at_once = socket.MSG_CMSG_CLOEXEC
    data, descriptors, flags, _ = socket.recv_fds(connection, size, most, at_once)
    if not at_once:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
    return data, descriptors, flags


def has_packets() -> bool:
    """Whether local sockets keep packets apart (`SOCK_SEQPACKET`); not on macOS."""
    return sys.platform == "linux" and has("seqpacket")
