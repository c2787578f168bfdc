"""What the keeper and its callers say to each other: one packet a question, one packet an answer.

A packet is a JSON object of bounded size, with descriptors beside it. The socket keeps the packets apart
(`SOCK_SEQPACKET`), so the rest of one is never waited for.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from safekept.core.platform.sockets import has_packets, receive_descriptors

#: Where the keeper of a machine listens; the directory is root's.
SOCKET = "/run/safekept-keeper/socket"
MAX_PACKET = 64 << 10
MAX_DESCRIPTORS = 32
#: So many names fit into one packet.
NAMES_AT_ONCE = 500
_NAME = re.compile(r"[0-9a-f]{64}")


class BadPacket(Exception):
    """Not what a caller of ours sends; the text is for the answer."""


def is_name(value: object) -> bool:
    """Whether this is the name of an object: a SHA-256 in small hexadecimal, and nothing else."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def send(connection: socket.socket, document: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
    """One packet. Raises OSError where it is not taken."""
    data = json.dumps(document, separators=(",", ":")).encode()
    if len(data) > MAX_PACKET:
        raise BadPacket(f"a packet of {len(data):,} bytes is too large")
    socket.send_fds(connection, [data], list(descriptors))


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One packet and its descriptors, which the caller closes. EOFError where the other side is gone."""
    data, descriptors, flags = receive_descriptors(connection, MAX_PACKET + 1, MAX_DESCRIPTORS)
    try:
        if not data:
            raise EOFError
        if len(data) > MAX_PACKET or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise BadPacket("a packet that is too large, or with too many descriptors")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise BadPacket("a packet that is no JSON") from None
        if not isinstance(document, dict):
            raise BadPacket("a packet that is no object")
        return document, descriptors
    except BaseException:
        close_all(descriptors)
        raise


def close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def new_socket() -> socket.socket:
    if not has_packets():
        raise OSError(errno.EPROTONOSUPPORT, "local sockets of this system keep no packets apart")
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
