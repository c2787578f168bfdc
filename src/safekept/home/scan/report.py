"""What a walk says beside its entries: remarks, what a rule left out, and what the census cannot know."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from safekept.core.entries import Outcome, Remark
from safekept.core.events import Event, Listener

from ..census import Census
from ..layout.layout import Layout
from .databases import HeaderReader
from .frame import Frame, Tally
from .selection import Judge, PathDecision


class Setting(NamedTuple):
    """What all walks of one pass share."""

    layout: Layout
    judge: Judge
    census: Census
    headers: HeaderReader
    avoid: frozenset[tuple[int, int]]  # device and inode of what must never be inside
    covered: tuple[str, ...]  # the places that this pass takes, links resolved
    own_archive: Callable[[str], bool]  # whether a file is an archive of our own making
    remarks: list[Remark]
    listener: Listener


class WalkReport:
    """Collects what is to be said about one tree. `full` gives the path on disk of an entry's path."""

    def __init__(self, root: str, prefix: str, setting: Setting) -> None:
        self.root, self.prefix = root, prefix
        self.layout, self.census = setting.layout, setting.census
        self.sidecars = Tally()
        self._judge, self._remarks, self._listener = setting.judge, setting.remarks, setting.listener
        self._excluded: list[Tally] = []
        self._looked_at = 0

    def full(self, path: str) -> str:
        return os.path.join(self.root, path[len(self.prefix) :])

    def say(self, path: str, outcome: Outcome, reason: str, size: int = 0) -> None:
        self._remarks.append(Remark(path, outcome, reason, 1, size))

    def add(self, remark: Remark) -> None:
        self._remarks.append(remark)

    def unreadable(self, path: str, error: OSError) -> None:
        self.say(path, Outcome.UNREADABLE, f"cannot be read: {error.strerror or error}")
        self.not_counted(path)

    def exclude_tree(self, path: str, reason: str) -> Tally:
        """A directory that a rule leaves out gets one remark, with a count of what is in it."""
        tally = Tally(path, reason)
        self._excluded.append(tally)
        return tally

    def exclude_file(self, frame: Frame, path: str, size: int, decision: PathDecision) -> None:
        if decision.reason:
            self.say(path, Outcome.EXCLUDED, decision.reason, size)
            if decision.by_caller:
                self.not_counted(path, directory=False)
        elif frame.dropped is not None:
            frame.dropped.add(size)

    def not_counted(self, path: str, directory: bool = True) -> None:
        """The census cannot see what is at this path, so what it would count here is unknown, not 0."""
        if path == self.layout.profiles:
            return  # what the home itself holds is seen
        for count, matcher in self._judge.count_matchers:
            node, names = matcher.root, path.split("/")
            for name in names[:-1]:
                node = node.below(name)
            if node.match(names[-1]) or (directory and node.below(names[-1]).alive):
                self.census.broken(self.layout.profile_of(path), count)

    def progress(self, count: int) -> None:
        before, self._looked_at = self._looked_at, self._looked_at + count
        if before // 1000 != self._looked_at // 1000:
            self._listener(Event("scan", self._looked_at, unit="files"))

    def finish(self) -> None:
        self._remarks.extend(tally.remark() for tally in self._excluded)
