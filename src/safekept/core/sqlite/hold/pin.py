"""Deciding how a database can be held still, by the state it is in.

In WAL mode and in use: a read transaction (`live`). In WAL mode and not in use: the main file as
it lies (`rest`). With a rollback journal: a quick copy under the SHARED lock, because that lock
makes writers wait. A log or a hot journal that no program has open: a copy of the set, recovered by
SQLite. Whatever it is, the source is opened for reading only, its sidecars are left as they are,
and none is made.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from ...entries import EntryLost, Outcome, Remark
from ...events import Listener
from ...records import dataclass
from ..descriptors import Descriptors
from ..fold import DatabaseDamaged, fold
from ..format import CORRUPT, NOTADB, error_code, is_database, page_size_of, uses_wal
from . import locks
from .live import Live, NotLive
from .locks import Patience
from .pinned import Pinned, Raw, Spooled
from .spool import NoSpool, Spool
from .through_sqlite import HeldThroughSqlite
from .unopened import InPlace, UnopenedDatabase, log_size, old_enough, quiet_for, settled

#: A database at rest is copied first when it is no larger than this, or was written so lately that its
#: owner may be between closing and opening: then a newcomer costs a second try, not the file.
COPY_AT_REST = 64 << 20
QUIET_AT_REST = 60.0

#: A database with a rollback journal up to this size is copied under the lock: some milliseconds.
COPY_UNDER_LOCK = 4 << 20

#: How often a database that changes between two looks is looked at again.
_LOOKS = 200


def pin(path: str, name: str, scratch: str, deadline: float, listener: Listener) -> Pinned:
    """Hold a database still. Raises EntryLost: gone, unreadable, or locked past the deadline."""
    patience = Patience(path, name, deadline, listener)
    for _ in range(_LOOKS):
        source = _Source(_opened(path, name), name, scratch, patience)
        try:
            pinned = source.pin()
        except NotLive:
            # A process came, left or replaced the file between two looks.
            source.descriptors.close()
            patience.pause()
            continue
        except OSError as error:
            source.descriptors.close()
            raise _lost(name, error) from error
        except BaseException:
            source.descriptors.close()
            raise
        return pinned
    reason = f"kept changing hands while it was opened; in use by {patience.culprit(None)}"
    raise EntryLost(Remark(name, Outcome.LOCKED, reason))


def _opened(path: str, name: str) -> Descriptors:
    try:
        return Descriptors(path)
    except OSError as error:
        raise _lost(name, error) from error


def _lost(name: str, error: OSError) -> EntryLost:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return EntryLost(Remark(name, Outcome.GONE, "vanished before it was read"))
    return EntryLost(Remark(name, Outcome.UNREADABLE, error.strerror or str(error)))


@dataclass
class _Source:
    """One look at one database."""

    descriptors: Descriptors
    name: str
    scratch: str
    patience: Patience
    locked: bool = False  # whether the SHARED lock is held; False where there are no such locks

    def pin(self) -> Pinned:
        path = self.descriptors.path
        if not is_database(self._head()):
            return self._raw("the file is not a SQLite database any more")
        with contextlib.suppress(locks.LocksUnavailable):
            self._share()
        if not self.descriptors.same_file():
            raise NotLive
        head = self._head()  # again: under the lock it stays
        page_size = page_size_of(head)
        log = log_size(path)
        shm = self.descriptors.sidecar("-shm") if log is not None else None
        try:
            if shm is not None and self._in_use(shm):
                return Live(self.name, self.descriptors, shm, self.patience, joined=self.locked)
            if log or self._hot_journal():
                return self._recovered(page_size)
            if not self.locked and not uses_wal(head):
                return HeldThroughSqlite(self.name, self.descriptors, self.patience)
        except sqlite3.Error as error:
            if error_code(error) not in (CORRUPT, NOTADB):
                raise EntryLost(Remark(self.name, Outcome.UNREADABLE, f"SQLite: {error}")) from error
            return self._raw(str(error))
        return self._at_rest(page_size) if uses_wal(head) else self._journaled(page_size)

    def _share(self) -> None:
        """Wait for the SHARED lock."""
        main = self.descriptors.main
        while not locks.share(main):
            if not self.descriptors.same_file():
                raise NotLive
            span = locks.SHARED_SIZE + 2
            self.patience.pause(locks.held_by(main, locks.PENDING, span, writers_only=True))
        self.locked = True

    def _unshare(self) -> None:
        locks.unshare(self.descriptors.main)
        self.locked = False

    def _head(self) -> bytes:
        return os.pread(self.descriptors.main, 100, 0)

    def _raw(self, trouble: str) -> Raw:
        log = log_size(self.descriptors.path)
        if log:
            trouble += f"\nits log `{self.descriptors.path}-wal` ({log} bytes) is not part of this copy"
        return Raw(self.name, self.descriptors, page_size_of(self._head()), trouble)

    def _in_use(self, shm: int) -> bool:
        """Whether the log is in use right now; if so, we count as a user from here on."""
        if not self.locked:
            return True
        return (
            locks.held_by(shm, locks.SHM_IN_USE) is not None
            and locks.join_users(shm)
            and locks.held_by(shm, locks.SHM_IN_USE) is not None
        )

    def _hot_journal(self) -> bool:
        """Whether a writer died half way: a journal with a header, and no writer."""
        journal = self.descriptors.sidecar("-journal")
        if journal is None or os.pread(journal, 1, 0) in (b"", b"\0"):
            return False
        return not self.locked or locks.held_by(self.descriptors.main, locks.RESERVED) is None

    def _recovered(self, page_size: int) -> Pinned:
        """Copy the database with its log or journal, and let SQLite recover the copy."""
        parts = {suffix: self.descriptors.sidecar(suffix) for suffix in ("-wal", "-journal")}
        sidecars = {suffix: part for suffix, part in parts.items() if part is not None}
        files = (self.descriptors.main, *sidecars.values())
        before = [settled(file) for file in files]
        # Folding a log in can make the main file as much longer as the log is.
        needed = sum(status.st_size for status in before) + sum(status.st_size for status in before[1:])
        try:
            spool = Spool(self.scratch, needed)
            try:
                spool.fill(self.descriptors.main, before[0].st_size)
                for suffix, part in sidecars.items():
                    spool.fill_sidecar(part, suffix)
                if [_mark(os.fstat(file)) for file in files] != [_mark(status) for status in before]:
                    raise NotLive
                fold(spool.path)
                copy = Spooled(self.name, spool, page_size, before[0].st_mtime_ns, "at-rest")
            except BaseException:
                spool.close()
                raise
        except DatabaseDamaged as error:
            return self._raw(str(error.facts["detail"]))
        except NoSpool as error:
            reason = f"its log must be folded in, and there is {error}"
            raise EntryLost(Remark(self.name, Outcome.UNREADABLE, reason)) from error
        self.descriptors.close()
        return copy

    def _at_rest(self, page_size: int) -> Pinned:
        """WAL mode and not in use: copied, or, large and long untouched, read where it lies."""
        status = os.fstat(self.descriptors.main)
        if status.st_size > COPY_AT_REST and quiet_for(status, QUIET_AT_REST):
            return UnopenedDatabase(self.name, self.descriptors, page_size)
        before = settled(self.descriptors.main)
        try:
            spool = Spool(self.scratch, before.st_size)
        except NoSpool:
            return UnopenedDatabase(self.name, self.descriptors, page_size)
        try:
            spool.fill(self.descriptors.main, before.st_size)
            if _mark(os.fstat(self.descriptors.main)) != _mark(before):
                raise NotLive
            copy = Spooled(self.name, spool, page_size, before.st_mtime_ns, "at-rest")
        except NoSpool:
            spool.close()
            return UnopenedDatabase(self.name, self.descriptors, page_size)
        except BaseException:
            spool.close()
            raise
        self.descriptors.close()
        return copy

    def _journaled(self, page_size: int) -> Pinned:
        """A rollback journal: writers wait for our lock, so copy and let go."""
        status = os.fstat(self.descriptors.main)
        try:
            spool = Spool(self.scratch, status.st_size)
        except NoSpool as error:
            return self._under_lock(page_size, error)
        try:
            if status.st_size > COPY_UNDER_LOCK:
                status = self._copy_beside_writers(spool, status)
            else:
                spool.fill(self.descriptors.main, status.st_size)
            self._unshare()
            copy = Spooled(self.name, spool, page_size, status.st_mtime_ns, "pages")
        except NoSpool as error:
            spool.close()
            return self._under_lock(page_size, error)
        except BaseException:
            spool.close()
            raise
        self.descriptors.close()
        return copy

    def _copy_beside_writers(self, spool: Spool, before: os.stat_result) -> os.stat_result:
        """Copy without a lock first, and compare under it: the lock is not held for disk writes.

        Returns with the lock held and the copy equal to the file.
        """
        main, path = self.descriptors.main, self.descriptors.path
        quiet = old_enough(before)
        self._unshare()
        spool.fill(main, before.st_size)
        self.patience.progressed()
        self._share()
        if log_size(path) or uses_wal(self._head()) or self._hot_journal():
            raise NotLive
        now = os.fstat(main)
        if not quiet or _mark(now) != _mark(before):
            spool.match(main, now.st_size)
        return now

    def _under_lock(self, page_size: int, error: NoSpool) -> Pinned:
        if not self.locked:
            self._share()
        held = InPlace(self.name, self.descriptors, page_size, "pages")
        reason = f"stored whole, but its writers had to wait while it was read: {error}"
        held.remarks.append(Remark(self.name, Outcome.NOTED, reason))
        return held


def _mark(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
