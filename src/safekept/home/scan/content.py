"""Reading plain files while an agent goes on writing them.

A file of up to 8 MiB is read whole, looked at again, and read again if it changed meanwhile; a
larger one is streamed up to the size it had when it was opened, its holes unread. What was promised
as `size` is what comes, or EntryLost says why not. A log that only grew is stored as it was; a file that was
rewritten under our eyes is stored and marked. Links are never followed, also not above the file.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator

from safekept.core.entries import CHUNK, ZEROS, Content, EntryLost, Outcome, Remark
from safekept.core.files.stable import READ, read_once, settled
from safekept.core.files.tree import LinkSafeTree
from safekept.core.platform.copying import knows_holes, next_data

#: Up to this size a file is read whole, so that a change while reading can be mended by reading again.
WHOLE = 8 << 20
_ATTEMPTS = 3
#: A file beyond this that takes much less room on disk is worth a line: it may fill the disk it lands on.
#: A list of the pieces of a file must fit into memory: no more holes than this are kept of one.
MOST_HOLES = 4 << 40
_HUGE = 10 * 10**9
_REPLACED = (errno.ELOOP, errno.ENOTDIR, errno.ENOENT, errno.ENXIO, errno.ESTALE)


class PlainContent(Content):
    """A file as it lies; `head` begins with its first sixteen bytes."""

    head: bytes


class WholeContent(PlainContent):
    """A small file, already read."""

    def __init__(self, data: bytes, mtime_ns: int) -> None:
        self.remarks = []
        self.database = None
        self.data = self.head = data
        self.size = len(data)
        self.mtime_ns = mtime_ns

    def chunks(self) -> Iterator[bytes]:
        data = self.data
        if self.size <= CHUNK:
            if data:
                yield data
            return
        for start in range(0, self.size, CHUNK):
            yield data[start : start + CHUNK]

    def close(self) -> None:
        self.data = self.head = b""


class StreamedContent(PlainContent):
    """A large file, read as it is taken, to the size it had at first."""

    def __init__(self, path: str, descriptor: int, status: os.stat_result, expected: bool) -> None:
        super().__init__()
        self.path = path
        self.descriptor = descriptor
        self.status = status
        self.expected = expected  # a layout expects a database here
        self.head = os.pread(descriptor, 16, 0)
        self.size = status.st_size
        self.mtime_ns = status.st_mtime_ns
        allocated = status.st_blocks * 512
        self.sparse = allocated < self.size and knows_holes()
        self.holes = max(0, self.size - allocated) if self.sparse else 0
        if self.holes > MOST_HOLES:
            raise EntryLost(Remark(path, Outcome.UNREADABLE, _too_many_holes(self.size, allocated)))
        if self.size > _HUGE and allocated < self.size // 2:
            reason = (
                f"is {amount(self.size)} long and takes {amount(allocated)} on disk: most of it are holes"
            )
            self.remarks.append(Remark(path, Outcome.NOTED, reason, bytes=self.size))

    def chunks(self) -> Iterator[bytes]:
        position, zeros, hole = 0, self.expected, 0
        try:
            while position < self.size:
                wanted = min(CHUNK, self.size - position)
                if self.sparse and position + wanted > hole:
                    hole = self._end_of_hole(position)
                if position + wanted <= hole:
                    data = ZEROS if wanted == CHUNK else ZEROS[:wanted]
                else:
                    data = os.pread(self.descriptor, wanted, position)
                if not data:
                    raise EntryLost(self._shorter(position))
                position += len(data)
                zeros = zeros and (data is ZEROS or not data.strip(b"\0"))
                yield data
            after = os.fstat(self.descriptor)
        except OSError as error:
            raise EntryLost(unreadable(self.path, error)) from error
        if self.expected:
            self.remarks.append(not_a_database(self.path, self.size, zeros))
        rewritten = after.st_mtime_ns != self.mtime_ns and after.st_size == self.size
        if rewritten or after.st_size < self.size:
            self.remarks.append(
                Remark(
                    self.path,
                    Outcome.CHANGED,
                    "was rewritten while it was read; stored, but it may mix old and new",
                    bytes=self.size,
                )
            )

    def _end_of_hole(self, position: int) -> int:
        """Up to where the filesystem keeps nothing, so that all bytes are zeros."""
        try:
            return next_data(self.descriptor, position)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end, unless the end has moved
                return self.size if os.fstat(self.descriptor).st_size >= self.size else position
            self.sparse = False  # this filesystem does not tell
            return position

    def _shorter(self, got: int) -> Remark:
        reason = f"became shorter while it was read ({got} of {self.size} bytes came)"
        return Remark(self.path, Outcome.CHANGED, reason, bytes=self.size)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _too_many_holes(size: int, allocated: int) -> str:
    return (
        f"not stored: it is {amount(size)} long and takes {amount(allocated)} on disk; "
        f"more than {amount(MOST_HOLES)} of holes are not kept"
    )


def open_plain(base: str, relative: str, path: str, inode: int, expected: bool = False) -> PlainContent:
    """Open a plain file below `base` (which ends in `/`); `path` is its name in remarks.

    `inode` is what the scan saw. Another one is fine (programs replace files by renaming), but then
    the way to it is walked again without following any link.
    """
    full = base + relative
    earlier = None
    if expected and (nothing := _empty(full)) is not None:
        nothing.remarks.append(not_a_database(path, 0, False))
        return nothing
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(full, READ)
        except OSError as error:
            descriptor = _open_otherwise(base, relative, path, error)
        try:
            status = os.fstat(descriptor)
            if status.st_ino != inode:
                os.close(descriptor)
                descriptor = -1
                descriptor = open_beneath(base, relative, path)
                status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise EntryLost(Remark(path, Outcome.GONE, "is no longer a file"))
            if status.st_size > WHOLE:
                content = StreamedContent(path, descriptor, status, expected)
                descriptor = -1
                return content
            data, stable = _read_whole(descriptor, status)
        except OSError as error:
            raise EntryLost(unreadable(path, error)) from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if stable:
            break
        grew = earlier is None or data.startswith(earlier)
        earlier = data
    whole = WholeContent(data, status.st_mtime_ns)
    if not stable and not grew:
        whole.remarks.append(
            Remark(
                path,
                Outcome.CHANGED,
                f"was rewritten each of the {_ATTEMPTS} times it was read; stored, perhaps mixed",
                bytes=len(data),
            )
        )
    if expected:
        whole.remarks.append(not_a_database(path, len(data), not data.strip(b"\0")))
    return whole


def _read_whole(descriptor: int, before: os.stat_result) -> tuple[bytes, bool]:
    """The bytes up to the size first seen, and whether nothing changed meanwhile."""
    data, _, same = read_once(descriptor, before)
    if not same:
        return data[: before.st_size], False
    if data and not settled(before.st_mtime_ns, time.time_ns()):
        return data, os.pread(descriptor, len(data) + 1, 0) == data
    return data, True


def _empty(full: str) -> WholeContent | None:
    """An empty file, known without opening it: someone may hold locks on a database to be."""
    try:
        status = os.lstat(full)
    except OSError:
        return None
    empty = stat.S_ISREG(status.st_mode) and status.st_size == 0
    return WholeContent(b"", status.st_mtime_ns) if empty else None


def _open_otherwise(base: str, relative: str, path: str, error: OSError) -> int:
    if error.errno == errno.ENAMETOOLONG:  # a path may be longer than one call takes
        return open_beneath(base, relative, path)
    if error.errno in _REPLACED:
        raise EntryLost(Remark(path, Outcome.GONE, "vanished between the scan and the read")) from error
    raise EntryLost(unreadable(path, error)) from error


def open_beneath(base: str, relative: str, path: str) -> int:
    """Open a file going down one directory at a time, so that no link can lead elsewhere."""
    try:
        with LinkSafeTree(base, follow=True) as tree:
            return tree.open(relative)
    except OSError as error:
        if error.errno in _REPLACED:
            raise EntryLost(Remark(path, Outcome.GONE, "vanished between the scan and the read")) from error
        raise EntryLost(unreadable(path, error)) from error


def unreadable(path: str, error: OSError) -> Remark:
    """The remark for what exists and cannot be read."""
    return Remark(path, Outcome.UNREADABLE, f"cannot be read: {error.strerror or error}")


def not_a_database(path: str, size: int, zeros: bool) -> Remark:
    """The remark for a file that should be a database and is none: stored as it is."""
    name = path.rsplit("/", 1)[-1]
    if size == 0:
        what = "is empty (0 bytes)"
    elif zeros:
        what = f"is {amount(size)} of zero bytes"
    else:
        what = f"is {amount(size)} of something else"
    return Remark(path, Outcome.DAMAGED, f"{name} should be a database and {what}", bytes=size)


def amount(size: int) -> str:
    """12,400,000 -> `12.4 MB`."""
    for unit, power in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= power:
            return f"{size / power:.3g} {unit}"
    return f"{size} bytes"
