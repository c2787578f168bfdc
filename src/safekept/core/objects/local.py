"""Objects in a directory: another disk, a mounted share, a stick.

Durable write: a temporary name in the same directory, all bytes, fsync, then a link (which refuses a
taken name) or, to replace, a rename, then fsync of the directory. Files are 0600, directories 0700. The
root is never made by a write: where it is missing, the drive is not plugged in.

A vault on this host stands on this, too, with names, modes and errors of its own: `vault/storage/local.py`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence

from ..errors import SafekeptError
from ..files import (
    NOT_THERE,
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
from ..files.small import NotRegular, open_regular
from ..platform.syncing import sync_file
from .base import (
    CHUNK,
    OF_THE_DISK,
    Content,
    CredentialRights,
    NotThere,
    ObjectStore,
    Stored,
    Taken,
    checked,
    checked_prefix,
    valid_name,
)
from .errors import WHOLE, PlaceMissing, PlaceRefused, refused, unreachable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_MADE = 0o600  # a file has this mode from its first byte
#: What could not be done, in words.
_VERBS = {
    "make": "make that directory",
    "list": "list it",
    "read": "read it",
    "write": "write there",
    "delete": "delete there",
}


class LocalObjects(ObjectStore):
    """The files below one directory."""

    lanes = 2
    #: What a file has in the end.
    mode = _MADE

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
            raise self._failed("make", error) from error

    def list(self, prefix: str = "") -> Iterator[Stored]:
        self._root()
        # What lies there under a name that no place can keep is none of ours.
        found = self._walk(checked_prefix(prefix), temporary=False)
        yield from (one for one in found if valid_name(one.name))

    def directories(self, prefix: str = "") -> Iterator[str]:
        self._root()
        found = self.in_directory(checked_prefix(prefix))
        for name in sorted(name for name, facts in found if facts is None):
            try:
                held = any(self._walk(f"{prefix}{name}/", temporary=False))
            except SafekeptError:  # closed to us, as `lost+found` of a disk is: it may hold something
                held = True
            if held:
                yield name

    def _walk(self, prefix: str, temporary: bool) -> Iterator[Stored]:
        """The files below, whole ones or those under temporary names."""
        deeper = []
        for name, facts in self.in_directory(prefix):
            if facts is None and (prefix or name != OF_THE_DISK):
                deeper.append(f"{prefix}{name}/")
            elif facts is not None and name.startswith(TEMPORARY_PREFIX) is temporary:
                yield Stored(prefix + name, facts.st_size, facts.st_mtime)
        for directory in sorted(deeper):
            try:
                yield from self._walk(directory, temporary)
            except PlaceRefused:
                if not temporary:  # where we may not even look, we left nothing behind
                    raise

    def in_directory(self, prefix: str) -> Iterator[tuple[str, os.stat_result | None]]:
        """What lies directly in a directory, if there is one: files with facts, directories with None."""
        try:
            with os.scandir(os.path.join(self.path, prefix)) as listing:
                for item in listing:
                    try:
                        facts = None if item.is_dir(follow_symlinks=False) else item.stat()
                    except FileNotFoundError:  # whatever is removed meanwhile is simply no longer listed
                        continue
                    yield item.name, facts
        except NOT_THERE:
            return
        except OSError as error:
            raise self._failed("list", error) from error

    def names_in(self, prefix: str) -> Sequence[str]:
        """The names of the files directly in a directory; no file is looked at."""
        try:
            with os.scandir(os.path.join(self.path, prefix)) as listing:
                return [item.name for item in listing if not item.is_dir(follow_symlinks=False)]
        except NOT_THERE:
            return []
        except OSError as error:
            raise self._failed("list", error) from error

    def size(self, name: str) -> int:
        try:
            facts = os.stat(self._place(name))
            if not stat.S_ISDIR(facts.st_mode):
                return facts.st_size
            raise NotThere(name)
        except NOT_THERE:
            raise self._not_there(name) from None
        except OSError as error:
            raise self._failed("read", error) from error

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        descriptor, size = self._open(name)
        try:
            return read_exactly(descriptor, offset, max(0, size - offset) if length is None else length)
        except OSError as error:
            raise self._failed("read", error, name) from error
        finally:
            os.close(descriptor)

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        descriptor, _ = self._open(name)
        try:
            while data := os.pread(descriptor, CHUNK, offset):
                yield data
                offset += len(data)
        except OSError as error:
            raise self._failed("read", error, name) from error
        finally:
            os.close(descriptor)

    def write(
        self,
        name: str,
        content: Content,
        *,
        replace: bool = False,
        by_content: bool = False,
        durable: bool = True,
    ) -> None:
        """`by_content`: named by the hash of its bytes; every writer of that name writes the same. Not
        `durable`: for what a power cut may take, or leave empty."""
        place = self._place(name)
        directory = os.path.dirname(place)
        temporary, new = self._temporary(place), False
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
                if durable:
                    sync_file(descriptor)
                if self.mode != _MADE:
                    os.fchmod(descriptor, self.mode)
            finally:
                os.close(descriptor)
            if replace or by_content:
                os.rename(temporary, place)
            else:
                link_once(temporary, place)
            # By content it may be another writer's by now, who was told that it is there.
            new = not there and not by_content
            if durable:
                fsync_directory(directory)
        except FileExistsError:
            remove_quietly(temporary)
            self._sync_taken(directory)
            raise Taken(name) from None
        except OSError as error:
            remove_quietly(temporary)
            if new:  # it may not outlive a power cut, and would later be taken for one that does
                remove_quietly(place)
            raise self._failed("write", error) from error
        except BaseException:
            remove_quietly(temporary)
            raise

    def _sync_taken(self, directory: str) -> None:
        """A name that is there may be of a try that failed at its very end, before it was durable."""
        try:
            fsync_directory(directory)
        except OSError as error:
            raise self._failed("write", error) from error

    def delete(self, name: str, *, durable: bool = True) -> None:
        place = self._place(name)
        try:
            os.unlink(place)
            if durable:
                fsync_directory(os.path.dirname(place))
        except NOT_THERE:
            self._not_there(name)  # fine, unless the whole place is gone
        except OSError as error:
            raise self._failed("delete", error) from error

    def probe(self) -> CredentialRights:
        name = "safekept-probe"
        self.write(name, b"safekept", replace=True)
        self.delete(name)
        return CredentialRights(write=True, overwrite=True, delete=True, versioning=False, write_once=True)

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

    def _temporary(self, place: str) -> str:
        """The name under which a file is written, in the directory of its place."""
        return temporary_name(os.path.dirname(place))

    def _open(self, name: str) -> tuple[int, int]:
        """A descriptor of an object, and its size."""
        try:
            # Others who share the disk may have put a pipe or a link there, on which we must not wait.
            descriptor = open_regular(self._place(name), follow=False)
            return descriptor, os.fstat(descriptor).st_size
        except NOT_THERE:
            raise self._not_there(name) from None
        except NotRegular as error:
            if os.path.isdir(self._place(name)):
                raise NotThere(name) from None
            raise self._failed("read", error, name) from error
        except OSError as error:
            raise self._failed("read", error, name) from error

    def _make(self, temporary: str, directory: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(temporary, flags, _MADE)
        except FileNotFoundError:
            self._root()
            durable_directories(directory, self.path)
            return os.open(temporary, flags, _MADE)

    def _root(self) -> None:
        """See that the root is there."""
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

    def _failed(self, verb: str, error: OSError, name: str = "") -> SafekeptError:
        """The error to raise; `name` where it is about the bytes of one object."""
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return NoRoom(
                f"There is no room left in `{self.path}`: {reason}",
                kept=WHOLE,
                next_steps=("Make room on that disk and run the command again",),
                place=self.path,
            )
        if error.errno in _DENIED:
            advice = "Mount it writable, or make it writable for you, and run it again"
            if verb != "list":
                return refused(self.path, _VERBS[verb], reason, advice)
            directory = os.path.normpath(os.path.join(self.path, error.filename or ""))
            return refused(directory, _VERBS[verb], reason, "Make it readable for you, and run it again")
        lost = unreachable(self.path, reason)
        lost.next_steps = (
            "See that the disk is mounted there and that every part of the path is a directory",
        )
        return lost
