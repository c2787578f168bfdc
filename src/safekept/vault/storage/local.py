"""A vault in a local directory, written as restic's own local backend writes it.

Durable write: a temporary name in the same directory, all bytes, fsync, read-only (0400), rename,
fsync of the directory. Directories are 0700, so nothing is readable by others from the first byte.
The temporary name is `<name>-tmp-<pid>-<space>-<random>`: restic passes it over, and `sweep` removes
what a dead process of this machine left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.files import (
    NoRoom,
    durable_directories,
    fsync_directory,
    kind_of_filesystem,
    link_once,
    read_exactly,
    remove_quietly,
    write_all,
)
from safekept.core.next_step import NextStep
from safekept.core.processes.process import left_behind, owner_mark

from ..errors import UNTOUCHED, VaultDamaged, VaultUnreachable
from .base import DIRECTORIES, AlreadyStored, FileKind, NotStored, Storage, is_name, stored_name

_TEMPORARY = re.compile(r"(?:config|safekept-reserve|[0-9a-f]{64})-tmp-(\d+-[0-9a-f]{8,12}-[0-9a-f]+)")
#: Filesystems that one machine has to itself. Of any other, others may write to it too.
_OWN_DISKS = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs apfs hfs".split())
_LEFT_BEHIND = 600.0  # seconds; a write takes far less
#: Room held back beside `config`, where restic passes it over: a lock, snapshot files with other tags,
#: a few thousand blobs of an index. Without it nobody could prune on a full disk.
RESERVE, _RESERVE_SIZE, _RESERVE_LEAST = "safekept-reserve", 256 << 10, 16 << 10
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LocalStorage(Storage):
    """The files of a vault below one directory."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    @property
    def only_here(self) -> bool:  # type: ignore[override]
        try:
            return kind_of_filesystem(os.stat(self.path).st_dev) in _OWN_DISKS
        except OSError:
            return False

    @property
    def location(self) -> str:
        return self.path

    def create(self) -> None:
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            for kind in DIRECTORIES:
                if kind is FileKind.MARK:
                    continue
                os.makedirs(os.path.join(self.path, kind.value), mode=0o700, exist_ok=True)
            fsync_directory(self.path)
            fsync_directory(os.path.dirname(self.path))
        except OSError as error:
            raise self._failed("made", error) from error

    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        if kind is FileKind.CONFIG:
            if self.exists(kind):
                yield "", self.size(kind)
            return
        directory = os.path.join(self.path, kind.value)
        if kind is not FileKind.PACK:
            yield from self._list_directory(directory)
            return
        try:
            parts = sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failed("listed", error) from error
        for part in parts:
            if len(part) == 2:
                found = self._list_directory(os.path.join(directory, part))
                yield from ((name, size) for name, size in found if name.startswith(part))

    def _list_directory(self, directory: str) -> Iterator[tuple[str, int]]:
        found = []
        try:
            with os.scandir(directory) as listing:
                for item in listing:
                    # A file that another process removes meanwhile is simply no longer listed.
                    if is_name(item.name):
                        with contextlib.suppress(FileNotFoundError):
                            found.append((item.name, item.stat().st_size))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failed("listed", error) from error
        yield from sorted(found)

    def size(self, kind: FileKind, name: str = "") -> int:
        try:
            return os.stat(self._place(kind, name)).st_size
        except (FileNotFoundError, NotADirectoryError):
            raise NotStored(kind, name) from None
        except OSError as error:
            raise self._failed("read", error) from error

    def sizes(self, kind: FileKind, names: Iterable[str]) -> dict[str, int]:
        # A look at each costs less than a listing of 256 directories. One that the disk cannot even
        # describe is as good as gone.
        found = {}
        for name in names:
            with contextlib.suppress(OSError):
                found[name] = os.stat(self._place(kind, name)).st_size
        return found

    def read(self, kind: FileKind, name: str = "", offset: int = 0, length: int | None = None) -> bytes:
        try:
            descriptor = os.open(self._place(kind, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                wanted = os.fstat(descriptor).st_size - offset if length is None else length
                return read_exactly(descriptor, offset, wanted)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise NotStored(kind, name) from None
        except OSError as error:
            raise self._unreadable(kind, name, error) from error

    def read_into(self, buffer: bytearray, kind: FileKind, name: str) -> memoryview:
        try:
            with open(self._place(kind, name), "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if len(buffer) < size:
                    return memoryview(self.read(kind, name))
                view, filled = memoryview(buffer)[:size], 0
                while filled < size and (count := file.readinto(view[filled:])):
                    filled += count
                return view[:filled]
        except (FileNotFoundError, NotADirectoryError):
            raise NotStored(kind, name) from None
        except OSError as error:
            raise self._unreadable(kind, name, error) from error

    def write(self, kind: FileKind, name: str, data: bytes | bytearray | memoryview) -> None:
        place = self._place(kind, name)
        directory = os.path.dirname(place)
        temporary = f"{place}-tmp-{owner_mark()}-{secrets.token_hex(6)}"
        try:
            if os.path.lexists(place):
                raise FileExistsError(place)
            descriptor = self._make(temporary, directory)
            try:
                write_all(descriptor, memoryview(data))
                os.fsync(descriptor)
                os.fchmod(descriptor, 0o400)
            finally:
                os.close(descriptor)
            if kind is FileKind.CONFIG:
                # Two inits at once: a link refuses a taken name atomically, a rename would replace it.
                link_once(temporary, place)
            else:
                # Named by the hash of its bytes: a racing writer of this name writes the same bytes.
                os.rename(temporary, place)
            fsync_directory(directory)
        except FileExistsError:
            remove_quietly(temporary)
            self._sync_taken(directory)
            raise AlreadyStored(kind, name) from None
        except OSError as error:
            remove_quietly(temporary)
            raise self._failed("written", error) from error
        except BaseException:
            remove_quietly(temporary)
            raise

    def _sync_taken(self, directory: str) -> None:
        """A name that is there may be of a try that failed at its very end, before it was durable."""
        try:
            fsync_directory(directory)
        except OSError as error:
            raise self._failed("written", error) from error

    def delete(self, kind: FileKind, name: str) -> None:
        place = self._place(kind, name)
        try:
            os.unlink(place)
            # A lock that reappears after a power cut is stale and known as such; the rest must stay gone.
            if kind is not FileKind.LOCK:
                fsync_directory(os.path.dirname(place))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise self._failed("changed", error) from error

    def written(self, kind: FileKind, name: str) -> float | None:
        try:
            return os.stat(self._place(kind, name)).st_mtime
        except OSError:
            return None

    def room(self) -> tuple[int, int] | None:
        try:
            facts = os.statvfs(self.path)
        except OSError:
            return None
        return facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize

    def keep_reserve(self) -> None:
        place = os.path.join(self.path, RESERVE)
        if os.path.lexists(place):
            return
        room = self.room()
        # Where it was just given up, as much of it as there is; a block or two are for its own directory.
        size = min(_RESERVE_SIZE, room[0] - 8192) if room is not None else 0
        if size < _RESERVE_LEAST:
            return
        temporary = f"{place}-tmp-{owner_mark()}-{secrets.token_hex(6)}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                # Noise: a filesystem that compresses would hold nothing back for zeros.
                write_all(descriptor, os.urandom(size))
            finally:
                os.close(descriptor)
            os.rename(temporary, place)
        except OSError:
            remove_quietly(temporary)

    def give_up_reserve(self) -> bool:
        try:
            os.unlink(os.path.join(self.path, RESERVE))
            fsync_directory(self.path)
        except OSError:
            return False
        return True

    def sweep(self) -> Sequence[str]:
        """Remove the temporary files of processes of this machine that are gone; what was removed."""
        swept = []
        places = [self.path, *(os.path.join(self.path, kind.value) for kind in DIRECTORIES)]
        packs = os.path.join(self.path, FileKind.PACK.value)
        with contextlib.suppress(OSError):
            places += [os.path.join(packs, part) for part in os.listdir(packs) if len(part) == 2]
        for place in places:
            with contextlib.suppress(OSError):
                for name in os.listdir(place):
                    match, path = _TEMPORARY.fullmatch(name), os.path.join(place, name)
                    if match is None:
                        continue
                    changed = os.stat(path).st_mtime
                    if time.time() - changed > _LEFT_BEHIND and left_behind(match[1], changed):
                        os.unlink(path)
                        swept.append(path)
        return swept

    def _place(self, kind: FileKind, name: str) -> str:
        return os.path.join(self.path, stored_name(kind, name))

    def _make(self, temporary: str, directory: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            # A vault whose root is gone (an unmounted drive) must not be rebuilt by a write.
            if not os.path.isdir(self.path):
                raise
            durable_directories(directory, self.path)
            return os.open(temporary, flags, 0o600)

    def _unreadable(self, kind: FileKind, name: str, error: OSError) -> SafekeptError:
        if error.errno == errno.EIO:  # a bad place on the disk: one file, not the vault
            return VaultDamaged.file(stored_name(kind, name), "the disk cannot read it")
        return self._failed("read", error)

    def _failed(self, verb: str, error: OSError) -> SafekeptError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return NoRoom(
                f"There is no room left for the vault at `{self.path}`: {reason}",
                kept="What was stored before is whole; the file that did not fit was removed",
                next_steps=(
                    "Make room on that disk and run the command again",
                    NextStep("snapshot list", before="See what could be forgotten:"),
                ),
                place=self.path,
            )
        return VaultUnreachable(
            f"The vault at `{self.path}` could not be {verb}: {reason}",
            kept="What was stored before is whole" if verb == "written" else UNTOUCHED,
            next_steps=("See that the drive is mounted and that you may use it, then run the command again",),
            place=self.path,
        )
