"""Files of a repository's own directory, put there whole: one of any name, and the index under git's lock."""

from __future__ import annotations

import contextlib
import os

from safekept.core.files import fsync_directory, temporary_name, write_all
from safekept.core.files.tree import LinkSafeTree
from safekept.core.platform.filesystems import NO_HARD_LINKS
from safekept.core.platform.syncing import sync_file

#: What stands in a lock of ours where it cannot be a second name of the draft.
_OURS = b"safekept puts the index back\n"


def put_file(base: str, name: str, data: bytes, mode: int) -> None:
    """A file below a directory, whole under its final name; no link is followed. Raises OSError."""
    with LinkSafeTree(base, make=True) as tree:
        parent, last = tree.parent(name)
        temporary = os.path.basename(temporary_name(base))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=parent)
        try:
            try:
                write_all(descriptor, data)
                os.fchmod(descriptor, mode & 0o777)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, last, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        fsync_directory(os.path.dirname(os.path.join(base, name)))


def put_index(git: str, data: bytes) -> None:
    """The index, under git's own lock: where another git is at work, that one goes first. Raises OSError."""
    lock, place, own = (os.path.join(git, name) for name in ("index.lock", "index", "index.safekept"))
    # A lock that a killed one of ours left is the same file as its draft, or says so; any other is
    # another program's.
    with contextlib.suppress(OSError):
        if _says_ours(lock) or os.path.samestat(os.lstat(lock), os.lstat(own)):
            os.unlink(lock)
    put_file(git, "index.safekept", data, 0o644)
    try:
        try:
            os.link(own, lock)
        except OSError as error:
            if isinstance(error, FileExistsError) or error.errno not in NO_HARD_LINKS:
                raise
            _put_without_links(own, lock, place)
        else:
            os.rename(lock, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(own)
    fsync_directory(git)


def _put_without_links(own: str, lock: str, place: str) -> None:
    """On a disk where a file has one name only, the lock is a file of its own, and says whose it is."""
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, _OURS)
    finally:
        os.close(descriptor)
    try:
        os.rename(own, place)
    finally:
        os.unlink(lock)


def _says_ours(lock: str) -> bool:
    descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, len(_OURS) + 1) == _OURS
    finally:
        os.close(descriptor)
