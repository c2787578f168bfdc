"""A directory tree that is walked by descriptors, so that a link is never followed.

Every name is reached from the base directory one component at a time with O_NOFOLLOW, and all work is done
relative to the parent's descriptor. A link that stands in the way, or is put there while we work, is met as
"not a directory" and never written through. Since no long path is ever handed to the kernel, depth is
not bounded by PATH_MAX either.

Landings and rollbacks stand on this. What they do in which order, so that a kill at any moment can be
taken back, is theirs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import OrderedDict
from types import TracebackType
from typing import Self

from ..platform.descriptors import NAME, WALK, name_of
from .durable import NOT_THERE
from .stable import READ

_OPEN_AT_ONCE = 64
_ELSEWHERE = (".", "..")  # no links, and yet they lead away from where a name says


def change_mode(parent: int, name: str, mode: int) -> None:
    """Give what is under this name a mode: it itself, and never what a link there leads to."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
        return
    # Nothing is opened by this but the name: no lock of a database is dropped, no right to read is needed.
    descriptor = os.open(name, NAME, dir_fd=parent) if NAME is not None else -1
    try:
        place = name_of(descriptor)
        if place:
            os.chmod(place, mode)
        elif stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), name)
        else:  # nothing here can change a mode without following, if a link is put there just now
            os.chmod(name, mode, dir_fd=parent)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _no_name(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class LinkSafeTree:
    """Access below one base directory. Paths are relative and `/`-separated; not for several threads."""

    def __init__(self, base: str, *, make: bool = False, follow: bool = False) -> None:
        """`make`: `parent` makes what is missing on the way, 0700. `follow`: the base may be a link."""
        self.base = base
        self._make = make
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._root = os.open(base, flags if follow else flags | os.O_NOFOLLOW)
        self._open: OrderedDict[str, int] = OrderedDict()  # the one used last is the last
        self._held = ""  # stays open whatever else is opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.forget("")
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def full(self, path: str) -> str:
        """The whole path as text, for messages and for libraries that take nothing else."""
        return f"{self.base.rstrip('/')}/{path}" if path else self.base

    def directory(self, path: str) -> int:
        """The open directory, "" for the base; the descriptor stays ours.

        Raises FileNotFoundError where it or a parent is missing, NotADirectoryError for a file and a link.
        """
        return self._walk(path, make=False)

    def parent(self, path: str) -> tuple[int, str]:
        """The open parent of `path`, and its last name. Raises what `directory` raises."""
        return self._parent(path, self._make)

    def both_parents(self, one: str, other: str) -> tuple[tuple[int, str], tuple[int, str]]:
        """`parent` of two paths, both open: the way to the second, however long, does not close the first."""
        first = self.parent(one)
        self._held = one.rpartition("/")[0]
        try:
            return first, self.parent(other)
        finally:
            self._held = ""

    def look(self, path: str) -> os.stat_result | None:
        """What is under this name, no link followed; None where there is nothing of this tree's."""
        if not path:
            return os.fstat(self._root)
        try:
            parent, name = self._parent(path, make=False)
            return os.stat(name, dir_fd=parent, follow_symlinks=False)
        except NOT_THERE:
            return None
        except OSError as error:
            if error.errno == errno.EILSEQ:  # bytes that this disk has no name for
                return None
            raise

    def open(self, path: str) -> int:
        """A file for reading, never through a link, never waiting for a pipe."""
        parent, name = self.parent(path)
        return os.open(name, READ, dir_fd=parent)

    def link_text(self, path: str) -> bytes:
        parent, name = self.parent(path)
        return os.fsencode(os.readlink(name, dir_fd=parent))

    def unlink(self, path: str) -> None:
        """Remove a name, if it is there; only ever one of ours."""
        with contextlib.suppress(*NOT_THERE):
            parent, name = self.parent(path)
            os.unlink(name, dir_fd=parent)

    def forget(self, path: str) -> None:
        """Let go of a directory that is moved or removed, and of all below it; "" for all."""
        below = path + "/"
        for known in [known for known in self._open if not path or known == path or known.startswith(below)]:
            os.close(self._open.pop(known))

    def _parent(self, path: str, make: bool) -> tuple[int, str]:
        head, _, name = path.rpartition("/")
        if name in _ELSEWHERE:
            raise _no_name(path)
        return self._walk(head, make), name

    def _walk(self, path: str, make: bool) -> int:
        names = []
        while path and path not in self._open:
            path, _, name = path.rpartition("/")
            names.append(name)
        if path:
            self._open.move_to_end(path)
        descriptor = self._open[path] if path else self._root
        while names:
            name = names.pop()
            path = f"{path}/{name}" if path else name
            if name in _ELSEWHERE:
                raise _no_name(path)
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=descriptor)
            descriptor = self._enter(descriptor, name, path)
            self._open[path] = descriptor
            if len(self._open) > _OPEN_AT_ONCE:
                if self._held in self._open:
                    self._open.move_to_end(self._held)
                os.close(self._open.popitem(last=False)[1])
        return descriptor

    def _enter(self, parent: int, name: str, path: str) -> int:
        """Open one directory in another; `path` is its name in this tree."""
        try:
            return os.open(name, WALK, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.ELOOP:  # how some kernels say that it is a link
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
            raise
