"""Counting what a rule left out: honest, and never costly.

A code clone of a hundred thousand files is not worth walking only to say how many there are. The
count stops after a moment and then says "at least".
"""

from __future__ import annotations

import os
import stat
import time

from safekept.core.entries import Outcome, Remark

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
        more = "" if self.whole else " (at least so many files: not all were counted)"
        return Remark(self.path, Outcome.EXCLUDED, self.reason + more, self.files, self.bytes)
