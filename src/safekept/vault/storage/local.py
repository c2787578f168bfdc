"""A vault in a local directory, written as restic's own local backend writes it.

It stands on `core/objects/local.py`, which writes durably: a temporary name in the same directory, all bytes,
fsync, here read-only (0400), rename, fsync of the directory. Directories are 0700, so nothing is readable
by others from the first byte. With a seat belt (`core/files/belt.py`) those that hold
anything but locks are closed while nothing writes.
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
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.files import (
    NoRoom,
    fsync_directory,
    read_exactly,
    remove_quietly,
    write_all,
)
from safekept.core.files.belt import Belt
from safekept.core.next_step import NextStep
from safekept.core.objects import Content, NotThere, Taken
from safekept.core.objects.local import LocalObjects
from safekept.core.platform.filesystems import kind_of_filesystem
from safekept.core.platform.syncing import start_writeback
from safekept.core.processes.process import left_behind, owner_mark

from ..errors import UNTOUCHED, VaultDamaged, VaultUnreachable
from .base import DIRECTORIES, AlreadyStored, FileKind, NotStored, is_name, stored_name
from .objects import ObjectStorage

if TYPE_CHECKING:
    from .batch import FileBatch

_TEMPORARY = re.compile(r"(?:config|safekept-reserve|[0-9a-f]{64})-tmp-(\d+-[0-9a-f]{8,12}-[0-9a-f]+)")
#: Filesystems that one machine has to itself. Of any other, others may write to it too.
_OWN_DISKS = frozenset("ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs tmpfs apfs hfs".split())
_LEFT_BEHIND = 600.0  # seconds; a write takes far less
#: Room held back beside `config`, where restic passes it over: a lock, snapshot files with other tags,
#: a few thousand blobs of an index. Without it a full disk could not be pruned.
RESERVE, _RESERVE_SIZE, _RESERVE_LEAST = "safekept-reserve", 256 << 10, 16 << 10
#: The directories that a seat belt closes, beside the root. Locks stay open, for restic takes one to read.
_CLOSED = ("keys", "snapshots", "index", "data", "data/*", "safekept", "safekept/marks")
_BELT = "safekept/belt"
_LOCKS = f"{FileKind.LOCK.value}/"
#: What could not be done to the vault.
_DONE = {"make": "made", "list": "listed", "read": "read", "write": "written", "delete": "changed"}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _temporary(place: str) -> str:
    return f"{place}-tmp-{owner_mark()}-{secrets.token_hex(6)}"


class VaultFiles(LocalObjects):
    """A directory of objects, with the names, modes and errors of a vault; each write opens what it needs."""

    mode = 0o400

    def __init__(self, path: str, belt: bool | None) -> None:
        super().__init__(path)
        self.belt = Belt(self.path, _CLOSED, _BELT, belt)

    def write(
        self,
        name: str,
        content: Content,
        *,
        replace: bool = False,
        by_content: bool = False,
        durable: bool = True,
    ) -> None:
        self._open_for(name)
        super().write(name, content, replace=replace, by_content=by_content, durable=durable)

    def stage(self, name: str, data: bytes | bytearray | memoryview) -> tuple[str, str, int, str] | None:
        """Write a file under a temporary name and begin to put it on the disk; None where its name is taken.

        For `local_batch.py`: its place, that name, an open descriptor, and its directory where that is new.
        """
        place = self._place(name)
        temporary, descriptor, directory = self._temporary(place), -1, os.path.dirname(place)
        made = ""
        try:
            with self.failing("write"):
                self._open_for(name)
                if os.path.lexists(place):
                    fsync_directory(directory)
                    return None
                if not os.path.isdir(directory) and os.path.isdir(os.path.dirname(directory)):
                    made = directory
                    os.makedirs(directory, mode=0o700, exist_ok=True)
                descriptor = self._make(temporary, directory)
                write_all(descriptor, memoryview(data))
                start_writeback(descriptor, 0, len(data))
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            remove_quietly(temporary)
            if made:
                with contextlib.suppress(OSError):
                    os.rmdir(made)
            raise
        return place, temporary, descriptor, made

    @contextlib.contextmanager
    def failing(self, verb: str) -> Iterator[None]:
        """What the system refuses in here is raised as an error of the vault."""
        try:
            yield
        except OSError as error:
            raise self._failed(verb, error) from error

    def delete(self, name: str, *, durable: bool = True) -> None:
        self._open_for(name)
        super().delete(name, durable=durable)

    def _open_for(self, name: str) -> None:
        """See that a file can be written or deleted in its directory."""
        directory = os.path.dirname(self._place(name))
        if not name.startswith(_LOCKS):
            self.belt.open(directory)
        elif not os.path.isdir(directory):
            self.belt.open(self.path)

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
            raise self._failed("make", error) from error

    def read_into(self, buffer: bytearray, name: str) -> memoryview:
        descriptor, size = self._open(name)
        try:
            if len(buffer) < size:
                return memoryview(read_exactly(descriptor, 0, size))
            view, filled = memoryview(buffer)[:size], 0
            while filled < size and (count := os.readv(descriptor, [view[filled:]])):
                filled += count
            return view[:filled]
        except OSError as error:
            raise self._failed("read", error, name) from error
        finally:
            os.close(descriptor)

    def _place(self, name: str) -> str:
        return f"{self.path}/{name}"  # made by `stored_name`, which looked at it

    def _temporary(self, place: str) -> str:
        return _temporary(place)

    def _root(self) -> None:
        # A vault whose root is gone (an unmounted drive) must not be rebuilt by a write.
        if not self.present():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    def _not_there(self, name: str) -> NotThere:
        return NotThere(name)  # whether there is a vault at all is known from its `config`

    def _failed(self, verb: str, error: OSError, name: str = "") -> SafekeptError:
        reason = error.strerror or str(error)
        if name and error.errno == errno.EIO:  # a bad place on the disk: one file, not the vault
            return VaultDamaged.file(name, "the disk cannot read it")
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
            f"The vault at `{self.path}` could not be {_DONE[verb]}: {reason}",
            kept="What was stored before is whole" if verb == "write" else UNTOUCHED,
            next_steps=("See that the drive is mounted and that you may use it, then run the command again",),
            place=self.path,
        )


class LocalStorage(ObjectStorage):
    """The files of a vault below one directory. `belt`: whether it is to have one; None: as it is."""

    def __init__(self, path: str, belt: bool | None = None) -> None:
        self.files = VaultFiles(path, belt)
        super().__init__(self.files)
        self.path, self.belt = self.files.path, self.files.belt

    @property
    def only_here(self) -> bool:
        try:
            return kind_of_filesystem(os.stat(self.path).st_dev) in _OWN_DISKS
        except OSError:
            return False

    def create(self) -> None:
        self.belt.open(self.path)
        for kind in DIRECTORIES:
            if not os.path.isdir(place := os.path.join(self.path, kind.value)):
                self.belt.open(place)  # one that is made now is closed with the rest
        super().create()

    def close(self) -> None:
        self.belt.let_go()
        super().close()

    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        if kind is FileKind.CONFIG:
            yield from super().list(kind)
        elif kind is FileKind.PACK:
            for part in sorted(name for name, _ in self.files.in_directory("data") if len(name) == 2):
                found = self._listed(f"data/{part}")
                yield from ((name, size) for name, size in found if name.startswith(part))
        else:
            yield from self._listed(kind.value)

    def names(self, kind: FileKind) -> frozenset[str]:
        if kind in (FileKind.CONFIG, FileKind.PACK):
            return super().names(kind)
        return frozenset(filter(is_name, self.files.names_in(kind.value)))

    def _listed(self, directory: str) -> Sequence[tuple[str, int]]:
        found = self.files.in_directory(directory)
        return sorted((name, facts.st_size) for name, facts in found if facts is not None and is_name(name))

    def sizes(self, kind: FileKind, names: Iterable[str]) -> dict[str, int]:
        # A look at each costs less than a listing of 256 directories. One that the disk cannot even
        # describe is as good as gone.
        found = {}
        for name in names:
            with contextlib.suppress(OSError):
                found[name] = os.stat(self._place(kind, name)).st_size
        return found

    def read_into(self, buffer: bytearray, kind: FileKind, name: str) -> memoryview:
        try:
            return self.files.read_into(buffer, stored_name(kind, name))
        except NotThere:
            raise NotStored(kind, name) from None

    def write(self, kind: FileKind, name: str, data: bytes | bytearray | memoryview) -> None:
        try:
            self.files.write(
                stored_name(kind, name),
                data,
                # Two inits at once: the name of `config` is refused where it is taken.
                by_content=kind is not FileKind.CONFIG,
                # A power cut ends every process that a lock of this machine could speak for.
                durable=kind is not FileKind.LOCK or not self.only_here,
            )
        except Taken:
            raise AlreadyStored(kind, name) from None

    def batch(self) -> FileBatch:
        from .local_batch import LocalFileBatch

        return LocalFileBatch(self)

    def delete(self, kind: FileKind, name: str) -> None:
        # A lock that reappears after a power cut is stale and known as such; the rest must stay gone.
        self.files.delete(stored_name(kind, name), durable=kind is not FileKind.LOCK)

    def written(self, kind: FileKind, name: str) -> float | None:
        try:
            return os.stat(self._place(kind, name)).st_mtime
        except OSError:
            return None

    def keep_reserve(self) -> None:
        place = os.path.join(self.path, RESERVE)
        if os.path.lexists(place):
            return
        room = self.room()
        # Where it was just given up, as much of it as there is; a block or two are for its own directory.
        size = min(_RESERVE_SIZE, room[0] - 8192) if room is not None else 0
        if size < _RESERVE_LEAST:
            return
        self.belt.open(self.path)
        temporary = _temporary(place)
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
        self.belt.open(self.path)
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
                        self.belt.open(place)
                        os.unlink(path)
                        swept.append(path)
        return swept

    def _place(self, kind: FileKind, name: str) -> str:
        return os.path.join(self.path, stored_name(kind, name))
