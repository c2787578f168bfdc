"""The helper: answers hooks and plugins of one user, from a process that has everything loaded.

A thread for each connection, every size bounded, and no request can end it. It ends by itself: after
half an hour without a request, when its socket or data directory is gone, when the code on disk is another,
when it is told to. What it promised to do later is done first.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Mapping

from safekept.core.locks import process_lock
from safekept.core.platform.descriptors import name_of

from ..places import PlaceCache
from .client import MAX_BODY, MAX_HEADER, SOCKET, counts, packed, peer, private_directory, unpacked
from .code import CodeWatch
from .later import LaterWork
from .requests import answer

# The helper's side of the wire: what others send is bounded, and waited for with a deadline.


class BadFrame(Exception):
    """Not what a client of ours sends; the text is for the answer."""


def read_frame(connection: socket.socket, seconds: float) -> tuple[dict[str, str], bytes]:
    """One request. BadFrame where it is none; OSError where the sender went away or is too slow."""
    ends = time.monotonic() + seconds
    lengths = _exactly(connection, 8, ends)
    head, body = int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
    if head > MAX_HEADER or body > MAX_BODY:
        raise BadFrame(f"a request of {head + body:,} bytes is too large")
    try:
        header = unpacked(_exactly(connection, head, ends))
    except ValueError as error:
        raise BadFrame(str(error)) from None
    return header, _exactly(connection, body, ends)


def send_frame(connection: socket.socket, header: dict[str, str], body: bytes = b"") -> None:
    """One answer. What could not be part of a header loses its zero bytes."""
    clean = {key: value.replace("\0", " ") for key, value in header.items()}
    connection.sendall(packed({"safekept": "1", **clean}, body))


def _exactly(connection: socket.socket, count: int, ends: float) -> bytes:
    parts: list[bytes] = []
    while count:
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come whole in time")
        connection.settimeout(left)
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the sender went away")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


IDLE_SECONDS = 1800.0
#: How often it looks whether it is still wanted.
_LOOK = 10.0
#: A request must come whole within this; hooks send theirs at once.
_READING = 10.0
#: An answer that is not taken is dropped after this.
_SENDING = 10.0
_CONNECTIONS = 64
#: For callers and later work that are still being served when it ends.
_LAST_WORK = 120.0
LOCK = "lock"


class Server:
    """One helper. `directory`: where it listens, private to its user."""

    def __init__(
        self,
        directory: str,
        environment: Mapping[str, str],
        idle: float = IDLE_SECONDS,
        code: CodeWatch | None = None,
    ) -> None:
        self.directory, self._idle = directory, idle
        self._environment = dict(environment)
        self._later = LaterWork()
        self._places = PlaceCache(environment, self._later.add)
        self._code = code or CodeWatch()
        self._started, self._asked = time.time(), time.monotonic()
        self._waking, self._wake = os.pipe()
        self._state = threading.Condition()
        self._serving = 0
        self._requests = 0
        self.ending = ""  # why, once it ends

    def warm(self) -> None:
        """Load what the first caller would wait for."""
        import safekept.actions.hosts.calls
        import safekept.actions.hosts.sessions
        import safekept.actions.status.short_status
        import safekept.checkpoints.checkpoints
        import safekept.integrations.home_paths
        import safekept.integrations.hosts
        import safekept.integrations.protect  # noqa: F401

        # The process that started it is most likely the first to ask.
        place = self._places.get({name: value for name, value in self._environment.items() if counts(name)})
        with contextlib.suppress(OSError):
            _ = (place.policy, place.homes, place.forbidden)

    def run(self) -> str:
        """Listen until there is a reason to end; returns it. AlreadyRunning where another one listens."""
        private_directory(self.directory)
        lock = process_lock(os.path.join(self.directory, LOCK), "safekept helper")
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            with lock:
                listener, inode = _listening(self.directory)
                try:
                    self._accept(listener, inode)
                finally:
                    # No new ones; a client that comes now finds no socket, and may start another helper.
                    listener.close()
                    _remove(self.directory, inode)
        return self.ending

    def _accept(self, listener: socket.socket, inode: int) -> None:
        while not self.ending:
            waiting = [listener.fileno(), self._waking]
            ready, _, _ = select.select(waiting, [], [], min(_LOOK, self._idle))
            if listener.fileno() in ready:
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    self._serve(connection)
                continue
            if not self.ending:
                self.ending = self._reason_to_end(inode)

    def _reason_to_end(self, inode: int) -> str:
        if _inode(self.directory) != inode:
            return "its socket is gone"
        if self._code.changed():
            return "the code on disk is another"
        with self._state:
            busy = self._serving or self._later.pending
        if not busy and time.monotonic() - self._asked >= self._idle:
            return "there was no request for a while"
        return ""

    def _serve(self, connection: socket.socket) -> None:
        """In a thread of its own; beyond the bound at once, with the advice to do it oneself."""
        with self._state:
            full = self._serving >= _CONNECTIONS
            self._serving += 1
            self._asked = time.monotonic()
        if not full:
            try:
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()
                return
            except RuntimeError:  # no more threads on this machine
                pass
        with connection, contextlib.suppress(OSError):
            connection.settimeout(0.1)
            send_frame(connection, {"error": "too many at once"})
        self._served()

    def _one(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                if peer(connection) in (None, os.geteuid()):
                    self._conversation(connection)
        finally:
            self._served()

    def _served(self) -> None:
        with self._state:
            self._serving -= 1
            self._asked = time.monotonic()
            self._state.notify_all()

    def _conversation(self, connection: socket.socket) -> None:
        try:
            header, body = read_frame(connection, _READING)
        except BadFrame as error:
            send_frame(connection, {"error": str(error)})
            return
        do = header.get("do", "")
        if do == "status":
            send_frame(connection, self._status())
            return
        if do == "stop":
            send_frame(connection, {"exit": "0", "pid": str(os.getpid())})
            self.end("it was told to")
            return
        if header.get("code", self._code.code) != self._code.code or self._code.changed():
            self.end("the code on disk is another")
            send_frame(connection, {"stale": "1"})
            return
        self._requests += 1
        connection.settimeout(_SENDING)
        send_frame(connection, {"working": "1"})
        with self._later.serving():
            keys, content = answer(header, body, self._places)
        # The caller may have been killed at its timeout; what was done for it stays done.
        connection.settimeout(_SENDING)
        send_frame(connection, keys, content)

    def _status(self) -> dict[str, str]:
        return {
            "exit": "0",
            "pid": str(os.getpid()),
            "code": self._code.code,
            "since": str(int(self._started)),
            "requests": str(self._requests),
            "pending": str(self._later.pending),
        }

    def end(self, why: str) -> None:
        """Take no more requests, finish what was begun, and return from `run`."""
        self.ending = self.ending or why
        with self._state:
            if self._wake >= 0:
                os.write(self._wake, b"x")

    def _close(self) -> None:
        ends = time.monotonic() + _LAST_WORK
        with self._state:
            self._state.wait_for(lambda: not self._serving, max(0.0, ends - time.monotonic()))
        self._later.end(max(0.0, ends - time.monotonic()))
        with self._state:
            os.close(self._waking)
            os.close(self._wake)
            self._wake = -1  # a request to end comes too late now


def _listening(directory: str) -> tuple[socket.socket, int]:
    """A socket under its name, private from the first moment, and its inode."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError(f"{directory} belongs to another user")
        os.fchmod(folder, 0o700)
        new, path = f"{SOCKET}.new", os.path.join(directory, SOCKET)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, new))
        # The path of a data directory may be longer than that of a socket can be.
        listener.bind(os.path.join(name_of(folder) or directory, new))
        os.chmod(os.path.join(directory, new), 0o600)
        listener.listen(128)
        os.rename(os.path.join(directory, new), path)
        return listener, os.stat(path).st_ino
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)


def _inode(directory: str) -> int:
    try:
        return os.stat(os.path.join(directory, SOCKET)).st_ino
    except OSError:
        return -1


def _remove(directory: str, inode: int) -> None:
    with contextlib.suppress(OSError):
        if _inode(directory) == inode:
            os.unlink(os.path.join(directory, SOCKET))
