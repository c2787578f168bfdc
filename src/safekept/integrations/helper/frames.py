"""The helper's side of the wire: what others send is bounded, and waited for with a deadline."""

from __future__ import annotations

import socket
import time

from .client import MAX_BODY, MAX_HEADER, packed, unpacked


class BadFrame(Exception):
    """Not what a client of ours sends; the text is for the answer."""


def read_frame(connection: socket.socket, seconds: float) -> tuple[dict[str, str], bytes]:
    """One request. BadFrame where it is none; OSError where the sender went away or is too slow."""
    ends = time.monotonic() + seconds
    lengths = _exactly(connection, 8, ends)
    head, body = int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
    if head > MAX_HEADER or body > MAX_BODY:
        raise BadFrame(f"a request of {head + body:,} bytes is too large")
    try:
        header = unpacked(_exactly(connection, head, ends))
    except ValueError as error:
        raise BadFrame(str(error)) from None
    return header, _exactly(connection, body, ends)


def send_frame(connection: socket.socket, header: dict[str, str], body: bytes = b"") -> None:
    """One answer. What could not be part of a header loses its zero bytes."""
    clean = {key: value.replace("\0", " ") for key, value in header.items()}
    connection.sendall(packed({"safekept": "1", **clean}, body))


def _exactly(connection: socket.socket, count: int, ends: float) -> bytes:
    parts: list[bytes] = []
    while count:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come whole in time")
        connection.settimeout(left)
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the sender went away")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
