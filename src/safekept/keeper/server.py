"""The keeper's service: takes connections, and gives each to a process of its own.

Who calls is what the kernel says. A user, and each process of one, has so many connections and no more;
one beyond that is told at once to come again. So thousands of connections of one user keep no
other user waiting. Room is given back at the start and every hour, in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable

from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.platform.descriptors import pipe_without_waiting
from safekept.core.platform.rights import overflow_user
from safekept.core.platform.sockets import peer
from safekept.core.records import dataclass

from .history import Alarm, Manifest
from .pages import Entry
from .room import Put
from .serving import IDLE, Questions
from .store import KeeperLimits, KeeperStore
from .wire import new_socket

#: Connections: of one process, of one user, and of all together.
OF_A_PROCESS, OF_A_USER, OF_ALL = 4, 8, 64
#: A user who has none gets one up to here.
_HARD = 256
#: So many are taken before anything else is looked at.
_AT_ONCE = 256
_HOUR = 3600.0
#: Callers of a keeper that was killed are served to the end, by processes that still hold its lock.
_LAST_CALLERS = 4 * IDLE
_BUSY = b'{"error":"busy","text":"too many connections at once; come again"}'
_UNKNOWN = b'{"error":"unknown-user","text":"the machine of the keeper has no number for this user"}'


@dataclass(frozen=True, slots=True)
class _Caller:
    process: int
    user: int


class KeeperServer:
    """`listener`: a socket that listens already. `idle`: end after so long without a call; 0: never."""

    def __init__(
        self,
        store: KeeperStore,
        listener: socket.socket,
        *,
        idle: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._listener, self._idle, self._clock = store, listener, idle, clock
        self._callers: dict[int, _Caller] = {}  # by the process that serves them
        self._of: Counter[_Caller | int] = Counter()  # connections of a process, and of a user
        self._tidying = 0
        self._ending = False
        self._unknown = overflow_user()

    def run(self) -> None:
        """Serve until SIGTERM, or for a while without a call. AlreadyRunning where one runs."""
        os.umask(0o077)
        self._store.make()
        with process_lock(os.path.join(self._store.directory, "serving"), "safekept keeper", _LAST_CALLERS):
            reading, writing = pipe_without_waiting()
            signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._end)
            self._listener.setblocking(False)
            try:
                self._accept(reading)
            finally:
                for process in [*self._callers, *([self._tidying] if self._tidying else [])]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

    def _end(self, *_: object) -> None:
        self._ending = True

    def _accept(self, wakened: int) -> None:
        next_tidying, last = 0.0, time.monotonic()
        while not self._ending:
            now = time.monotonic()
            if now >= next_tidying and not self._tidying:
                self._tidying, next_tidying = self._apart(self._tidy), now + _HOUR
            if self._callers or self._tidying:
                last = now
            elif self._idle and now - last >= self._idle:
                return
            wait = min(next_tidying - now, self._idle or _HOUR)
            ready, _, _ = select.select([self._listener.fileno(), wakened], [], [], max(0.05, wait))
            if wakened in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wakened, 4096)
                self._reap()
            if self._listener.fileno() in ready:
                with contextlib.suppress(OSError):  # until no caller waits any more
                    for _ in range(_AT_ONCE):
                        self._take(self._listener.accept()[0])

    def _take(self, connection: socket.socket) -> None:
        with connection:
            connection.setblocking(False)
            caller = _Caller(*peer(connection))
            if caller.user == self._unknown:
                _tell(connection, _UNKNOWN)
            elif not self._has_room(caller):
                _tell(connection, _BUSY)
            elif process := self._apart(lambda: self._serve(connection, caller.user)):
                self._callers[process] = caller
                self._of[caller] += 1
                self._of[caller.user] += 1
            else:
                _tell(connection, _BUSY)

    def _has_room(self, caller: _Caller) -> bool:
        of_user = self._of[caller.user]
        if not of_user:
            return len(self._callers) < _HARD
        few = of_user < OF_A_USER and self._of[caller] < OF_A_PROCESS
        return few and len(self._callers) < OF_ALL

    def _apart(self, work: Callable[[], None]) -> int:
        """Do something in a process of its own; its number, 0 where there can be none."""
        try:
            process = os.fork()
        except OSError:
            return 0
        if process:
            return process
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            self._listener.close()
            work()
        except BaseException:  # nothing that a caller does reaches the service
            os._exit(1)
        os._exit(0)

    def _serve(self, connection: socket.socket, user: int) -> None:
        Questions(self._store, connection, user, self._clock).run()

    def _tidy(self) -> None:
        days = self._store.limits.keep_days
        for _, history in self._store.histories():
            # A room that cannot be read is kept as it is.
            with contextlib.suppress(Exception):
                history.give_back(days)

    def _reap(self) -> None:
        while True:
            try:
                process, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            if (caller := self._callers.pop(process, None)) is not None:
                self._of -= Counter({caller: 1, caller.user: 1})
            if process == self._tidying:
                self._tidying = 0


def _tell(connection: socket.socket, packet: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.send(packet)


def load_everything() -> None:
    """Before rights are given away: safekept may be installed where only root can read."""
    import codecs
    import tempfile  # noqa: F401 - these two for a report of what was not foreseen
    import traceback  # noqa: F401

    import safekept.core.files.durable
    import safekept.core.files.small
    import safekept.core.owner.ownership
    import safekept.core.processes.process  # noqa: F401

    codecs.lookup("ascii")  # a codec is loaded when a file is first opened with it
    # Records write their methods when the first object is made.
    KeeperLimits(0), Alarm(), Manifest(0, 0.0, "", 0, 0, 0), Put("", 0, 0), Entry(""), _Caller(0, 0)


def listening(path: str) -> socket.socket:
    """A socket under its name, for everybody on this machine. What a dead keeper left there is replaced.

    Raises AlreadyRunning where a keeper answers there: its callers would no longer find it.
    """
    with new_socket() as probe, contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
        probe.connect(path)
        raise AlreadyRunning(
            f"A keeper is at work already: it answers at `{path}`",
            kept="It goes on as it was",
            next_steps=("Stop that one first, if it is this one that you want",),
        )
    listener = new_socket()
    new = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    listener.bind(new)
    os.chmod(new, 0o666)  # noqa: S103 - who calls is what the kernel says
    listener.listen(256)
    os.rename(new, path)
    return listener
