"""Keep, move, copy and remove single things between trees, on one filesystem or across two.

On one filesystem a thing moves by rename. Across filesystems it is copied under a temporary name
in the destination's directory, made durable, and renamed: whatever carries a final name is whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from safekept.core.entries import CHUNK
from safekept.core.files import write_all
from safekept.core.files.tree import change_mode
from safekept.core.platform.filesystems import NO_HARD_LINKS
from safekept.core.platform.syncing import sync_file

from ..tree import LandingTree

_NO_LINKS = NO_HARD_LINKS | {errno.EXDEV}
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def same_thing(first: os.stat_result, second: os.stat_result) -> bool:
    """One object under two names, or, across filesystems, an untouched copy of it."""
    if first.st_dev == second.st_dev:
        return first.st_ino == second.st_ino
    if (first.st_mode, first.st_mtime_ns) != (second.st_mode, second.st_mtime_ns):
        return False
    return stat.S_ISDIR(first.st_mode) or first.st_size == second.st_size


def link(source: LandingTree, path: str, destination: LandingTree, name: str) -> bool:
    """A second name for one file or link; False where the filesystem has no such thing.

    Raises FileExistsError where the name is taken: nothing is overwritten.
    """
    (source_parent, source_name), (parent, last) = source.parent(path), destination.parent(name)
    try:
        os.link(source_name, last, src_dir_fd=source_parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise _named(error, (source, path), (destination, name)) from error
    return True


def rename(source: LandingTree, path: str, destination: LandingTree, name: str) -> bool:
    """Move by rename, over what is there; False where the two are on different filesystems.

    After moving a directory the trees must forget it; `move` does that.
    """
    (source_parent, source_name), (parent, last) = source.parent(path), destination.parent(name)
    try:
        os.rename(source_name, last, src_dir_fd=source_parent, dst_dir_fd=parent)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise _named(error, (source, path), (destination, name)) from error
    return True


def _named(error: OSError, *places: tuple[LandingTree, str]) -> OSError:
    """The same error about the place that cannot be written, by its whole path; else about the last one."""
    place = ""
    for tree, path in places:
        place = tree.full(path)
        if not os.access(os.path.dirname(place), os.W_OK | os.X_OK):
            break
    return OSError(error.errno, error.strerror, place)


def copy_beside(source: LandingTree, path: str, destination: LandingTree, name: str, temporary: str) -> None:
    """Copy to a temporary name in the directory of `name`; the caller renames it."""
    from_parent, from_name = source.parent(path)
    parent, _ = destination.parent(name)
    _discard(parent, temporary)
    _copy(from_parent, from_name, parent, temporary)


def copy(source: LandingTree, path: str, destination: LandingTree, name: str, temporary: str) -> None:
    """Copy a file, a link or a whole directory; it appears under `name` whole and durable."""
    copy_beside(source, path, destination, name, temporary)
    name_it(destination, name, temporary)


def name_it(tree: LandingTree, path: str, temporary: str) -> None:
    """Rename a temporary name to the final one, durably: another filesystem than the home's is not
    covered by the one sync at the end."""
    parent, last = tree.parent(path)
    os.rename(temporary, last, src_dir_fd=parent, dst_dir_fd=parent)
    _sync(parent)


def move(source: LandingTree, path: str, destination: LandingTree, name: str, temporary: str) -> None:
    """Rename, or copy and then remove."""
    if not rename(source, path, destination, name):
        copy(source, path, destination, name, temporary)
        # Out of the way at once, and only then removed: what has its own name is never half a tree.
        parent, last = source.parent(path)
        os.rename(last, temporary, src_dir_fd=parent, dst_dir_fd=parent)
        _sync(parent)
        source.forget(path)
        remove(source, beside(path, temporary))
    source.forget(path)
    destination.forget(name)


def duplicate(source: LandingTree, path: str, destination: LandingTree, name: str) -> None:
    """A second tree that shares the bytes of its files where links are possible, and copies where not."""
    from_parent, from_name = source.parent(path)
    parent, last = destination.parent(name)
    _copy(from_parent, from_name, parent, last, share=True)


def beside(path: str, name: str) -> str:
    """Another name in the same directory."""
    head = path.rpartition("/")[0]
    return f"{head}/{name}" if head else name


def remove(tree: LandingTree, path: str) -> None:
    """Remove a file, a link or a whole directory; one that is gone already is fine."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        parent, name = tree.parent(path)
        if _discard(parent, name):
            tree.forget(path)


def discard(path: str) -> None:
    """Remove a file or directory of our own by its full path, read-only directories included."""
    parent, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _discard(descriptor, name)
        finally:
            os.close(descriptor)


def _sync(parent: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def _discard(parent: int, name: str) -> bool:
    """Remove whatever it is; True where it was a directory."""
    try:
        os.unlink(name, dir_fd=parent)
        return False
    except FileNotFoundError:
        return False
    except (IsADirectoryError, PermissionError):
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            raise
    descriptor = _open_to_empty(parent, name)
    try:
        for child in os.listdir(descriptor):
            _discard(descriptor, child)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)
    return True


def _open_to_empty(parent: int, name: str) -> int:
    """A directory, open, with the rights that emptying it needs; never a link that took its place."""
    if os.geteuid() != 0:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if facts.st_mode & 0o700 != 0o700:
            change_mode(parent, name, 0o700)
    return os.open(name, _READ | os.O_DIRECTORY, dir_fd=parent)


def _copy(from_parent: int, from_name: str, parent: int, name: str, share: bool = False) -> None:
    facts = os.stat(from_name, dir_fd=from_parent, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode):
        _copy_directory(from_parent, from_name, parent, name, share)
    elif share and _shared(from_parent, from_name, parent, name):
        return
    elif stat.S_ISLNK(facts.st_mode):
        os.symlink(os.readlink(from_name, dir_fd=from_parent), name, dir_fd=parent)
    elif stat.S_ISREG(facts.st_mode):
        _copy_file(from_parent, from_name, parent, name)
    else:
        return  # sockets, pipes and devices have no bytes to keep
    _set_metadata(parent, name, facts)


def _shared(from_parent: int, from_name: str, parent: int, name: str) -> bool:
    try:
        os.link(from_name, name, src_dir_fd=from_parent, dst_dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def _copy_directory(from_parent: int, from_name: str, parent: int, name: str, share: bool) -> None:
    os.mkdir(name, 0o700, dir_fd=parent)
    source = os.open(from_name, _READ | os.O_DIRECTORY, dir_fd=from_parent)
    try:
        made = os.open(name, _READ | os.O_DIRECTORY, dir_fd=parent)
        try:
            for child in os.listdir(source):
                _copy(source, child, made, child, share)
        finally:
            os.close(made)
    finally:
        os.close(source)


def _copy_file(from_parent: int, from_name: str, parent: int, name: str) -> None:
    source = os.open(from_name, _READ, dir_fd=from_parent)
    try:
        made = os.open(name, _CREATE, 0o600, dir_fd=parent)
        try:
            while data := os.read(source, CHUNK):
                write_all(made, data)
            sync_file(made)
        finally:
            os.close(made)
    finally:
        os.close(source)


def _set_metadata(parent: int, name: str, facts: os.stat_result) -> None:
    """Owner, mode and time as they were on the original."""
    if os.geteuid() == 0:
        os.chown(name, facts.st_uid, facts.st_gid, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISLNK(facts.st_mode):
        change_mode(parent, name, stat.S_IMODE(facts.st_mode))
    os.utime(name, ns=(facts.st_atime_ns, facts.st_mtime_ns), dir_fd=parent, follow_symlinks=False)
