"""Directories over SFTP; a tree costs one round of requests for each level, not for each directory."""

from __future__ import annotations

import contextlib

from ..base import Stored
from .channel import Channel, Endless, Refusal
from .wire import Attributes, Packet, Status, mode_only, text

_AT_ONCE = 64  # directories open at a time; servers allow a hundred and more
#: Names in one listing, and directories inside each other: more than a place of ours can hold. A vault of
#: so many packs has five terabytes.
MOST_NAMES, DEEPEST = 300_000, 12


class Budget:
    """What a server may still tell us in one listing; Endless when it goes on without end."""

    def __init__(self) -> None:
        self.left = MOST_NAMES

    def spend(self, names: int) -> None:
        # An answer without a name is one too: a server can send those for ever.
        self.left -= max(names, 10)
        if self.left < 0:
            raise Endless("it lists more than a place of ours can hold")


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
        with contextlib.suppress(Refusal):  # it is there, or somebody made it meanwhile
            channel.ask(Packet.MKDIR, text(path), mode_only(0o700))


def walk(channel: Channel, root: str, prefix: str) -> list[Stored]:
    """Every file below `root/prefix`, named from the root; what is not there has none."""
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
                for name, facts in names:
                    if name in (".", ".."):
                        continue
                    if facts.is_directory:
                        deeper.append(f"{directory}{name}/")
                    else:
                        found.append(Stored(directory + name, facts.size, float(facts.modified)))
        level = sorted(deeper)
    return found


def _contents(
    channel: Channel, root: str, directories: list[str], budget: Budget
) -> list[list[tuple[str, Attributes]]]:
    opened = [
        channel.post(Packet.OPENDIR, text(f"{root.rstrip('/')}/{directory}".rstrip("/") or "/"))
        for directory in directories
    ]
    handles: dict[int, bytes] = {}
    refusals: list[Refusal] = []
    for at, request in enumerate(opened):
        try:
            handles[at] = text(bytes(channel.answer(request).view()))
        except Refusal as refusal:
            if refusal.status != Status.NO_SUCH_FILE:
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
    return contents
