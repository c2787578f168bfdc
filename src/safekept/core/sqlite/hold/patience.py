"""Waiting for a lock: with a word to the listener, and not for ever.

SQLite's own backup retries without limit, so one locked browser database can hang a whole backup
(Hermes #84790: 15 minutes, then SIGKILL). Here a deadline without progress ends it by name.
"""

from __future__ import annotations

import time

from ...entries import EntryLost, Outcome, Remark
from ...events import Event, Listener
from ..holders import Holder, command_of, describe, holders


class Patience:
    """Counts the time since the last progress on one database."""

    def __init__(self, path: str, name: str, deadline: float, listener: Listener) -> None:
        self.path, self.name, self.deadline, self.listener = path, name, deadline, listener
        self.progressed()

    def progressed(self) -> None:
        """Something moved: the time begins anew."""
        self._since = self._told = time.monotonic()
        self._pause = 0.001

    def pause(self, pid: int | None = None) -> None:
        """Wait a moment; `pid` is the process in the way, where known. Raises EntryLost at the end."""
        now = time.monotonic()
        waited = now - self._since
        if waited >= self.deadline:
            reason = f"locked for {self.deadline:g} s by {self.culprit(pid)}"
            raise EntryLost(Remark(self.name, Outcome.LOCKED, reason))
        if now - self._told >= 1.0:
            self._told = now
            self.listener(Event("wait", path=self.name, text=self.text(pid)))
        time.sleep(min(self._pause, self.deadline - waited))
        self._pause = min(self._pause * 1.5, 0.02)

    def text(self, pid: int | None = None) -> str:
        return f"waiting for {self.name}, locked by {self.culprit(pid)}"

    def culprit(self, pid: int | None) -> str:
        """The holder in words: the process in the way, else everybody who has the file open."""
        if pid:
            return str(Holder(pid, command_of(pid), ""))
        return describe(holders(self.path))
