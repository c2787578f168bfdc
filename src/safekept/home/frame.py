"""Directories on the way down: what a walk remembers of each one above the place where it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from safekept.core.entries import Entry, Kind
from safekept.home.patterns import Node
from safekept.home.selection import Standing, Verdict
from safekept.home.tally import Tally


@dataclass(slots=True)
class Frame:
    """One directory on the way down."""

    descriptor: int
    path: str  # "" or "skills/": what stands before the names in it
    facts: Node
    wishes: Node
    standing: Standing
    device: int
    dropped: Tally | None = None  # inside a tree that a rule left out, looking for included things
    entry: Entry | None = None  # its own entry, until it has been given out
    waiting: list[tuple[str, os.stat_result, Verdict]] = field(default_factory=list)


def close(frame: Frame) -> None:
    if frame.descriptor >= 0:
        os.close(frame.descriptor)
        frame.descriptor = -1


def directory_entry(path: str, status: os.stat_result) -> Entry:
    return Entry(path, Kind.DIRECTORY, status.st_mode & 0o7777, status.st_mtime_ns, status=status)


def owed(stack: list[Frame]) -> Iterator[Entry]:
    """The entries of directories on the way here that have not been given out yet."""
    for frame in stack:
        if frame.entry is not None:
            yield frame.entry
            frame.entry = None
