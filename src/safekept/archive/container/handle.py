"""The open file of an archive being read: reads by position, from any thread, never past its end."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from safekept.core.archive_names import is_archive_name
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.spelling import near_names

from ..errors import NOTHING_CHANGED, ArchiveNotFound, ArchiveUnreadable, damaged

#: Reads up to this size that follow one another are answered out of one larger read.
_SMALL = 64 << 10
_WINDOW = 512 << 10


class Handle:
    """A descriptor, its size and its name for messages."""

    #: Whether going back is expensive, so that it should be read from front to back.
    in_order = False

    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor
        self.size = os.fstat(descriptor).st_size
        self._open = True
        self._window = (0, b"")  # where the last larger read began, and what it gave
        self._expected = -_WINDOW  # about where the next small read begins, if they follow one another

    def read(self, offset: int, length: int) -> bytes:
        """Exactly that many bytes."""
        data = self.some(offset, length)
        if len(data) != length:
            raise damaged(self.path, "it ends too early")
        return data

    def some(self, offset: int, length: int) -> bytes:
        """That many bytes, or what there is of them."""
        if offset < 0 or offset >= self.size:
            return b""
        if length <= _SMALL:
            # Whatever other threads do to it meanwhile, a window is one whole tuple or another.
            start, data = self._window
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
            if -_SMALL <= offset - self._expected <= _SMALL and offset + _WINDOW <= self.size:
                data = self._pread(offset, _WINDOW)
                self._window, self._expected = (offset, data), offset + _WINDOW
                return data[:length]
            self._expected = offset
        return self._pread(offset, length)

    def start(self, length: int) -> bytes:
        """The first bytes and no more: for a look at what it is, without reading ahead."""
        return self._pread(0, length)

    def _pread(self, offset: int, length: int) -> bytes:
        try:
            data = os.pread(self.descriptor, min(length, self.size - offset), offset)
            if len(data) == length or offset + len(data) >= self.size or not data:
                return data
            # One read gives at most 2 GiB.
            return data + self._pread(offset + len(data), length - len(data))
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def settle(self) -> None:
        """Hear the last word on what was read, where there is one to be had."""

    def close(self) -> None:
        if self._open:
            self._open = False
            with contextlib.suppress(OSError):
                os.close(self.descriptor)


def open_handle(path: str) -> Handle:
    """Open an archive for reading, or say why that is not possible."""
    try:
        # Without O_NONBLOCK a named pipe in the place of an archive would hang us here.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, error) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "is a directory, not an archive" if stat.S_ISDIR(mode) else "is not a regular file"
        raise ArchiveUnreadable(
            f"`{path}` {what}",
            kept=NOTHING_CHANGED,
            next_steps=("Name the archive file itself",),
            path=path,
        )
    try:
        _refuse_led_elsewhere(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return Handle(path, descriptor)


def _refuse_led_elsewhere(path: str, descriptor: int) -> None:
    """As root: where another user decides what a path leads to, it must lead to what is that user's. What
    lands in a home can be read there, so a link could have root fetch what its maker may not read."""
    owner = foreign_owner(path)
    if owner is None or os.fstat(descriptor).st_uid == owner.uid:
        return
    raise ArchiveUnreadable(
        f"The way to `{path}` belongs to `{owner.name}`, the file at its end does not, and this runs as root",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Copy the archive into a directory of root's, and name that copy",
            f"Or run it as that user: put `{owner.in_front}` in front of it",
        ),
        path=path,
        owner=owner.name,
    )


def _unreadable(path: str, error: OSError) -> ArchiveNotFound | ArchiveUnreadable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return ArchiveNotFound(
            f"There is no archive `{path}`",
            kept=NOTHING_CHANGED,
            next_steps=_meant(path) or ("Check the name, and give the whole path",),
            path=path,
        )
    return ArchiveUnreadable(
        f"`{path}` cannot be read: {(error.strerror or str(error)).lower()}",
        kept=NOTHING_CHANGED,
        next_steps=("Check that you may read the file, and that its disk is sound",),
        path=path,
    )


def _meant(path: str) -> tuple[NextStep, ...]:
    """The archives beside it that may have been meant: spelt nearly so, or the same with a date after it,
    the newest date first."""
    directory, typed = os.path.split(os.path.abspath(path))
    try:
        names = sorted((name for name in os.listdir(directory) if is_archive_name(name)), reverse=True)
    except OSError:
        return ()
    start = typed.partition(".")[0]
    near = near_names(names, typed) or [name for name in names if start and name.startswith(start)][:3]
    found = (os.path.join(directory, name) for name in near)
    return tuple(NextStep("import", (one,), before="Did you mean:") for one in found)
