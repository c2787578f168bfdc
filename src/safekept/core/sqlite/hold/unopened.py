"""A database in WAL mode that no process has open: its main file is the whole state, read where it lies.

No connection is made that could mint sidecars. The SHARED lock that is held blocks no writer of a
write-ahead log; it only keeps a last closer from folding the log away. So a program that opens
the database meanwhile leaves a log to be seen, and the main file changes only by a checkpoint,
which is then held back by the lock that SQLite's own readers of the main file take.
"""

from __future__ import annotations

import os
import time

from ...entries import Outcome
from ..descriptors import Descriptors
from . import locks
from .live import NotLive
from .pinned import Pinned, open_frozen


class InPlace(Pinned):
    """The main file itself, held still by the SHARED lock of its descriptor."""

    def __init__(self, name: str, descriptors: Descriptors, page_size: int, method: str) -> None:
        super().__init__(name)
        self.descriptors, self.page_size, self.method = descriptors, page_size, method
        status = settled(descriptors.main)
        self._seen = (status.st_size, status.st_mtime_ns)
        self.size, self.mtime_ns = self._seen
        self.connection = open_frozen(descriptors.path)
        # A lock-less connection closes its descriptor at once, so it waits its turn like ours do.
        descriptors.park(self.connection.close)

    def read(self, start: int, length: int) -> bytes:
        return os.pread(self.descriptors.main, length, start)

    def settle(self) -> None:
        status = os.fstat(self.descriptors.main)
        if (status.st_size, status.st_mtime_ns) != self._seen:
            raise self.lost(
                Outcome.CHANGED, "another program began to write it while it was read; back it up again"
            )

    def close(self) -> None:
        self.connection = None  # parked: closed with the descriptors
        self.descriptors.close()


class UnopenedDatabase(InPlace):
    """The main file of a WAL database that no process has open, watched for newcomers."""

    def __init__(self, name: str, descriptors: Descriptors, page_size: int) -> None:
        self._log_before = log_size(descriptors.path)
        self._frozen = False
        self._shm: int | None = None
        super().__init__(name, descriptors, page_size, "at-rest")

    def read(self, start: int, length: int) -> bytes:
        if not self._frozen:
            self._watch()
        return super().read(start, length)

    def _watch(self) -> None:
        """When a program begins to use the database, keep checkpoints out of the main file."""
        if not locks.AVAILABLE or log_size(self.descriptors.path) == self._log_before:
            return
        if self._shm is None:
            self._shm = self.descriptors.sidecar("-shm")
        if self._shm is not None and locks.hold_back_checkpoints(self._shm):
            self.settle()
            self._frozen = True


def old_enough(status: os.stat_result) -> bool:
    """Whether the time of a file is so old that any later write must show in it.

    Kernels before 6.13 stamp files by a clock that ticks every few milliseconds, and some
    filesystems keep whole seconds only.
    """
    return fresh_for(status) <= 0


def settled(descriptor: int) -> os.stat_result:
    """The status of a file, once its time is old enough. Raises NotLive where it is being written.

    One wait and no more: a writer who came meanwhile keeps the time young for as long as it likes,
    and what looked like a database at rest must then be looked at again.
    """
    status = os.fstat(descriptor)
    wait = fresh_for(status)
    if wait > 0:
        time.sleep(wait)
        status = os.fstat(descriptor)
        if fresh_for(status) > 0:
            raise NotLive
    return status


def quiet_for(status: os.stat_result, seconds: float) -> bool:
    """Whether a file was last written that long ago."""
    return time.time() - status.st_mtime_ns / 1e9 >= seconds


def fresh_for(status: os.stat_result) -> float:
    """Seconds until the time of a file is old enough; 0 or less: it is."""
    grain = 2.0 if status.st_mtime_ns % 1_000_000_000 == 0 else 0.05
    age = time.time() - status.st_mtime_ns / 1e9
    return grain - age if age >= 0 else 0.0


def log_size(path: str) -> int | None:
    """The size of the log beside a database; None where there is none."""
    try:
        return os.stat(path + "-wal").st_size
    except OSError:
        return None
