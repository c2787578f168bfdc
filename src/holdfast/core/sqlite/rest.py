"""A database in WAL mode that nobody has open: its main file is the whole state, read where it lies.

No connection is made that could mint sidecars. The SHARED lock that is held blocks no writer of a
write-ahead log; it only keeps a last closer from folding the log away. So somebody who opens
the database meanwhile leaves a log to be seen, and the main file changes only by a checkpoint,
which is then held back by the lock that SQLite's own readers of the main file take.
"""

from __future__ import annotations

import os
import time

from holdfast.core.entries import Outcome

from . import locks
from .descriptors import Descriptors
from .pinned import Pinned, open_frozen


class AtRest(Pinned):
    """The main file itself, watched."""

    method = "at-rest"

    def __init__(self, name: str, descriptors: Descriptors, page_size: int) -> None:
        super().__init__(name)
        self.descriptors, self.page_size = descriptors, page_size
        status = settled(descriptors.main)
        self._seen = (status.st_size, status.st_mtime_ns)
        self.size, self.mtime_ns = self._seen
        self._log_before = log_size(descriptors.path)
        self._frozen = False
        self.connection = open_frozen(descriptors.path)
        # A lock-less connection closes its descriptor at once, so it waits its turn like ours do.
        descriptors.park(self.connection.close)

    def read(self, start: int, length: int) -> bytes:
        if not self._frozen:
            self._watch()
        return os.pread(self.descriptors.main, length, start)

    def _watch(self) -> None:
        """When somebody begins to use the database, keep checkpoints out of the main file."""
        if log_size(self.descriptors.path) == self._log_before:
            return
        shm = self.descriptors.sidecar("-shm")
        if shm is not None and locks.hold_back_checkpoints(shm):
            self.settle()
            self._frozen = True

    def settle(self) -> None:
        status = os.fstat(self.descriptors.main)
        if (status.st_size, status.st_mtime_ns) != self._seen:
            raise self.lost(
                Outcome.CHANGED, "another program began to write it while it was read; back it up again"
            )

    def close(self) -> None:
        self.connection = None  # parked: closed with the descriptors
        self.descriptors.close()


def settled(descriptor: int) -> os.stat_result:
    """The status of a file whose time is old enough that any later write must show in it.

    Kernels before 6.13 stamp files by a clock that ticks every few milliseconds, and some
    filesystems keep whole seconds only.
    """
    while True:
        status = os.fstat(descriptor)
        grain = 2.0 if status.st_mtime_ns % 1_000_000_000 == 0 else 0.05
        age = time.time() - status.st_mtime_ns / 1e9
        if age < 0 or age >= grain:
            return status
        time.sleep(grain - age)


def log_size(path: str) -> int | None:
    """The size of the log beside a database; None where there is none."""
    try:
        return os.stat(path + "-wal").st_size
    except OSError:
        return None
