"""The seat belt: nothing can be deleted from a store's directories while no command of ours writes there.

A file goes only where its directory can be written. So the directories of a store are closed (0500; as root,
whom modes do not bind, also immutable), and an `rm -rf`, a `find -delete` or a `git clean` of the same user
leaves what is in them. A writer opens the directories that it needs and holds a shared lock on the store's
root meanwhile; a writer that then gets that lock alone closes everything. The kernel lets go of the lock of a
writer that dies, and what it left open is closed by the next command. The root is opened first and closed
last: while it is closed, everything is.

A writer that was alone closes what it opened. Where several were at work, or one was killed, the last looks
at every directory, which takes a millisecond; that there were several is known by a sticky bit on the root.

Whether a store has a belt is written in it (`mark`), so that every writer knows it without any settings.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Sequence

from ..platform.attributes import set_immutable
from ..platform.filesystems import kind_of_filesystem
from .durable import durable_write, remove_quietly

_ON, _OPEN = b"on\n", b"open\n"
_WRITABLE, _SEVERAL = 0o222, stat.S_ISVTX
#: Filesystems that one machine has to itself and that keep modes. A machine that shares any other may run a
#: program that knows nothing of belts.
_OWN_DISKS = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs overlay apfs hfs".split())
#: Seconds for which a writer waits for a process that is closing, which takes a millisecond: one that was
#: stopped in the middle of it stops no other.
_PATIENCE = 2.0


class Belt:
    """The directories of one store. `inside`: those below the root, parents first, `*` for all in one.

    `wanted`: what the user set; None: as the store has it. For several threads at once.
    """

    def __init__(self, root: str, inside: Sequence[str], mark: str, wanted: bool | None = None) -> None:
        self.root, self.wanted = root, wanted
        self._inside, self._mark = inside, os.path.join(root, mark)
        self._lock = -1
        self._opened: set[str] = set()
        self._touched: set[str] = set()
        self._everywhere = False  # what is open may be more than what we opened
        self._unseen = False  # something was written while the root could not be opened
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
            if self._lock < 0 and not self._begin():
                # There is no store yet. Or its root could not be opened for a moment: a user whom modes do
                # not bind writes there all the same, and what that leaves open is looked for in the end.
                self._unseen = self._unseen or os.path.isdir(self.root)
                return
            place = directory
            while place != self.root and not os.path.lexists(place):
                self._touched.add(place)
                place = os.path.dirname(place)
            change_named(place, writable=True)
            self._touched.add(place)
            if place == directory:
                self._opened.add(directory)

    def _begin(self) -> bool:
        self._lock = _shared(self.root)
        if self._lock < 0:
            return False
        with contextlib.suppress(OSError):
            if os.fstat(self._lock).st_mode & 0o200 and self.state == "on":
                self._say_several()  # another writer is at work, or was killed
        _change(self._lock, writable=True)
        return True

    def _say_several(self) -> None:
        self._everywhere = True
        with contextlib.suppress(OSError):
            os.fchmod(self._lock, stat.S_IMODE(os.fstat(self._lock).st_mode) | _SEVERAL)

    def open_all(self) -> None:
        """The same for every directory, for a program that writes anywhere in the store."""
        self.open(self.root)
        self._everywhere = True
        for place in reversed(self.directories()):
            self.open(place)

    def let_go(self) -> None:
        """Nothing more is written. The last writer closes. May be called twice; never an error."""
        with self._mutex, contextlib.suppress(OSError):
            if self._lock < 0:
                if not self._unseen and (self.wanted is False or not os.stat(self.root).st_mode & 0o200):
                    return
                if self.wanted is None and self.state != "on":
                    return
                # Open although nothing was written here: a new setting, a person, or a killed writer.
                self._lock = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._everywhere = True
            try:
                if not _alone(self._lock):
                    if self.state != "on":
                        return
                    # The last writer must know of what we opened.
                    _wait_for_share(self._lock)
                    self._say_several()
                    if not _alone(self._lock):
                        return
                self._settle(self._lock)
            finally:
                lock, self._lock, self._everywhere, self._unseen = self._lock, -1, False, False
                self._opened.clear()
                self._touched.clear()
                os.close(lock)

    def lift(self) -> None:
        """Open everything until `fasten`, for programs of others. OSError where that cannot be."""
        self._by_hand(_OPEN)

    def fasten(self) -> bool:
        """Close everything, where no process writes just now; whether it is closed. OSError."""
        self._by_hand(_ON)
        return self.holds()

    def take_off(self) -> None:
        """Open everything for good, before the store is removed or moved."""
        self.open_all()
        with self._mutex:
            remove_quietly(self._mark)
            if self._lock >= 0:
                os.close(self._lock)
            self._lock, self._everywhere = -1, False
            self._opened.clear()
            self._touched.clear()

    def holds(self) -> bool:
        """Whether nothing can be deleted here, found out by trying to put something there."""
        if not os.path.isdir(self.root):
            return False
        return not any(_can_be_written(place) for place in (self.root, *self.directories()[:1]))

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
        state, everywhere = self.state, self._everywhere
        everywhere = everywhere or self._unseen or bool(os.fstat(lock).st_mode & _SEVERAL)
        if self.wanted is False and state != "off":
            _change(lock, writable=True)
            for place in self.directories(writable=False)[::-1]:
                change_named(place, writable=True)
            remove_quietly(self._mark)
        elif self.wanted and state == "off" and self.possible():
            _change(lock, writable=True)
            self._write_mark(_ON)
            state, everywhere = "on", True
        if state == "on" and self.wanted is not False:
            ours = (place for place in sorted(self._touched, reverse=True) if self._belongs(place))
            places = self.directories(writable=True) if everywhere else ours
            # A root that is closed says that everything is. Where one stays open, the root does, and the next
            # command looks at all of them.
            closed = [change_named(place, writable=False) for place in places]
            if all(closed):
                _change(lock, writable=False)

    def _write_mark(self, text: bytes) -> None:
        if not os.path.isdir(os.path.dirname(self._mark)):
            os.mkdir(os.path.dirname(self._mark), 0o700)
        change_named(os.path.dirname(self._mark), writable=True)
        durable_write(self._mark, text, 0o400)

    def _belongs(self, place: str) -> bool:
        below = os.path.relpath(place, self.root).split("/")
        return any(_is_like(below, name.split("/")) for name in self._inside)

    def directories(self, *, writable: bool | None = None) -> list[str]:
        """All of them, those that hold others last; only those that are so. One look at each."""
        found = []
        for name in self._inside:
            # One that stays open must not be missed by the next to close: the root then stays open, too.
            gone = (FileNotFoundError, NotADirectoryError) if writable is True else (OSError,)
            places = [self.root]
            for part in name.removesuffix("/*").split("/"):
                places = [one for place in places for one in _below(place, part, gone)]
            for place in places:
                with contextlib.suppress(*gone):
                    if not name.endswith("/*"):
                        if _is(os.lstat(place).st_mode, writable):
                            found.append(place)
                        continue
                    # There may be hundreds, and a look by way of an open directory is the cheapest.
                    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        with os.scandir(descriptor) as listing:
                            for item in listing:
                                if _is(item.stat(follow_symlinks=False).st_mode, writable):
                                    found.append(f"{place}/{item.name}")
                    finally:
                        os.close(descriptor)
        return found[::-1]


def _below(place: str, part: str, gone: tuple[type[OSError], ...]) -> list[str]:
    """What a part of a pattern stands for in a directory."""
    if part != "*":
        return [f"{place}/{part}"]
    with contextlib.suppress(*gone):
        return [f"{place}/{name}" for name in os.listdir(place)]
    return []


def _is_like(parts: Sequence[str], name: Sequence[str]) -> bool:
    return len(parts) == len(name) and all(one in ("*", part) for one, part in zip(name, parts, strict=True))


def _is(mode: int, writable: bool | None) -> bool:
    return stat.S_ISDIR(mode) and (writable is None or bool(mode & 0o200) is writable)


def _shared(root: str) -> int:
    """A descriptor of the root with a shared lock on it; -1 where there is no root."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1
    _wait_for_share(descriptor)
    return descriptor


