"""The seat belt: nothing can be deleted from a store's directories while no command of ours writes there.

A file goes only where its directory can be written. So the directories of a store are closed (0500; as root,
whom modes do not bind, also immutable), and an `rm -rf`, a `find -delete` or a `git clean` of the same user
leaves what is in them. A writer opens the directories that it needs and holds a shared lock on the store's
root meanwhile; whoever then gets that lock alone closes everything. The kernel lets go of the lock of a
writer that dies, and what it left open is closed by the next command. The root is opened first and closed
last: while it is closed, everything is.

Whether a store has a belt is written in it (`mark`), so that every writer knows it without any settings.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Sequence

from .files import durable_write, kind_of_filesystem, remove_quietly

_ON, _OPEN = b"on\n", b"open\n"
_WRITABLE = 0o222
#: Filesystems that one machine has to itself and that keep modes. A machine that shares any other may run a
#: program that knows nothing of belts.
_OWN_DISKS = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs overlay apfs hfs".split())
#: Seconds for which a writer waits for whoever is closing, which takes a millisecond: a process that was
#: stopped in the middle of it stops nobody else.
_PATIENCE = 2.0
_LONG = struct.calcsize("l")
_GET_FLAGS, _SET_FLAGS = 0x80006601 | _LONG << 16, 0x40006602 | _LONG << 16
_IMMUTABLE = 0x10


class Belt:
    """The directories of one store. `inside`: those below the root, `data/*` for all that are in one.

    `wanted`: what the user set; None: as the store has it. For several threads at once.
    """

    def __init__(self, root: str, inside: Sequence[str], mark: str, wanted: bool | None = None) -> None:
        self.root, self.wanted = root, wanted
        self._inside, self._mark = inside, os.path.join(root, mark)
        self._lock = -1
        self._opened: set[str] = set()
        self._mutex = threading.Lock()

    @property
    def state(self) -> str:
        """`on`, `open` (a person opened it, until a person closes it), or `off`."""
        try:
            descriptor = os.open(self._mark, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return "off"
        try:
            return "open" if os.read(descriptor, 16) == _OPEN else "on"
        except OSError:
            return "on"
        finally:
            os.close(descriptor)

    def open(self, directory: str) -> None:
        """See that one of the directories can be written, until `let_go`; one that is missing can be made."""
        if directory in self._opened:
            return
        with self._mutex:
            if self._lock < 0:
                self._lock = _shared(self.root)
                if self._lock < 0:
                    return  # there is no store yet
                _change(self._lock, writable=True)
            place = directory
            while place != self.root and not os.path.lexists(place):
                place = os.path.dirname(place)
            _change_named(place, writable=True)
            if place == directory:
                self._opened.add(directory)

    def open_all(self) -> None:
        """The same for every directory, for whoever runs a program that writes anywhere in the store."""
        self.open(self.root)
        for place in self._directories():
            self.open(place)

    def let_go(self) -> None:
        """Nothing more is written. Whoever is the last closes. May be called twice; never an error."""
        with self._mutex, contextlib.suppress(OSError):
            lock, self._lock = self._lock, -1
            self._opened.clear()
            if lock < 0:
                if not self.wanted or not os.stat(self.root).st_mode & 0o200:
                    return
                # Open although nobody here wrote: a new setting, a person, or a writer that was killed.
                lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._settle(lock)
            finally:
                os.close(lock)

    def lift(self) -> None:
        """Open everything until `fasten`, for programs of others. OSError where that cannot be."""
        self._by_hand(_OPEN)

    def fasten(self) -> bool:
        """Close everything, where nobody writes just now; whether it is closed. OSError."""
        self._by_hand(_ON)
        return self.holds()

    def take_off(self) -> None:
        """Open everything for good: for whoever removes the store or moves it."""
        self.open_all()
        with self._mutex:
            remove_quietly(self._mark)
            if self._lock >= 0:
                os.close(self._lock)
            self._lock = -1
            self._opened.clear()

    def holds(self) -> bool:
        """Whether nothing can be deleted here, found out by trying to put something there."""
        places = [place for place in self._directories() if os.path.isdir(place)]
        return bool(places) and not any(_can_be_written(place) for place in (places[0], places[-1]))

    def possible(self) -> bool:
        """Whether a belt can be worn here: our own directory, on a disk that this machine has to itself."""
        try:
            facts = os.stat(self.root)
        except OSError:
            return False
        ours = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
        return ours and kind_of_filesystem(facts.st_dev) in _OWN_DISKS

    def _by_hand(self, text: bytes) -> None:
        self.open_all()
        try:
            self._write_mark(text)
        finally:
            self.let_go()

    def _settle(self, lock: int) -> None:
        """Alone: make it so that it is as the user wants it."""
        state = self.state
        if self.wanted is False and state != "off":
            for place in self._directories():
                _change_named(place, writable=True)
            remove_quietly(self._mark)
        elif self.wanted and state == "off" and self.possible():
            _change(lock, writable=True)
            self._write_mark(_ON)
            state = "on"
        if state == "on" and self.wanted is not False:
            for place in self._directories()[:-1]:
                _change_named(place, writable=False)
            _change(lock, writable=False)

    def _write_mark(self, text: bytes) -> None:
        if not os.path.isdir(os.path.dirname(self._mark)):
            os.mkdir(os.path.dirname(self._mark), 0o700)
        _change_named(os.path.dirname(self._mark), writable=True)
        durable_write(self._mark, text, 0o400)

    def _directories(self) -> list[str]:
        """All of them, those that hold others last."""
        found = [self.root]
        for name in self._inside:
            if not name.endswith("/*"):
                found.append(os.path.join(self.root, name))
                continue
            with contextlib.suppress(OSError), os.scandir(os.path.join(self.root, name[:-2])) as listing:
                found += [item.path for item in listing if item.is_dir(follow_symlinks=False)]
        return found[::-1]


def _shared(root: str) -> int:
    """A descriptor of the root with a shared lock on it; -1 where there is no root."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.0005)
                continue
        except OSError:
            pass  # no such locks here: then nobody closes, either
        return descriptor


def _change_named(path: str, *, writable: bool) -> None:
    """Open or close one directory, if it is ours and not so already; nothing else is touched."""
    with contextlib.suppress(OSError):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) or bool(mode & 0o200) is writable:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _change(descriptor, writable=writable)
        finally:
            os.close(descriptor)


def _change(descriptor: int, *, writable: bool) -> None:
    """What cannot be changed stays: whoever writes there then gets an error of its own."""
    with contextlib.suppress(OSError):
        facts = os.fstat(descriptor)
        mode = stat.S_IMODE(facts.st_mode)
        if facts.st_uid != os.geteuid() or bool(mode & 0o200) is writable:
            return
        if not writable:
            os.fchmod(descriptor, mode & ~_WRITABLE)
            _set_immutable(descriptor, True)
            return
        try:
            os.fchmod(descriptor, mode | 0o700)
        except PermissionError:
            _set_immutable(descriptor, False)
            os.fchmod(descriptor, mode | 0o700)


def _set_immutable(descriptor: int, immutable: bool) -> None:
    """Root's way to close a directory to root, where filesystem and capabilities allow it."""
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        (flags,) = struct.unpack("i", fcntl.ioctl(descriptor, _GET_FLAGS, b"\0" * 4))
        wanted = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("i", wanted))


def _can_be_written(place: str) -> bool:
    path = os.path.join(place, f".safekept-try-{os.getpid()}")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EPERM)
    remove_quietly(path)
    return True
