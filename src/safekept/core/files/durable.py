"""Durable files: nothing under a final name is ever half written.

A durable write is: temporary name in the same directory, write, fsync, rename, fsync the
directory.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator

from ..errors import SafekeptError
from ..platform.filesystems import NO_HARD_LINKS
from ..platform.syncing import sync_file
from ..processes.process import left_behind, owner_mark

#: Every temporary file of ours starts like this, so that sweeping can know its own.
TEMPORARY_PREFIX = ".safekept-tmp-"
#: What opening a file says where there is none. Whatever else it says, there may be one.
NOT_THERE = (FileNotFoundError, NotADirectoryError)


class NoRoom(SafekeptError):
    code = "no-room"


def temporary_name(directory: str) -> str:
    """A name beside the final one, owned by this process: `.safekept-tmp-<pid>-<space>-<random>`."""
    return os.path.join(directory, f"{TEMPORARY_PREFIX}{owner_mark()}-{os.urandom(6).hex()}")


def fsync_directory(path: str) -> None:
    """Make the names in a directory durable. Filesystems that cannot say so by an error; that is fine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class DurableFile(io.FileIO):
    """A file under a temporary name; `final_path` says which name it got in the end."""

    final_path: str = ""


@contextlib.contextmanager
def durable_file(path: str, mode: int = 0o600, *, replace: bool = True) -> Iterator[DurableFile]:
    """Write a file that appears under a final name whole and durable, or not at all.

    The file has its mode from the first byte. Leaving the block by an exception removes it. Set
    `final_path` inside the block to choose another name in the same directory. With `replace=False`
    an existing file is never replaced: the next free name (`name-2.zip`) is taken instead.
    """
    directory = os.path.dirname(os.path.abspath(path))
    temporary = temporary_name(directory)
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        os.fchmod(descriptor, mode)
        with DurableFile(descriptor, "r+") as file:
            file.final_path = path
            yield file
            sync_file(file.fileno())
        if replace:
            os.rename(temporary, file.final_path)
        else:
            file.final_path = rename_to_free_name(temporary, file.final_path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # what went wrong first is what is told
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # a write does not know the name of its file, and people want it
        raise
    fsync_directory(directory)


def numbered_name(path: str, number: int) -> str:
    """`a/b.tar.zst`, 2 -> `a/b-2.tar.zst`."""
    directory, name = os.path.split(path)
    stem, dot, suffix = name.partition(".") if not name.startswith(".") else (name, "", "")
    return os.path.join(directory, f"{stem}-{number}{dot}{suffix}")


def rename_to_free_name(temporary: str, path: str) -> str:
    """Give a file its name without ever replacing another; returns the name it got (`name-2.zip`)."""
    candidate, number = path, 1
    while True:
        try:
            link_once(temporary, candidate)
        except FileExistsError:
            number += 1
            candidate = numbered_name(path, number)
        else:
            return candidate


def durable_write(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace the content of a file, atomically and durably."""
    with durable_file(path, mode) as file:
        write_all(file.fileno(), data)


def quick_write(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace the content of a file, atomically and not durably: for what costs little when it is lost."""
    temporary = temporary_name(os.path.dirname(path))
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte; `write` may take fewer than it was given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_exactly(descriptor: int, offset: int, wanted: int) -> bytes:
    """So many bytes from a place on; fewer only where the file ends."""
    data = os.pread(descriptor, wanted, offset) if wanted > 0 else b""
    while 0 < len(data) < wanted:
        more = os.pread(descriptor, wanted - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def remove_quietly(path: str) -> None:
    """Remove a file; whatever keeps it is no error, because something else is more worth telling."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def private_directory(path: str) -> None:
    """Make a directory that only its owner can enter; parents that are missing are made so, too."""
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent and parent != path:  # `makedirs` would give those above the last the usual mode
            private_directory(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def durable_directories(directory: str, root: str) -> None:
    """Make a directory below `root`, and the names on the way to it durable.

    Where that fails they go again, as far as they are empty: found later, they would be taken for durable.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    way = [directory]
    while len(os.path.dirname(way[-1])) > len(root):
        way.append(os.path.dirname(way[-1]))
    try:
        for place in way:
            fsync_directory(os.path.dirname(place))
    except OSError:
        with contextlib.suppress(OSError):
            for place in way:
                os.rmdir(place)
        raise


def sweep_temporaries(directory: str) -> list[str]:
    """Remove temporary files whose process is gone. Only names of our own making are looked at."""
    swept = []
    # Sweeping is a kindness to the disk, and never a reason for what comes after it to fail.
    with contextlib.suppress(OSError), os.scandir(directory) as listing:
        for item in listing:
            if not item.name.startswith(TEMPORARY_PREFIX):
                continue
            with contextlib.suppress(OSError):
                owner = item.name.removeprefix(TEMPORARY_PREFIX)
                if item.is_file(follow_symlinks=False) and left_behind(owner, item.stat().st_mtime):
                    os.unlink(item.path)
                    swept.append(item.path)
    return swept


def free_bytes(path: str) -> int:
    """What an ordinary user may still write on the filesystem of `path`."""
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


def link_once(temporary: str, place: str) -> None:
    """Give a finished file its name, unless the name is taken: FileExistsError, and nothing is replaced."""
    try:
        os.link(temporary, place)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        # Without links a second look has to do.
        if os.path.lexists(place):
            raise FileExistsError(place) from None
        os.rename(temporary, place)
    else:
        # It has its name. A second one that stays is known as temporary, and swept.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
