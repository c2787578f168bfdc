"""Holding a lock: taken as restic takes it, refreshed, given up in time, and never in the way for long.

* Others are looked at before and after our own lock is written; a conflict withdraws it.
* A lock whose process is provably gone, or that was not refreshed for half an hour, is cleared away: no
  leftover can wedge anything. How old it is, the place says by comparing it with our own new lock file.
* It is refreshed every five minutes. A holder that could not do so for 22.5 minutes (a laptop that
  slept) must not write on the strength of it: `check` takes it again if no other came in between, and
  raises LockLost otherwise.
* Another program may take a live lock for a dead one all the same. So a writer asks `prove` before
  and after it makes something visible: whether the lock file is still there.
* `restic unlock` sends SIGHUP to find out whether a holder lives, so it is ignored while a lock is held.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from typing import Any, Self

from safekept.core.errors import SafekeptError
from safekept.core.files import NoRoom
from safekept.core.platform.processes import uptime
from safekept.core.worker import Worker

from ..errors import LockLost
from ..format.crypto import Key
from ..storage.base import FileKind, Storage
from .lock_file import STALE, LockFile, locked_by, read_locks
from .sealed_files import save_file

REFRESH = 5 * 60.0
LOST = STALE * 0.75


def acquire(storage: Storage, key: Key, *, exclusive: bool, wait: float = 0.0) -> Lock:
    """Take a lock, waiting up to so many seconds for others; VaultLocked names the one in the way."""
    deadline = time.monotonic() + wait
    while True:
        conflict = _conflict(storage, key, exclusive, ours="")
        if conflict is None:
            try:
                name = _write(storage, key, exclusive)
            except NoRoom:
                # What needs the vault to itself is what gives room back.
                if not exclusive or not storage.give_up_reserve():
                    raise
                name = _write(storage, key, exclusive)
            try:
                if storage.settle:  # even a sleep of nothing gives a busy machine to others first
                    time.sleep(storage.settle)
                conflict = _conflict(storage, key, exclusive, ours=name)
            except BaseException:
                storage.delete(FileKind.LOCK, name)
                raise
            if conflict is None:
                return Lock(storage, key, exclusive, name)
            storage.delete(FileKind.LOCK, name)
        if time.monotonic() >= deadline:
            raise locked_by(storage.location, conflict)
        # Two that withdraw at the same moment must not come back at the same moment.
        time.sleep(min(random.uniform(0.05, 0.25), max(0.0, deadline - time.monotonic())))


def unlock(storage: Storage, key: Key, *, everything: bool = False) -> list[LockFile]:
    """Remove locks left behind and those that cannot be read, or `everything`; what was removed."""
    now = None
    with contextlib.suppress(SafekeptError):  # a full disk: then our own clock has to do
        ours = _write(storage, key, False)
        now = storage.written(FileKind.LOCK, ours)
        storage.delete(FileKind.LOCK, ours)
    found = read_locks(storage, key, now)
    removed = [lock for lock in found if everything or lock.stale or lock.reason]
    for lock in removed:
        storage.delete(FileKind.LOCK, lock.id)
    return removed


class Lock:
    """A lock that is held. `check` before anything is written that relies on it."""

    def __init__(self, storage: Storage, key: Key, exclusive: bool, name: str) -> None:
        self._storage, self._key, self.exclusive, self.name = storage, key, exclusive, name
        self._refreshed = uptime()
        self._lost = ""
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        _ignore_hangup()
        self._keeper = Worker(self._keep, "vault-lock")

    def check(self) -> None:
        """Raise LockLost where this lock does not protect any more."""
        if not self._lost and uptime() - self._refreshed > LOST:
            self._refresh(late=True)
        if self._lost:
            raise LockLost(
                f"The lock on the vault at `{self._storage.location}` was lost: {self._lost}",
                kept="The work stopped before anything was written without it; all snapshots are whole",
                next_steps=("Run the command again",),
            )

    def prove(self) -> None:
        """Raise LockLost unless the lock file is there at this very moment."""
        self.check()
        with self._mutex:
            if not self._ended.is_set() and not self._storage.exists(FileKind.LOCK, self.name):
                self._lost = "another process removed it"
        self.check()

    def refresh(self) -> None:
        """Put a fresh lock file in place of ours; what the thread does every five minutes."""
        self._refresh(late=uptime() - self._refreshed > LOST)

    def release(self) -> None:
        """Give it up; may be called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        try:
            self._keeper.wait_through_signals()
        finally:
            _heed_hangup()
            # What was done is done. A lock of a process that is gone is known as such, and passed over.
            with contextlib.suppress(SafekeptError):
                self._storage.delete(FileKind.LOCK, self.name)
            if self.exclusive:
                self._storage.keep_reserve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _keep(self) -> None:
        while not self._ended.wait(REFRESH):
            try:
                self.refresh()
            except (SafekeptError, OSError):
                # The next round tries again; `check` stops the work when it has been too long.
                continue

    def _refresh(self, late: bool) -> None:
        with self._mutex:
            if self._lost or self._ended.is_set():
                return
            if not self._storage.exists(FileKind.LOCK, self.name):
                self._lost = "another process removed it"
                return
            if late and _conflict(self._storage, self._key, self.exclusive, self.name) is not None:
                self._lost = "it could not be refreshed in time, and another process took it"
                return
            old, new = self.name, _write(self._storage, self._key, self.exclusive)
            # Our old lock still there after the new one was written: it was not cleared away in between.
            if late and not self._storage.exists(FileKind.LOCK, old):
                self._storage.delete(FileKind.LOCK, new)
                self._lost = "it could not be refreshed in time, and another process removed it"
                return
            self.name, self._refreshed = new, uptime()
            self._storage.delete(FileKind.LOCK, old)


def _write(storage: Storage, key: Key, exclusive: bool) -> str:
    return save_file(storage, key, FileKind.LOCK, LockFile.of_this_process(exclusive).to_json())


def _conflict(storage: Storage, key: Key, exclusive: bool, ours: str) -> LockFile | None:
    # Our own lock was written just now, so its time is the time by the clock of the place.
    now = storage.written(FileKind.LOCK, ours) if ours else None
    for lock in read_locks(storage, key, now):
        if lock.id == ours:
            continue
        if lock.stale:
            if ours:
                storage.delete(FileKind.LOCK, lock.id)
        # One that cannot be read says nothing: it stops what deletes, and nothing else.
        elif exclusive or (lock.exclusive and not lock.reason):
            return lock
    return None


_hangup_mutex = threading.Lock()
_hangup_holders = 0
_hangup_before: Any = None


def _ignore_hangup() -> None:
    global _hangup_holders, _hangup_before
    with _hangup_mutex:
        _hangup_holders += 1
        # Only the main thread may set signals; a holder on another one relies on the face that
        # started it. A handler (even an empty one) would do, the default would end the process.
        if _hangup_holders == 1 and threading.current_thread() is threading.main_thread():
            _hangup_before = signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _heed_hangup() -> None:
    global _hangup_holders, _hangup_before
    with _hangup_mutex:
        _hangup_holders -= 1
        main = threading.current_thread() is threading.main_thread()
        if _hangup_holders == 0 and _hangup_before is not None and main:
            signal.signal(signal.SIGHUP, _hangup_before)
            _hangup_before = None
