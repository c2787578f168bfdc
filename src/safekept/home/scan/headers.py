"""Reading the first bytes of files that may be databases, without harming anyone's locks.

POSIX locks of a process on a file die when that process closes any descriptor of it. So where the
caller might itself have a database open (a plugin inside an agent), looking at its header must
happen in another process. Our own command line holds none and may look for itself.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

LENGTH = 16
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: The helper: a length and a path in, sixteen bytes (or fewer, padded with `?`) out.
_HELPER = """
import os, struct, sys
source, sink = sys.stdin.buffer, sys.stdout.buffer
while head := source.read(4):
    path = source.read(struct.unpack(">I", head)[0])
    data = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        data = os.read(descriptor, 16)
        os.close(descriptor)
    except OSError:
        pass
    sink.write(data.ljust(16, b"?"))
    sink.flush()
"""


class HeaderReader:
    """Gives the first sixteen bytes of a file; fewer, or none, where it cannot be read."""

    def __init__(self, isolated: bool) -> None:
        self.isolated = isolated
        self._helper: subprocess.Popen[bytes] | None = None

    def read(self, directory: int, name: str, path: str) -> bytes:
        """The header of `name` in an open directory; `path` is the same file by its full path."""
        if self.isolated:
            return self._ask(os.fsencode(path))
        try:
            descriptor = os.open(name, _FLAGS, dir_fd=directory)
        except OSError:
            return b""  # reading it for real will say why
        try:
            return os.read(descriptor, LENGTH)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def _ask(self, path: bytes) -> bytes:
        if self._helper is None:
            import subprocess

            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        source, sink = self._pipes()
        source.write(struct.pack(">I", len(path)) + path)
        source.flush()
        return sink.read(LENGTH)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._helper is not None
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        return self._helper.stdin, self._helper.stdout

    def close(self) -> None:
        """End the helper, if there is one; may be called twice."""
        if self._helper is not None:
            for pipe in self._pipes():
                pipe.close()
            self._helper.wait()
            self._helper = None
