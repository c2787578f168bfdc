"""Raw descriptors of databases, closed only when it is safe.

POSIX locks belong to a process and an inode, and die when *any* descriptor of that inode is closed
in the process: one stray `close` takes the locks away from every SQLite connection we have on it
(and from the read transaction that a capture stands on). So a raw descriptor is closed only when
no user of the same database is left in this process; until then it is parked, as SQLite itself
parks its own. Several threads may capture the same database at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator

_guard = threading.Lock()
_users: dict[tuple[int, int], int] = {}
_parked: dict[tuple[int, int], list[Callable[[], None]]] = {}


def _enter(key: tuple[int, int]) -> None:
    with _guard:
        _users[key] = _users.get(key, 0) + 1


def _leave(key: tuple[int, int], closers: list[Callable[[], None]]) -> None:
    with _guard:
        waiting = _parked.setdefault(key, [])
        waiting.extend(closers)
        _users[key] -= 1
        if _users[key]:
            return
        del _users[key], _parked[key]
        # Inside the guard, so that no thread can begin to use the inode between the count and the close.
        for close in waiting:
            with contextlib.suppress(OSError):
                close()


@contextlib.contextmanager
def in_use(path: str) -> Iterator[None]:
    """For as long as a connection of ours is open on a database: nothing of it is closed raw."""
    status = os.stat(path)
    key = (status.st_dev, status.st_ino)
    _enter(key)
    try:
        yield
    finally:
        _leave(key, [])


def used_here(key: tuple[int, int]) -> bool:
    """Whether this process is at work on that inode right now."""
    with _guard:
        return key in _users


class Descriptors:
    """The raw descriptors of one database: its main file and whatever sidecars are looked at."""

    def __init__(self, path: str) -> None:
        """Open the main file for reading. Raises OSError; a link or a non-file is refused."""
        self.path = path
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self.main = os.open(path, flags)
        self.status = os.fstat(self.main)
        self.key = (self.status.st_dev, self.status.st_ino)
        self._closers: list[Callable[[], None]] = [lambda: os.close(self.main)]
        self._open = True
        _enter(self.key)
        if not stat.S_ISREG(self.status.st_mode):
            self.close()
            raise IsADirectoryError(f"not a regular file: {path}")

    def sidecar(self, suffix: str) -> int | None:
        """A descriptor of a sidecar for reading, or None where there is none."""
        try:
            descriptor = os.open(self.path + suffix, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        self._closers.append(lambda: os.close(descriptor))
        return descriptor

    def park(self, close: Callable[[], None]) -> None:
        """Have something else closed together with the descriptors."""
        self._closers.append(close)

    def same_file(self) -> bool:
        """Whether the path still names the file that was opened."""
        try:
            now = os.lstat(self.path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self.key

    def close(self) -> None:
        """Give the descriptors up. Every live connection must be closed before."""
        if self._open:
            self._open = False
            _leave(self.key, self._closers)
