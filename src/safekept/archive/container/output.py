"""The file an archive is written to: nothing under its final name until all of it is proven.

Like `core.files.durable_file`, with three differences that archives need: the final name is chosen at
the end (an incomplete archive may go elsewhere), what is wrong with the disk or the directory becomes
an error a person can act on, and the kernel is asked to start writing early, so that the fsync at the
end of a gigabyte finds little left to do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import Protocol

from safekept.core.errors import SafekeptError
from safekept.core.files import (
    NoRoom,
    fsync_directory,
    rename_to_free_name,
    temporary_name,
    write_all,
)
from safekept.core.next_step import NextStep
from safekept.core.platform.syncing import start_writeback, sync_file

from ..errors import NOTHING_WRITTEN, OutputNotWritable
from .handle import Handle

_WRITEBACK_STEP = 16 << 20


class Target(Protocol):
    """Where an archive is written to: a file as it is, or one that is sealed on the way.

    `offset` is the position in the archive, `stored` the size of the file; they differ under a seal.
    """

    path: str
    directory: str
    offset: int

    @property
    def sealed(self) -> bool:
        """Whether nothing of the archive may lie on the disk in the clear, not even for a while."""

    @property
    def stored(self) -> int: ...

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def complete(self) -> None:
        """The last byte was written."""

    def reopen(self) -> Handle:
        """The archive as the disk gives it back; to be closed by the caller."""

    def finish(self, path: str, replace: bool) -> str: ...

    def discard(self) -> None: ...


class Output:
    """An append-only file under a temporary name, 0600 from its first byte."""

    sealed = False

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.directory = os.path.dirname(self.path)
        self.offset = 0
        self._started = 0
        self._guard = threading.Lock()
        self._open = False
        self._maker = 0  # the process that made the file, while it has no final name
        if os.path.isdir(self.path):
            raise self._not_writable(f"`{self.path}` is a directory")
        self.temporary = temporary_name(self.directory)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._maker = os.getpid()
            self.descriptor = os.open(self.temporary, flags, 0o600)
            self._open = True
            os.fchmod(self.descriptor, 0o600)
        except OSError as error:
            self.discard()
            raise self.explain(error) from error
        except BaseException:  # Ctrl-C right here must not leave the file either
            self.discard()
            raise

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append; a thread that outlived its work can never write into a descriptor that was reused."""
        with self._guard:
            if not self._open:
                raise RuntimeError("the output was closed")
            try:
                write_all(self.descriptor, memoryview(data))
            except OSError as error:
                raise self.explain(error) from error
            self.offset += len(data)
            if self.offset - self._started >= _WRITEBACK_STEP:
                start_writeback(self.descriptor, self._started, self.offset - self._started)
                self._started = self.offset

    @property
    def stored(self) -> int:
        return self.offset

    def complete(self) -> None:
        """The last byte was written; a file as it is needs no end."""

    def reopen(self) -> Handle:
        """What was written, by a descriptor of its own."""
        return Handle(self.path, os.dup(self.descriptor))

    def finish(self, path: str, replace: bool) -> str:
        """Make it durable under its final name; returns that name."""
        try:
            sync_file(self.descriptor)
            if replace:
                os.rename(self.temporary, path)
            else:
                path = rename_to_free_name(self.temporary, path)
        except OSError as error:
            self.discard()
            raise self.explain(error) from error
        self._maker = 0
        self._close()
        fsync_directory(os.path.dirname(os.path.abspath(path)))
        return path

    def discard(self) -> None:
        """Leave nothing behind; may be called twice."""
        self._close()
        if self._maker == os.getpid():
            self._maker = 0
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)

    def __del__(self) -> None:
        # A signal may come between the making and the code that would have discarded it.
        if getattr(self, "_maker", 0):
            self.discard()

    def _close(self) -> None:
        with self._guard:
            if self._open:
                self._open = False
                os.close(self.descriptor)

    def explain(self, error: OSError) -> SafekeptError:
        """The error of the operating system as one that says what to do."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return NoRoom(
                f"There is no room for the archive in `{self.directory}`: {_said(error)}",
                kept=NOTHING_WRITTEN,
                next_steps=(
                    NextStep(
                        "backup", ("-o", "DIRECTORY"), before="Free some space there, or write it elsewhere:"
                    ),
                    NextStep(
                        "backup", ("--dry-run",), before="See what takes the space without writing anything:"
                    ),
                ),
                directory=self.directory,
                written=self.offset,
            )
        if error.errno == errno.ENOENT:
            return self._not_writable(f"The directory `{self.directory}` does not exist")
        if error.errno == errno.ENOTDIR:
            return self._not_writable(f"`{self.directory}` is not a directory")
        return self._not_writable(f"`{self.directory}` cannot be written to: {_said(error)}")

    def _not_writable(self, what: str) -> OutputNotWritable:
        return OutputNotWritable(
            what,
            kept=NOTHING_WRITTEN,
            next_steps=(
                NextStep(
                    "backup",
                    ("-o", "DIRECTORY"),
                    before="Name a directory that exists and that you may write to:",
                ),
            ),
            path=self.path,
        )


def _said(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
