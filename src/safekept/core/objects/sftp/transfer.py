"""The bytes of one file over SFTP, with many requests under way, so that distance costs little."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator

from ...records import dataclass
from ..base import ENDLESS, MOST_NAMES, OF_THE_DISK, Content, Stored
from .channel import Channel, Endless, Lost, Refusal
from .wire import Attributes, Packet, Status, long_number, mode_only, number, text

_UNDER_WAY = 8 << 20  # bytes that may be sent before they are confirmed
#: Answers to reads may be this small on average, and a few more.
_SMALL_PIECE, _FEW_PIECES = 4096, 256


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What became of an upload: bytes sent, bytes that the server counts, its first refusal."""

    sent: int
    stored: int
    refusal: Refusal | None


def fill(channel: Channel, handle: bytes, content: Content) -> UploadResult:
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
    return UploadResult(sent, stored, refusals[0] if refusals else None)


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
        # Stopping early leaves answers under way: they are waited for, and the connection is clean.
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


# Directories over SFTP; a tree costs one round of requests for each level, not for each directory.

_AT_ONCE = 64  # directories open at a time; servers allow a hundred and more
#: Directories inside each other: deeper than those of a place of ours.
DEEPEST = 12


class Budget:
    """What a server may still tell us in one listing; Endless when it goes on without end."""

    def __init__(self) -> None:
        self.left = MOST_NAMES

    def spend(self, names: int) -> None:
        # An answer without a name is one too: a server can send those for ever.
        self.left -= max(names, 10)
        if self.left < 0:
            raise Endless(ENDLESS)


def is_directory(channel: Channel, path: str) -> bool:
    try:
        return channel.ask(Packet.STAT, text(path)).attributes().is_directory
    except Refusal as refusal:
        if refusal.status == Status.NO_SUCH_FILE:
            return False
        raise


def make_directories(channel: Channel, above: str, path: str) -> None:
    """Make every directory of `path` below `above`, 0700; the next request about it says if that failed."""
    start = len(above.rstrip("/")) + 1 if above else 0
    while (start := path.find("/", start)) >= 0:
        _make(channel, path[:start])
        start += 1
    _make(channel, path)


def _make(channel: Channel, path: str) -> None:
    if path not in ("", "."):
        with contextlib.suppress(Refusal):  # it is there, or was made meanwhile
            channel.ask(Packet.MKDIR, text(path), mode_only(0o700))


class Closed(Refusal):
    """A directory that this login may not list."""

    def __init__(self, directory: str, words: str) -> None:
        super().__init__(Status.PERMISSION_DENIED, words)
        self.directory = directory  # named from the root, with a slash; "" is the root itself


def walk(channel: Channel, root: str, prefix: str, closed: list[str] | None = None) -> list[Stored]:
    """Every file below `root/prefix`, named from the root; what is not there has none.

    A directory inside that is closed to this login is added to `closed`; without that list it is Closed,
    but for `lost+found` at the top of a disk, in which nothing of ours can lie.
    """
    found: list[Stored] = []
    level, depth, budget = [prefix], 0, Budget()
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Endless("its directories go deeper than those of a place of ours")
        deeper: list[str] = []
        for at in range(0, len(level), _AT_ONCE):
            part = level[at : at + _AT_ONCE]
            for directory, names in zip(part, _contents(channel, root, part, budget), strict=True):
                if isinstance(names, Closed):
                    if closed is None or directory == prefix:
                        raise names
                    closed.append(directory)
                    continue
                for name, facts in names:
                    if name in (".", ".."):
                        continue
                    if facts.is_directory:
                        if closed is not None or directory or name != OF_THE_DISK:
                            deeper.append(f"{directory}{name}/")
                    else:
                        found.append(Stored(directory + name, facts.size, float(facts.modified)))
        level = sorted(deeper)
    return found


def _contents(
    channel: Channel, root: str, directories: list[str], budget: Budget
) -> list[list[tuple[str, Attributes]] | Closed]:
    opened = [
        channel.post(Packet.OPENDIR, text(f"{root.rstrip('/')}/{directory}".rstrip("/") or "/"))
        for directory in directories
    ]
    handles: dict[int, bytes] = {}
    refusals: list[Refusal] = []
    closed: dict[int, Closed] = {}
    for at, request in enumerate(opened):
        try:
            handles[at] = text(bytes(channel.answer(request).view()))
        except Refusal as refusal:
            if refusal.status == Status.PERMISSION_DENIED:
                closed[at] = Closed(directories[at], refusal.words)
            elif refusal.status != Status.NO_SUCH_FILE:
                refusals.append(refusal)
    contents: list[list[tuple[str, Attributes]]] = [[] for _ in directories]
    reading = dict(handles)
    while reading and not refusals:
        # Two requests for each: the second mostly brings the end.
        asked = [(at, channel.post(Packet.READDIR, handle)) for at, handle in reading.items() for _ in "12"]
        for at, request in asked:
            try:
                names = channel.answer(request).names()
                budget.spend(len(names))
                contents[at] += names
            except Refusal as refusal:
                reading.pop(at, None)
                if refusal.status != Status.EOF:
                    refusals.append(refusal)
    channel.settle([channel.post(Packet.CLOSE, handle) for handle in handles.values()])
    if refusals:
        raise refusals[0]
    return [closed.get(at, names) for at, names in enumerate(contents)]
