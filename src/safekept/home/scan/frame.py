"""Directories on the way down: what a walk remembers of each one above the place where it is."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import field

from safekept.core.entries import NOT_ALL_COUNTED, Entry, Kind, Outcome, Remark
from safekept.core.files.remakeable import begins
from safekept.core.records import dataclass

from ..layout.layout import Layout
from ..layout.patterns import Matcher, PatternNode
from ..layout.rules import Proven
from .selection import Inherited, PathDecision

# Whether a tree proves to be one that can be rebuilt: the looks on disk behind a rule.


def is_really(proven: Proven, layout: Layout, path: str, directory: int) -> bool:
    """Whether a directory that has the telling file is really what that file says."""
    if proven.beneath is not None:
        below = Matcher((place, True) for place in layout.everywhere(proven.beneath))
        if not below.covers(os.path.dirname(path), directory=True):
            return False
    return not proven.signature or begins(directory, proven.contains, proven.signature)


def any_exists(full: str, proof: tuple[str, ...]) -> bool:
    """Whether one of the paths that a rule asks for exists below a directory."""
    return any(os.path.lexists(os.path.join(full, one)) for one in proof)


# Counting what a rule left out: honest, and never costly. A code clone of a hundred thousand files is
# not worth walking only to say how many there are. The count stops after a moment and then says "at
# least".

_MOST_ENTRIES = 20_000
_MOST_SECONDS = 0.05


class Tally:
    """Files and bytes below one place."""

    __slots__ = ("bytes", "files", "path", "reason", "whole")

    def __init__(self, path: str = "", reason: str = "") -> None:
        self.path, self.reason = path, reason
        self.files = self.bytes = 0
        self.whole = True

    def add(self, size: int) -> None:
        self.files += 1
        self.bytes += size

    def add_tree(self, root: str) -> None:
        """Count a directory without following links, for a moment at most."""
        deadline, entries, waiting = time.monotonic() + _MOST_SECONDS, 0, [root]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as listing:
                    for item in listing:
                        entries += 1
                        status = item.stat(follow_symlinks=False)
                        if stat.S_ISDIR(status.st_mode):
                            waiting.append(item.path)
                        else:
                            self.add(status.st_size)
                        if entries >= _MOST_ENTRIES:
                            break
            except OSError:
                self.whole = False  # unreadable or vanished: what could be seen is still said
            if entries >= _MOST_ENTRIES or time.monotonic() > deadline:
                self.whole = self.whole and not waiting
                return

    def remark(self) -> Remark:
        more = "" if self.whole else f" {NOT_ALL_COUNTED}"
        return Remark(self.path, Outcome.EXCLUDED, self.reason + more, self.files, self.bytes)


@dataclass(slots=True)
class Frame:
    """One directory on the way down."""

    descriptor: int
    path: str  # "" or "skills/": what stands before the names in it
    facts: PatternNode
    includes: PatternNode
    standing: Inherited
    device: int
    dropped: Tally | None = None  # inside a tree that a rule left out, looking for included things
    entry: Entry | None = None  # its own entry, until it has been given out
    waiting: list[tuple[str, os.stat_result, PathDecision]] = field(default_factory=list)


def close(frame: Frame) -> None:
    if frame.descriptor >= 0:
        os.close(frame.descriptor)
        frame.descriptor = -1


def directory_entry(path: str, status: os.stat_result) -> Entry:
    return Entry(path, Kind.DIRECTORY, status.st_mode & 0o7777, status.st_mtime_ns, status=status)


def undelivered(stack: list[Frame]) -> Iterator[Entry]:
    """The entries of directories on the way here that have not been given out yet."""
    for frame in stack:
        if frame.entry is not None:
            yield frame.entry
            frame.entry = None
