"""Objects in a directory: another disk, a mounted share, a stick.

Durable write: a temporary name in the same directory, all bytes, fsync, then a link (which refuses a
taken name) or, to replace, a rename, then fsync of the directory. Files are 0600, directories 0700. The
root is never made by a write: where it is missing, the drive is not plugged in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence

from ..errors import SafekeptError
from ..files import (
    TEMPORARY_PREFIX,
    NoRoom,
    durable_directories,
    fsync_directory,
    link_once,
    read_exactly,
    remove_quietly,
    temporary_name,
    write_all,
)
from .base import (
    CHUNK,
    Abilities,
    Content,
    NotThere,
    ObjectStore,
    Stored,
    Taken,
    checked,
    checked_prefix,
    valid_name,
)
from .errors import WHOLE, PlaceMissing, refused, unreachable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


class LocalObjects(ObjectStore):
    """The files below one directory."""

    lanes = 2

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    @property
    def location(self) -> str:
        return self.path

    def present(self) -> bool:
        return os.path.isdir(self.path)

    def create(self) -> None:
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            fsync_directory(os.path.dirname(self.path))
        except OSError as error:
            raise self._failed("make that directory", error) from error

    def list(self, prefix: str = "") -> Iterator[Stored]:
        self._root()
        # What somebody else put there under a name that no place can keep is none of ours.
        found = self._walk(checked_prefix(prefix), temporary=False)
        yield from (one for one in found if valid_name(one.name))

    def _walk(self, prefix: str, temporary: bool) -> Iterator[Stored]:
        """The files below, whole ones or those under temporary names."""
        deeper = []
        try:
            with os.scandir(os.path.join(self.path, prefix)) as listing:
                for item in listing:
                    if item.is_dir(follow_symlinks=False):
                        deeper.append(f"{prefix}{item.name}/")
                    elif item.name.startswith(TEMPORARY_PREFIX) is temporary:
                        # A file that somebody removes meanwhile is simply no longer listed.
                        with contextlib.suppress(FileNotFoundError):
                            facts = item.stat()
                            yield Stored(prefix + item.name, facts.st_size, facts.st_mtime)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failed("list it", error) from error
        for directory in sorted(deeper):
            yield from self._walk(directory, temporary)

    def size(self, name: str) -> int:
        try:
            facts = os.stat(self._place(name))
            if not stat.S_ISDIR(facts.st_mode):
                return facts.st_size
            raise NotThere(name)
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_there(name) from None
        except OSError as error:
            raise self._failed("read it", error) from error

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        descriptor = self._open(name)
        try:
            wanted = max(0, os.fstat(descriptor).st_size - offset) if length is None else length
            return read_exactly(descriptor, offset, wanted)
        except OSError as error:
            raise self._failed("read it", error) from error
        finally:
            os.close(descriptor)

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        descriptor = self._open(name)
        try:
            while data := os.pread(descriptor, CHUNK, offset):
                yield data
                offset += len(data)
        except OSError as error:
            raise self._failed("read it", error) from error
        finally:
            os.close(descriptor)

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        place = self._place(name)
        directory = os.path.dirname(place)
        temporary, new = temporary_name(directory), False
        try:
            there = os.path.lexists(place)
            if not replace and there:
                raise FileExistsError(place)
            descriptor = self._make(temporary, directory)
            try:
                if isinstance(content, bytes | bytearray | memoryview):
                    write_all(descriptor, memoryview(content))
                else:
                    while data := content.read(CHUNK):
                        write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if replace:
                os.rename(temporary, place)
            else:
                link_once(temporary, place)
            new = not there
            fsync_directory(directory)
        except FileExistsError:
            remove_quietly(temporary)
            self._sync_taken(directory)
            raise Taken(name) from None
        except OSError as error:
            remove_quietly(temporary)
            if new:  # it may not outlive a power cut, and whoever finds it takes it for one that does
                remove_quietly(place)
            raise self._failed("write there", error) from error
        except BaseException:
            remove_quietly(temporary)
            raise

    def _sync_taken(self, directory: str) -> None:
        """A name that is there may be of a try that failed at its very end, before it was durable."""
        try:
            fsync_directory(directory)
        except OSError as error:
            raise self._failed("write there", error) from error

    def delete(self, name: str) -> None:
        place = self._place(name)
        self._root()
        try:
            os.unlink(place)
            fsync_directory(os.path.dirname(place))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise self._failed("delete there", error) from error

    def probe(self) -> Abilities:
        name = "safekept-probe"
        self.write(name, b"safekept", replace=True)
        self.delete(name)
        return Abilities(write=True, overwrite=True, delete=True, versioning=False, write_once=True)

    def room(self) -> tuple[int, int] | None:
        try:
            facts = os.statvfs(self.path)
        except OSError:
            return None
        return facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        swept, now = [], time.time()
        for found in list(self._walk("", temporary=True)):
            if now - found.modified >= older_than:
                remove_quietly(os.path.join(self.path, found.name))
                swept.append(found.name)
        return swept

    def _place(self, name: str) -> str:
        return os.path.join(self.path, checked(name))

    def _open(self, name: str) -> int:
        try:
            descriptor = os.open(self._place(name), os.O_RDONLY | os.O_CLOEXEC)
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise NotThere(name)
        except (FileNotFoundError, NotADirectoryError):
            raise self._not_there(name) from None
        except OSError as error:
            raise self._failed("read it", error) from error

    def _make(self, temporary: str, directory: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            self._root()
            durable_directories(directory, self.path)
            return os.open(temporary, flags, 0o600)

    def _root(self) -> None:
        if not self.present():
            raise PlaceMissing(
                f"There is no directory `{self.path}`",
                kept="Nothing was made there: an unplugged drive is never replaced by an empty directory",
                next_steps=("Plug the drive in or mount it, then run the command again",),
                place=self.path,
            )

    def _not_there(self, name: str) -> NotThere:
        self._root()
        return NotThere(name)

    def _failed(self, verb: str, error: OSError) -> SafekeptError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return NoRoom(
                f"There is no room left in `{self.path}`: {reason}",
                kept=WHOLE,
                next_steps=("Make room on that disk and run the command again",),
                place=self.path,
            )
        if error.errno in _DENIED:
            return refused(
                self.path, verb, reason, "Mount it writable, or make it writable for you, and run it again"
            )
        lost = unreachable(self.path, reason)
        lost.next_steps = (
            "See that the disk is mounted there and that every part of the path is a directory",
        )
        return lost
