"""Spool files: a private copy in the scratch directory, gone when it is let go of.

Made 0600 under a name that the sweeper of temporary files knows, unlinked as soon as SQLite has it
open, so that not even a kill leaves more than the sweeper takes away.
"""

from __future__ import annotations

import contextlib
import errno
import os

from ...entries import CHUNK
from ...files import free_bytes, temporary_name, write_all
from ...platform.copying import copy_inside
from ..format import SIDECARS

#: Left free in the scratch directory beside what a spool needs.
MARGIN = 16 << 20

#: Compared at a time: small enough to stay in the processor's cache.
_COMPARED = 1 << 18
_MATCHERS = 4

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoSpool(Exception):
    """The scratch directory cannot take a copy: there is no room, or `error` came up."""

    def __init__(self, directory: str, needed: int, error: OSError | None = None) -> None:
        if error is None or error.errno in _FULL:
            super().__init__(f"no room in {directory} for a copy of {needed} bytes")
        else:
            super().__init__(f"no copy can be made in {directory}: {error.strerror or error}")


def _as_no_room(error: OSError, directory: str, needed: int) -> Exception:
    return NoSpool(directory, needed, error) if error.errno in _FULL else error


class Spool:
    """One file (and, while SQLite recovers it, its sidecars) in the scratch directory."""

    def __init__(self, directory: str, needed: int) -> None:
        """Make an empty one. Raises NoSpool where `needed` bytes would not fit, or none can be made.

        An empty `directory`: nothing is to be copied.
        """
        try:
            if free_bytes(directory) < needed + MARGIN:
                raise NoSpool(directory, needed)
            self.path = temporary_name(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise NoSpool(directory, needed, error) from error
        self.directory, self.needed = directory, needed

    def fill(self, source: int, length: int) -> None:
        """Copy the first `length` bytes of an open file."""
        self._copy(source, self.descriptor, length)

    def match(self, source: int, length: int) -> None:
        """Make a copy that was made beside a writer equal to the source, which now holds still.

        Only what differs is written, so this costs reading from memory and little else; in
        several threads, because the writer waits meanwhile and reading lets go of the interpreter.
        """
        from concurrent.futures import ThreadPoolExecutor

        share = -(-length // (_MATCHERS * _COMPARED)) * _COMPARED
        ranges = [(start, min(start + share, length)) for start in range(0, length, share or 1)]
        with ThreadPoolExecutor(_MATCHERS) as threads:
            done = [threads.submit(self._match, source, start, end) for start, end in ranges]
        try:
            for part in done:
                part.result()
        except OSError as error:
            raise _as_no_room(error, self.directory, self.needed) from error
        os.ftruncate(self.descriptor, length)

    def _match(self, source: int, start: int, end: int) -> None:
        theirs, ours = bytearray(_COMPARED), bytearray(_COMPARED)
        for offset in range(start, end, _COMPARED):
            wanted = min(_COMPARED, end - offset)
            got = os.preadv(source, [memoryview(theirs)[:wanted]], offset)
            if os.preadv(self.descriptor, [memoryview(ours)[:wanted]], offset) != got or theirs != ours:
                os.pwrite(self.descriptor, memoryview(theirs)[:got], offset)
                ours[:] = theirs

    def fill_sidecar(self, source: int, suffix: str) -> None:
        """Copy a whole sidecar beside the spool."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        target = os.open(self.path + suffix, flags, 0o600)
        try:
            self._copy(source, target, os.fstat(source).st_size)
        finally:
            os.close(target)

    def _copy(self, source: int, target: int, length: int) -> None:
        try:
            copy_range(source, target, length)
        except OSError as error:
            raise _as_no_room(error, self.directory, self.needed) from error

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def forget_name(self) -> None:
        """Unlink it; the open descriptor and SQLite's keep the bytes.

        What cannot be unlinked is left to the sweeper: it costs room for a while, and not the database.
        """
        for suffix in ("", *SIDECARS):
            with contextlib.suppress(OSError):
                os.unlink(self.path + suffix)

    def close(self) -> None:
        self.forget_name()
        # Forgotten first: a time limit that ends us right after the close would have it closed a second time.
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def copy_range(source: int, target: int, length: int) -> None:
    """Copy the first bytes of one open file to another, inside the kernel where it can.

    Shares blocks on filesystems that can; a source that ends early ends the copy.
    """
    done = 0
    while done < length:
        moved = copy_inside(source, target, min(length - done, 64 << 20), done, done)
        if not moved:
            break
        done += moved
    os.lseek(target, done, os.SEEK_SET)
    while done < length:
        data = os.pread(source, min(CHUNK, length - done), done)
        if not data:
            return
        write_all(target, data)
        done += len(data)
