"""The room of one user in the keeper's store: objects that are put once, under the SHA-256 of their bytes.

    ID/objects/ab/ab12…   an object, 0400
    ID/manifests/N        what was said to be there, when, by the keeper's clock
    ID/incoming/          bytes on their way in
    ID/lock, used         one change at a time; bytes that count against the quota

Nothing here takes a path from a caller: a name is 64 hexadecimal digits or it is refused. What a caller
passes is copied first and its name is checked on the copy, so a file that changes meanwhile changes
nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from safekept.core.files import fsync_directory, link_once, private_directory, remove_quietly
from safekept.core.platform.copying import copy_inside
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from .wire import is_name

#: Every object counts for whole blocks, and for one more: its name takes room, too.
_BLOCK = 4096
#: One object; a larger file is cut into several.
MAX_OBJECT = 1 << 30
_PIECE = 16 << 20
#: Of the filesystem, and of its inodes, so much stays free whatever the quotas say.
_RESERVE = 0.05


class Refused(Exception):
    """The keeper does not take it; `code` is for programs, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Put:
    """One object as a caller announces it: its name, and where its bytes are in the descriptor."""

    name: str
    offset: int
    size: int


class Room:
    """`directory`: the store's directory for this user. `quota`: bytes."""

    def __init__(self, directory: str, quota: int) -> None:
        self.directory, self.quota = directory, quota
        self.objects = os.path.join(directory, "objects")
        self.manifests = os.path.join(directory, "manifests")
        self.incoming = os.path.join(directory, "incoming")
        self._used = os.path.join(directory, "used")

    def make(self) -> None:
        for place in (self.objects, self.manifests, self.incoming):
            private_directory(place)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One change at a time; the kernel lets go of it when a process dies."""
        descriptor = os.open(
            os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def place(self, name: str) -> str:
        if not is_name(name):
            raise Refused("bad-name", "the name of an object is a SHA-256 in small hexadecimal")
        return os.path.join(self.objects, name[:2], name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.place(name))

    def size(self, name: str) -> int:
        """Bytes of an object; -1 where there is none."""
        try:
            return os.stat(self.place(name)).st_size
        except FileNotFoundError:
            return -1

    def open(self, name: str) -> int:
        """A descriptor to read an object by. The file is the keeper's and 0400: no other user can open it."""
        try:
            return os.open(self.place(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Refused("not-there", f"there is no object {name}") from None

    def read(self, name: str, most: int) -> bytes:
        """The bytes of a small object."""
        descriptor = self.open(name)
        try:
            if os.fstat(descriptor).st_size > most:
                raise Refused("too-large", f"the object {name} is too large for this")
            return os.pread(descriptor, most, 0)
        finally:
            os.close(descriptor)

    def put(self, descriptor: int, one: Put) -> bool:
        """Take one object; False where it was there. Refused, and nothing is left, where it is not right."""
        place = self.place(one.name)
        if not 0 <= one.size <= MAX_OBJECT or one.offset < 0:
            raise Refused("too-large", f"an object has at most {MAX_OBJECT:,} bytes")
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("no-file", "what was passed is no file")
        if facts.st_size < one.offset + one.size:
            raise Refused("too-short", "the file has fewer bytes than were announced")
        if os.path.exists(place):
            return False
        self.reserve(counted(one.size))
        temporary = os.path.join(self.incoming, os.urandom(16).hex())
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            writing = os.open(temporary, flags, 0o400)
            try:
                _copy(descriptor, writing, one)
                os.lseek(writing, 0, os.SEEK_SET)
                if _digest(writing) != one.name:
                    raise Refused("mismatch", "the bytes do not match their name")
                sync_file(writing)
            finally:
                os.close(writing)
            private_directory(os.path.dirname(place))
            link_once(temporary, place)
        except FileExistsError:  # another process of this user brought the same
            remove_quietly(temporary)
            self.reserve(-counted(one.size))
            return False
        except BaseException as error:
            remove_quietly(temporary)
            self.reserve(-counted(one.size))
            if isinstance(error, OSError):
                code = "full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "unreadable"
                raise Refused(code, f"not stored: {error.strerror or error}") from error
            raise
        return True

    def reserve(self, size: int) -> None:
        """Count bytes against the quota before they are written, or give them back (less than 0)."""
        with self.locked():
            used = self.used
            if size > 0:
                if used + size > self.quota:
                    raise Refused("full", f"the quota of {self.quota:,} bytes is used up")
                disk = os.statvfs(self.directory)
                left = disk.f_bavail * disk.f_frsize - size
                if left < disk.f_blocks * disk.f_frsize * _RESERVE:
                    raise Refused("full", "the keeper's disk is nearly full")
                if disk.f_files and disk.f_favail < disk.f_files * _RESERVE:
                    raise Refused("full", "the keeper's disk has nearly no room for more files")
            self.count(used + size)

    @property
    def used(self) -> int:
        try:
            with open(self._used, "rb") as file:
                return int(file.read(32) or b"0")
        except (FileNotFoundError, ValueError):
            return self.counted_again()

    def count(self, used: int) -> None:
        """Write down what is used; the caller holds the lock. What a crash leaves wrong is counted again."""
        descriptor = os.open(self._used, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, b"%-20d" % max(0, used), 0)
        finally:
            os.close(descriptor)

    def counted_again(self) -> int:
        return sum(counted(size) for _, size, _ in self.each()) + sum(
            counted(item.stat().st_size) for item in os.scandir(self.manifests)
        )

    def each(self) -> Iterator[tuple[str, int, float]]:
        """Every object: name, bytes, when it came."""
        for part in sorted(os.listdir(self.objects)):
            with os.scandir(os.path.join(self.objects, part)) as listing:
                for item in listing:
                    facts = item.stat(follow_symlinks=False)
                    yield item.name, facts.st_size, facts.st_mtime

    def make_durable(self) -> None:
        """The names of all objects; their bytes are on the disk already."""
        for part in os.listdir(self.objects):
            fsync_directory(os.path.join(self.objects, part))
        fsync_directory(self.objects)

    def missing(self, names: Iterable[object]) -> list[str]:
        found = []
        for name in names:
            if not isinstance(name, str):
                raise Refused("bad-name", "the name of an object is a SHA-256 in small hexadecimal")
            if not self.has(name):
                found.append(name)
        return found


def counted(size: int) -> int:
    return (size // _BLOCK + 2) * _BLOCK


def _copy(source: int, target: int, one: Put) -> None:
    """Exactly the announced bytes; where the filesystem can, they are shared and not copied."""
    done, plainly = 0, False
    while done < one.size:
        wanted = min(one.size - done, _PIECE)
        if not plainly:
            count = copy_inside(source, target, wanted, one.offset + done)
            if count is None:
                plainly = True
                continue
        else:
            piece = os.pread(source, min(wanted, 1 << 20), one.offset + done)
            count = os.write(target, piece) if piece else 0
        if not count:
            # Some filesystems copy nothing and say nothing; reading shows whether there is more.
            if not plainly and os.pread(source, 1, one.offset + done):
                plainly = True
                continue
            raise Refused("too-short", "the file ended before the announced bytes did")
        done += count


def _digest(descriptor: int) -> str:
    digest = hashlib.sha256()
    while piece := os.read(descriptor, 1 << 20):
        digest.update(piece)
    return digest.hexdigest()