def _wait_for_share(descriptor: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.0005)
        except OSError:
            return  # no such locks here: then nothing is closed, either


def _alone(descriptor: int) -> bool:
    """Whether no other process writes; the shared lock is given up for it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def change_named(path: str, *, writable: bool) -> bool:
    """Open or close one directory, if it is ours and not so already; nothing else is touched.

    Whether that worked, or there was nothing to do.
    """
    try:
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode) or bool(mode & 0o200) is writable:
            return True
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return error.errno == errno.ENOENT
    try:
        return _change(descriptor, writable=writable)
    finally:
        os.close(descriptor)


def _change(descriptor: int, *, writable: bool) -> bool:
    """What cannot be changed stays: a write there then fails with an error of its own."""
    try:
        facts = os.fstat(descriptor)
        mode = stat.S_IMODE(facts.st_mode)
        if facts.st_uid != os.geteuid() or bool(mode & 0o200) is writable:
            return True
        if not writable:
            os.fchmod(descriptor, mode & ~(_WRITABLE | _SEVERAL))
            _set_immutable(descriptor, True)
            return True
        try:
            os.fchmod(descriptor, mode | 0o700)
        except PermissionError:
            _set_immutable(descriptor, False)
            os.fchmod(descriptor, mode | 0o700)
    except OSError:
        return False
    return True


def set_mode_of(descriptor: int, mode: int) -> None:
    """The permission bits of a directory, which may be closed and stays so. OSError."""
    try:
        os.fchmod(descriptor, mode)
    except PermissionError:
        _set_immutable(descriptor, False)
        try:
            os.fchmod(descriptor, mode)
        finally:
            _set_immutable(descriptor, True)


def _set_immutable(descriptor: int, immutable: bool) -> None:
    """Root's way to close a directory to root, where filesystem and capabilities allow it."""
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        set_immutable(descriptor, immutable)


def _can_be_written(place: str) -> bool:
    path = os.path.join(place, f".safekept-try-{os.getpid()}")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EPERM)
    remove_quietly(path)
    return True
