"""Small files: those of others, read with care; and our own, in which something is remembered.

In a project, a home or an archive's neighbourhood any name may turn out to be a pipe without a writer, a
device, a link to either, or a file of a terabyte. Whatever is read there to learn something is read
through here: opening never waits, only regular files count, and no more is read than the caller can use.

What we remember between two commands is one JSON document in a file, replaced whole. One that is torn, of a
later kind or not ours is as good as none.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..errors import BAD_SHAPE
from .durable import NOT_THERE, durable_write, private_directory, quick_write

T = TypeVar("T")

#: Enough for every settings file, ignore file and list that a person or a program keeps.
USUAL = 4 << 20
#: No document of ours comes near this.
_LARGEST = 64 << 20


class NotRegular(OSError):
    """There is something of that name, and it is no regular file."""


class TooLong(OSError):
    """The file is longer than the caller can use."""


def open_regular(path: str | bytes, *, dir_fd: int | None = None, follow: bool = True) -> int:
    """A descriptor of a regular file, for reading. Never waits. Without `follow` a link is not one.

    Raises OSError; NotRegular for a pipe, a device, a socket, a directory.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    # A device may do something when it is opened, so what it is is asked first; and again of what was opened.
    if not stat.S_ISREG(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow).st_mode):
        raise NotRegular(errno.EINVAL, "not a regular file", path)
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegular(errno.EINVAL, "not a regular file", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(
    path: str | bytes, most: int = USUAL, *, dir_fd: int | None = None, follow: bool = True
) -> bytes:
    """All bytes of a regular file. Raises OSError; TooLong where there are more than `most`."""
    data = read_start(path, most + 1, dir_fd=dir_fd, follow=follow)
    if len(data) > most:
        raise TooLong(errno.EFBIG, f"longer than {most} bytes", path)
    return data


def read_start(path: str | bytes, length: int, *, dir_fd: int | None = None, follow: bool = True) -> bytes:
    """The first `length` bytes of a regular file, or all of them where there are fewer."""
    descriptor = open_regular(path, dir_fd=dir_fd, follow=follow)
    try:
        parts, wanted = [], length
        while wanted > 0 and (part := os.read(descriptor, min(wanted, 1 << 20))):
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def is_short(path: str | bytes, most: int = USUAL) -> bool:
    """Whether a name stands for a regular file of at most so many bytes, links followed."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= most


def read_document(path: str, parse: Callable[[Any], T], otherwise: T, *, strict: bool = False) -> T:
    """What `parse` makes of the document in a file of ours; `otherwise` where there is none that fits.

    With `strict` a file that is there and cannot be read is an OSError: for one that writes it again.
    """
    try:
        return parse(json.loads(read_regular(path, _LARGEST)))
    except NOT_THERE:
        return otherwise
    except OSError:
        if strict:
            raise
        return otherwise
    except BAD_SHAPE:
        return otherwise


def read_fields(path: str) -> dict[str, object]:
    """A document as it is; an empty one where there is none."""
    return read_document(path, dict, {})


def write_document(path: str, document: Mapping[str, object], *, durable: bool = True) -> None:
    """Replace it, whole. OSError where that cannot be. Not `durable`: what costs little when it is lost."""
    data = json.dumps(document, indent=1 if durable else None).encode() + b"\n"
    write = durable_write if durable else quick_write
    try:
        write(path, data)
    except FileNotFoundError:
        private_directory(os.path.dirname(path))
        write(path, data)
