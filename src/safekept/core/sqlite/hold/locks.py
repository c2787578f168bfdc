"""SQLite's own file locks, taken and looked at without SQLite.

The numbers are those of SQLite's unix VFS: in the main file a pending byte, a reserved byte and a
range that readers share; in `-shm` one byte per lock of the write-ahead log. We use *open file
description* locks: other processes (and SQLite in this one) see them as ordinary locks, yet
closing some other descriptor of the same file does not drop them, as it drops POSIX locks.

Everything taken here is a read lock, by the protocol any SQLite reader follows.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from ...entries import EntryLost, Outcome, Remark
from ...events import Event, Listener
from ...platform.file_locks import AVAILABLE, lock_there, set_lock
from ..holders import Holder, command_of, describe, holders

PENDING = 0x40000000
RESERVED = PENDING + 1
SHARED_FIRST, SHARED_SIZE = PENDING + 2, 510

#: Bytes of `-shm`: the lock that stops a checkpoint from writing the main file, and the one every
#: connection that uses the shared memory holds for as long as it is open.
SHM_READ_ZERO, SHM_IN_USE = 123, 128


class LocksUnavailable(Exception):
    """The platform or the filesystem knows no such locks."""


def _set(descriptor: int, kind: int, start: int, length: int) -> bool:
    """Set a lock without waiting; False when another one is in the way."""
    if not AVAILABLE:
        raise LocksUnavailable
    try:
        set_lock(descriptor, kind, start, length)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise LocksUnavailable(os.strerror(error.errno or 0)) from error
    return True


def share(descriptor: int) -> bool:
    """Take SQLite's SHARED lock on a main file; False while a writer has it or waits for it.

    Held, it means: no rollback-journal writer can change the file, and no last closer of a
    write-ahead log can delete its sidecars.
    """
    if not _set(descriptor, fcntl.F_RDLCK, PENDING, 1):
        return False
    try:
        return _set(descriptor, fcntl.F_RDLCK, SHARED_FIRST, SHARED_SIZE)
    finally:
        _set(descriptor, fcntl.F_UNLCK, PENDING, 1)


def unshare(descriptor: int) -> None:
    """Let go of the SHARED lock."""
    _set(descriptor, fcntl.F_UNLCK, SHARED_FIRST, SHARED_SIZE)


def join_users(descriptor: int) -> bool:
    """Count as a user of the shared memory, so that it stays valid; the descriptor is one of `-shm`.

    Only for one that is in use: a newcomer who finds this lock trusts what is in there.
    """
    return _set(descriptor, fcntl.F_RDLCK, SHM_IN_USE, 1)


def hold_back_checkpoints(descriptor: int) -> bool:
    """Keep checkpoints from writing the main file; the descriptor is one of `-shm`."""
    return _set(descriptor, fcntl.F_RDLCK, SHM_READ_ZERO, 1)


def held_by(descriptor: int, start: int, length: int = 1, writers_only: bool = False) -> int | None:
    """The process that holds a lock there: None where none does, 0 where it cannot be named."""
    if not AVAILABLE:
        raise LocksUnavailable
    kind = fcntl.F_RDLCK if writers_only else fcntl.F_WRLCK
    try:
        found, pid = lock_there(descriptor, kind, start, length)
    except OSError as error:
        raise LocksUnavailable(os.strerror(error.errno or 0)) from error
    if found == fcntl.F_UNLCK:
        return None
    return max(pid, 0)


# Waiting for a lock: with a word to the listener, and not for ever. SQLite's own backup retries without
# limit, so one locked browser database can hang a whole backup (Hermes #84790: 15 minutes, then
# SIGKILL). Here a deadline without progress ends it by name.


class Patience:
    """Counts the time since the last progress on one database."""

    def __init__(self, path: str, name: str, deadline: float, listener: Listener) -> None:
        self.path, self.name, self.deadline, self.listener = path, name, deadline, listener
        self.progressed()

    def progressed(self) -> None:
        """Something moved: the time begins again."""
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
