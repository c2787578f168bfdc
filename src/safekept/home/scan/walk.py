"""The one scanner: a live directory tree becomes entries, and everything else becomes a remark.

It goes down by directory descriptors and never follows a link, so nothing outside the tree can be
reached, also not by someone who swaps a directory for a link meanwhile. Parents come before
children, names are sorted within a directory. What a rule leaves out is reported once, at its top,
with a count; sockets, pipes and devices have no bytes and are passed over.

Here is the way down and up again; what becomes of the names in one directory is in `directory`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from safekept.core.entries import Entry, Outcome

from .directory import DirectoryScan
from .frame import Frame, close, directory_entry
from .opener import Opener
from .report import Setting, WalkReport
from .selection import Inherited, PathDecision

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: So many directories stay open on the way down; those above them are opened again when needed.
_OPEN_DIRECTORIES = 64


class HomeWalk:
    """One pass over one tree."""

    def __init__(self, root: str, prefix: str, opener: Opener, setting: Setting, only: str = "") -> None:
        self.root = root
        self.prefix = prefix  # "" or "_external/.honcho/"
        self.only = only  # one file of the root's, and nothing else
        self.layout, self.judge, self.census = setting.layout, setting.judge, setting.census
        self.report = WalkReport(root, prefix, setting)
        self._directory = DirectoryScan(setting, self.report, opener, only)

    def groups(self) -> Iterator[list[Entry]]:
        """Every selected entry below the root, one directory after the other.

        A group is what one directory holds beside its directories, and in front of it the directories
        that lead there and were not given out yet; the root's own only where it has a prefix.
        """
        stack = self._start()
        try:
            if stack:
                yield self._directory.entries(stack)
            while stack:
                frame = stack[-1]
                if frame.waiting:
                    below = self._enter(stack, *frame.waiting.pop())
                    if below is not None:
                        stack.append(below)
                        yield self._directory.entries(stack)
                else:
                    stack.pop()
                    close(frame)
        finally:
            for frame in stack:
                close(frame)
        self.report.finish()

    def _start(self) -> list[Frame]:
        facts, includes = self.judge.facts.root, self.judge.includes.root
        for name in self.prefix.split("/")[:-1]:
            facts, includes = facts.below(name), includes.below(name)
        try:
            # The root may be a link or a mount point: the one who named it meant what is there.
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self.report.unreadable(self.prefix.rstrip("/") or ".", error)
            return []
        status = os.fstat(descriptor)
        frame = Frame(
            descriptor, self.prefix, facts, includes, Inherited(in_profile=bool(self.prefix)), status.st_dev
        )
        if self.prefix and not self.only:
            frame.entry = directory_entry(self.prefix.rstrip("/"), status)
        return [frame]

    def _enter(
        self, stack: list[Frame], name: str, status: os.stat_result, decision: PathDecision
    ) -> Frame | None:
        """Go into a directory that a listing found, or account for it from outside."""
        parent, report = stack[-1], self.report
        path = parent.path + name
        includes = parent.includes.below(name) if parent.includes.alive else parent.includes
        dropped = None if decision.standing.included else parent.dropped
        if decision.reason:
            if decision.by_caller:
                report.not_counted(path)
            dropped = report.exclude_tree(path, decision.reason)
        if decision.final or (not decision.selected and not includes.alive):
            if dropped is not None:
                dropped.add_tree(report.full(path))
            return None
        entry = directory_entry(path, status)
        facts = parent.facts.below(name)
        frame = Frame(-1, path + "/", facts, includes, decision.standing, status.st_dev, dropped, entry)
        try:
            frame.descriptor = self._open(stack, name)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                report.say(path, Outcome.GONE, "vanished during the scan")
                return None
            if dropped is None:
                report.unreadable(path, error)
            return frame
        if status.st_dev != parent.device and decision.selected:
            report.say(path, Outcome.NOTED, "another filesystem is mounted here; what is on it is included")
        if decision.selected and not self.prefix and parent.path == f"{self.layout.profiles}/":
            self.census.profile(path)
        return frame

    def _open(self, stack: list[Frame], name: str) -> int:
        parent = stack[-1]
        if len(stack) >= _OPEN_DIRECTORIES:
            close(stack[-_OPEN_DIRECTORIES])
        if parent.descriptor < 0:
            parent.descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for above in parent.path[len(self.prefix) :].split("/")[:-1]:
                below = os.open(above, _DIRECTORY, dir_fd=parent.descriptor)
                os.close(parent.descriptor)
                parent.descriptor = below
        return os.open(name, _DIRECTORY, dir_fd=parent.descriptor)
