"""Reading the first bytes of files that may be databases, without harming anyone's locks.

POSIX locks of a process on a file die when that process closes any descriptor of it. So where the
caller might itself have a database open (a plugin inside an agent), looking at its header must
happen in another process. Our own command line holds none and may look for itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
from typing import IO, TYPE_CHECKING

from safekept.core.files.stable import READ
from safekept.core.sqlite.format import HEADER

if TYPE_CHECKING:
    import subprocess


# The files that SQLite keeps beside a database: `-wal`, `-shm`, `-journal`. Beside a real database they
# are left out: what is committed in them travels in the capture. Beside a file that is no database they
# are ordinary files and stay with it. One whose database is missing is left out if it really is
# SQLite's: put down beside another database later, it would be replayed over it and destroy it.

SUFFIXES = ("-wal", "-shm", "-journal")
ORPHAN_REASON = "what is left of a database `{main}` that is not there; beside another one it would damage it"
_MAGIC = {
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    "-shm": (b"\x18\xe2\x2d\x00", b"\x00\x2d\xe2\x18"),
    "-journal": (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",),
}


def main_of(name: str) -> str:
    """The name of the database that a sidecar of this name would belong to, or ""."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""


def sidecars_of(directory: int, name: str) -> tuple[os.stat_result | None, ...]:
    """What lies beside a database that its committed state depends on: its log and its journal."""
    found: list[os.stat_result | None] = []
    for suffix in ("-wal", "-journal"):
        try:
            found.append(os.stat(name + suffix, dir_fd=directory, follow_symlinks=False))
        except OSError:
            found.append(None)
    return tuple(found)


def is_sidecar(directory: int, name: str) -> bool:
    """Whether a file in an open directory begins as SQLite's own sidecars do."""
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except OSError:
        return False
    try:
        head = os.read(descriptor, 8)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return any(
        head.startswith(magic) for suffix in SUFFIXES if name.endswith(suffix) for magic in _MAGIC[suffix]
    )


LENGTH = 16
#: Seconds for sixteen bytes, and once they did not come in that time.
_PATIENCE, _IMPATIENCE = 30.0, 2.0

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
        self._patience = _PATIENCE

    def read(self, directory: int, name: str, path: str) -> bytes:
        """The header of `name` in an open directory; `path` is the same file by its full path."""
        if self.isolated:
            return self._ask(os.fsencode(path))
        try:
            descriptor = os.open(name, READ, dir_fd=directory)
        except OSError:
            return b""  # reading it for real will say why
        try:
            return os.read(descriptor, LENGTH)
        except OSError:
            return b""
        finally:
            os.close(descriptor)

    def _ask(self, path: bytes) -> bytes:
        """By the helper; where it does not answer, by another one. No answer: it may be a database.

        Then it is captured as one, within deadlines of its own. Taken for a plain file it would be read while
        it is being written.
        """
        for _ in range(2):
            if (answer := self._asked_once(path)) is not None:
                return answer
        return HEADER

    def _asked_once(self, path: bytes) -> bytes | None:
        if self._helper is None:
            import subprocess

            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        source, sink = self._pipes()
        with contextlib.suppress(OSError):
            source.write(struct.pack(">I", len(path)) + path)
            source.flush()
            if select.select([sink], [], [], self._patience)[0]:
                answer = sink.read(LENGTH)
                if len(answer) == LENGTH:
                    return answer
        self._patience = _IMPATIENCE  # a disk that hangs once hangs for every file
        self._helper.kill()
        self.close()
        return None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._helper is not None
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        return self._helper.stdin, self._helper.stdout

    def close(self) -> None:
        """End the helper, if there is one; may be called twice."""
        if self._helper is not None:
            for pipe in self._pipes():
                with contextlib.suppress(OSError):
                    pipe.close()
            if not self._ended():
                self._helper.kill()
                self._ended()  # one that the disk holds fast ends with the disk's answer
            self._helper = None

    def _ended(self) -> bool:
        import subprocess

        assert self._helper is not None
        try:
            self._helper.wait(_IMPATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True
