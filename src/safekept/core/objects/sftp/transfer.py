"""The bytes of one file over SFTP, with many requests under way, so that distance costs little."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ..base import Content
from .channel import Channel, Endless, Lost, Refusal
from .wire import Packet, Status, long_number, number

_UNDER_WAY = 8 << 20  # bytes that may be sent before they are confirmed
#: Answers to reads may be this small on average, and a few more.
_SMALL_PIECE, _FEW_PIECES = 4096, 256


@dataclass(frozen=True, slots=True)
class Filled:
    """What became of an upload: bytes sent, bytes that the server counts, its first refusal."""

    sent: int
    stored: int
    refusal: Refusal | None


def fill(channel: Channel, handle: bytes, content: Content) -> Filled:
    """Send all bytes, have them flushed to the server's disk where it can do that, measure, and close."""
    sent, stored = 0, -1
    refusals: list[Refusal] = []
    waiting: deque[int] = deque()
    for piece in _split(content, channel.write_length):
        waiting.append(channel.post(Packet.WRITE, handle, long_number(sent), number(len(piece)), piece))
        sent += len(piece)
        while len(waiting) * channel.write_length > _UNDER_WAY:
            refusals += channel.settle([waiting.popleft()])
        if refusals:
            break
    # Requests about one file are answered in their order, so these need not wait for the writes.
    if "fsync@openssh.com" in channel.extensions:
        waiting.append(channel.extended("fsync@openssh.com", handle))
    measured = channel.post(Packet.FSTAT, handle)
    closed = channel.post(Packet.CLOSE, handle)
    refusals += channel.settle(list(waiting))
    try:
        stored = channel.answer(measured).attributes().size
    except Refusal as refusal:
        refusals.append(refusal)
    refusals += channel.settle([closed])
    return Filled(sent, stored, refusals[0] if refusals else None)


def read_range(channel: Channel, handle: bytes, offset: int, end: int, shrank: Exception) -> Iterator[bytes]:
    """The bytes in order; a server may give less than was asked for, then the rest is asked again.

    `shrank` is raised where the file ends before `end`.
    """
    waiting: deque[tuple[int, int, int]] = deque()  # request, where, how much
    at = offset
    # A server may give less than was asked for, but not a byte at a time for ever.
    pieces_left = _FEW_PIECES + 4 * (max(0, end - offset) // _SMALL_PIECE)
    try:
        while at < end or waiting:
            while at < end and len(waiting) * channel.read_length < _UNDER_WAY:
                length = min(channel.read_length, end - at)
                waiting.append((_ask(channel, handle, at, length), at, length))
                at += length
            request, start, length = waiting.popleft()
            while length:
                try:
                    data = bytes(channel.answer(request).view())
                except Refusal as refusal:
                    if refusal.status == Status.EOF:
                        raise shrank from None
                    raise
                pieces_left -= 1
                if not data or len(data) > length:
                    raise Lost("the server sends another length than was asked for")
                if pieces_left < 0:
                    raise Endless("the server sends its files in crumbs")
                yield data
                start, length = start + len(data), length - len(data)
                if length:
                    request = _ask(channel, handle, start, length)
    finally:
        # Whoever stops early leaves answers under way: they are waited for, and the connection is clean.
        if waiting and channel.alive:
            channel.settle([request for request, _, _ in waiting])


def _ask(channel: Channel, handle: bytes, at: int, length: int) -> int:
    return channel.post(Packet.READ, handle, long_number(at), number(length))


def _split(content: Content, length: int) -> Iterator[memoryview]:
    if isinstance(content, bytes | bytearray | memoryview):
        view = memoryview(content).cast("B")
        for at in range(0, len(view), length):
            yield view[at : at + length]
        return
    while data := content.read(length):
        yield memoryview(data)
