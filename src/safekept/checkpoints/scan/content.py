"""Reading one file of a project while others may be writing it.

A file is read whole, looked at again, and read again if it changed meanwhile. Links are never followed.
A SQLite database is never opened here when this process has it open already, because closing any
descriptor of a file drops every lock the process holds on it; `core.sqlite` captures it as one state.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator

from safekept.core.entries import EntryLost
from safekept.core.events import Listener
from safekept.core.files.stable import READ, read_once, settled
from safekept.core.records import dataclass
from safekept.core.sqlite.format import HEADER

from ..store.pack_writer import PackWriter

#: Up to this size a file is read into memory; beyond it, it is streamed.
WHOLE = 32 << 20
_ATTEMPTS = 3
_SHORT_SIDECARS = (b"-wal", b"-shm")


class Unreadable(Exception):
    """A file that could not be read; `reason` is one of the reasons of a checkpoint."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(slots=True)
class Read:
    """One file that is in the pack now."""

    oid: bytes
    size: int  # as stored
    status: os.stat_result | None  # what the file looked like; None where it kept changing
    unsure: bool  # may change again without looking different
    database: bool = False
    remark: str = ""


def held_here() -> set[tuple[int, int]]:
    """Device and inode of every file that this process has open."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError, ValueError):
                status = os.fstat(int(name))
                if stat.S_ISREG(status.st_mode):
                    found.add((status.st_dev, status.st_ino))
    return found


class Reader:
    """Puts files into a pack. `scratch` is a directory of ours for copies of live databases."""

    def __init__(
        self,
        writer: PackWriter,
        scratch: str,
        listener: Listener,
        twin: Callable[[os.stat_result], bool] | None = None,
    ) -> None:
        self._writer, self._scratch, self._listener = writer, scratch, listener
        self._twin = twin  # whether a file with several names is a secret by another one
        self._held: set[tuple[int, int]] | None = None
        self._held_inodes: set[int] = set()

    def link(self, directory: int, name: bytes) -> Read:
        """A symbolic link: its target is its content."""
        try:
            before = time.time_ns()
            target = os.readlink(name, dir_fd=directory)
            status = os.lstat(name, dir_fd=directory)
        except FileNotFoundError:
            raise Unreadable("gone", "vanished while it was read") from None
        except OSError as error:
            raise Unreadable("unreadable", error.strerror or str(error)) from error
        oid = self._writer.add(b"blob", target)
        return Read(oid, len(target), status, not settled(status.st_ctime_ns, before))

    def file(
        self, directory: int, name: bytes, inode: int, where: bytes, known_database: bool, limit: int
    ) -> Read:
        """A regular file in the directory `where`, also open as `directory`."""
        if known_database or self._is_held_database(directory, name, inode):
            return self._database(directory, name, where)
        try:
            descriptor = os.open(name, READ, dir_fd=directory)
        except FileNotFoundError:
            raise Unreadable("gone", "vanished while it was read") from None
        except OSError as error:
            raise Unreadable("unreadable", error.strerror or str(error)) from error
        try:
            found = self._whole(descriptor, limit)
        except OSError as error:
            raise Unreadable("unreadable", error.strerror or str(error)) from error
        finally:
            os.close(descriptor)
        return found or self._database(directory, name, where)

    def _whole(self, descriptor: int, limit: int) -> Read | None:
        """The file as it lies; None for a database."""
        for _ in range(_ATTEMPTS):
            before = time.time_ns()
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("special", "is not a regular file")
            if status.st_nlink > 1 and self._twin is not None and self._twin(status):
                raise Unreadable("secret", "is a secret of an agent's home by another name")
            if limit and status.st_size > limit:
                raise Unreadable("oversize", "grew beyond the limit")
            if status.st_size > WHOLE:
                if os.pread(descriptor, 16, 0) == HEADER:
                    return None
                found = self._streamed(descriptor, status, before)
                if found is not None:
                    return found
                continue
            data, after, same = read_once(descriptor, status)
            if data.startswith(HEADER):
                return None
            if same and after.st_ctime_ns == status.st_ctime_ns:
                oid = self._writer.add(b"blob", data)
                return Read(oid, len(data), after, not settled(after.st_ctime_ns, before))
        if status.st_size > WHOLE:
            raise Unreadable("changing", "changed each time it was read")
        oid = self._writer.add(b"blob", data)
        return Read(
            oid, len(data), after, True, remark="kept changing while it was read; may mix old and new"
        )

    def _streamed(self, descriptor: int, status: os.stat_result, before: int) -> Read | None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            oid = self._writer.add_stream(status.st_size, _chunks(descriptor, status.st_size))
        except ValueError:
            return None
        after = os.fstat(descriptor)
        if (after.st_size, after.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            return None
        return Read(oid, status.st_size, after, not settled(after.st_ctime_ns, before))

    def _is_held_database(self, directory: int, name: bytes, inode: int) -> bool:
        """Whether this process has the file open and it is a database, found out without opening it."""
        if self._held is None:
            self._held = held_here()
            self._held_inodes = {number for _, number in self._held}
        if inode not in self._held_inodes:
            return False
        try:
            status = os.lstat(name, dir_fd=directory)
        except OSError:
            return False
        if (status.st_dev, status.st_ino) not in self._held:
            return False
        for number in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError, ValueError):
                own = os.fstat(int(number))
                if (own.st_dev, own.st_ino) == (status.st_dev, status.st_ino):
                    return os.pread(int(number), 16, 0) == HEADER
        return False

    def _database(self, directory: int, name: bytes, where: bytes) -> Read:
        from safekept.core.sqlite import CaptureOptions
        from safekept.core.sqlite.capture import capture

        path = os.fsdecode(os.path.join(where, name))
        try:
            before = time.time_ns()
            status = os.lstat(name, dir_fd=directory)
            options = CaptureOptions(scratch=self._scratch, deadline=5.0, check=False, isolated=True)
            with capture(path, path, options, listener=self._listener) as content:
                if content.size <= WHOLE:
                    data = b"".join(content.chunks())
                    oid = self._writer.add(b"blob", data)
                else:
                    oid = self._writer.add_stream(content.size, content.chunks())
                size = content.size
        except FileNotFoundError:
            raise Unreadable("gone", "vanished while it was read") from None
        except EntryLost as lost:
            raise Unreadable("database", lost.remark.reason) from lost
        except ValueError as error:
            raise Unreadable("database", str(error)) from error
        except OSError as error:
            raise Unreadable("unreadable", error.strerror or str(error)) from error
        return Read(oid, size, status, not settled(status.st_ctime_ns, before), database=True)


def sidecar_of(name: bytes) -> bytes | None:
    """The database that a file would belong to, going by its name."""
    if name[-4:] in _SHORT_SIDECARS:
        return name[:-4]
    return name[:-8] if name[-8:] == b"-journal" else None


def log_mark(directory: int, name: bytes) -> tuple[int, ...]:
    """What the write-ahead log and the rollback journal of a database look like."""
    mark: list[int] = []
    for suffix in (b"-wal", b"-journal"):
        with contextlib.suppress(OSError):
            status = os.lstat(name + suffix, dir_fd=directory)
            mark += (status.st_ctime_ns, status.st_size, status.st_ino)
    return tuple(mark)


def _chunks(descriptor: int, size: int) -> Iterator[bytes]:
    left = size
    while left and (piece := os.read(descriptor, min(1 << 20, left))):
        left -= len(piece)
        yield piece
