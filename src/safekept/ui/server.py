"""The server: this machine only, until half an hour without a request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import uvicorn

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .admission import Admission, PageAddress
from .application import make_application
from .visit import PageOffice
from .watching import PageWatch

LOOPBACK = "127.0.0.1"
#: Seconds without a request after which it ends.
IDLE = 30 * 60.0
#: Seconds that open connections have to end with the server.
_GRACE = 2


class PageNotServed(SafekeptError):
    code = "page-not-served"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How the page is to be served."""

    port: int = 0  # 0: any that is free
    socket: str = ""  # the path of a Unix socket, in place of a port
    address: str = ""  # with a socket: how a browser reaches it
    allow_changes: bool = False
    program: str = "safekept"
    idle: float = IDLE


def serve(request: PageRequest, ready: Callable[[str], None]) -> int:
    """Serve until it is idle, or until a signal; `ready` is given the link. Returns the signal, or 0."""
    with _listening(request) as (listener, address):
        admission = Admission(address)
        office = PageOffice(
            admission, PageWatch(), allow_changes=request.allow_changes, program=request.program
        )
        server = _PageServer(office, request.idle)
        ready(admission.link)
        number = asyncio.run(server.run_until_idle(listener))
    office.board.wait()
    return number


class _PageServer(uvicorn.Server):
    """uvicorn's, which ends by itself."""

    def __init__(self, office: PageOffice, idle: float) -> None:
        self._idle, self._heard, self._signal, self._board = idle, time.monotonic(), 0, office.board
        super().__init__(
            uvicorn.Config(
                make_application(office, self._hear),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_GRACE,
                limit_concurrency=200,
            )
        )

    def _hear(self) -> None:
        self._heard = time.monotonic()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours: uvicorn would raise them again, and the program would end in the middle of its words."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, number)
        yield

    def _end(self, number: int) -> None:
        self._signal, self.should_exit = number, True

    async def run_until_idle(self, listener: socket.socket) -> int:
        watching = asyncio.create_task(self._end_when_idle())
        await self.serve(sockets=[listener])
        watching.cancel()
        return self._signal

    async def _end_when_idle(self) -> None:
        while (left := self._heard + self._idle - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 5.0))
            if self._board.busy:
                self._hear()
        self.should_exit = True


@contextlib.contextmanager
def _listening(request: PageRequest) -> Iterator[tuple[socket.socket, PageAddress]]:
    """A listening socket, and how a browser reaches it."""
    if request.socket:
        with _unix_socket(request.socket) as listener:
            yield listener, _address(request.address or "http://localhost")
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, request.port))
        except OSError as error:
            raise PageNotServed(
                f"Port {request.port} of this machine cannot be used: {error.strerror or error}",
                kept="No page was served",
                next_steps=(NextStep("ui", before="Take any port that is free:"),),
            ) from error
        listener.listen(128)
        yield listener, PageAddress("http", f"{LOOPBACK}:{listener.getsockname()[1]}")


@contextlib.contextmanager
def _unix_socket(path: str) -> Iterator[socket.socket]:
    """Only its owner can connect. A socket without a listener is replaced, nothing else."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            if _is_dead(path):
                os.unlink(path)
            before = os.umask(0o177)
            try:
                listener.bind(path)
            finally:
                os.umask(before)
        except OSError as error:
            raise PageNotServed(
                f"`{path}` cannot be a socket: {error.strerror or error}",
                kept="No page was served; what is there was not touched",
                next_steps=(NextStep("ui", ("--socket", "PATH"), before="Name a path that is free:"),),
            ) from error
        listener.listen(128)
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _is_dead(path: str) -> bool:
    import stat

    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(1.0)
        try:
            trying.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _address(url: str) -> PageAddress:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.netloc and parts.path in ("", "/")
        if good and "@" not in parts.netloc and not parts.query and not parts.fragment:
            return PageAddress(parts.scheme, parts.netloc.lower())
    except ValueError:
        pass
    raise PageNotServed(
        f"`{url}` is no address of a page",
        kept="No page was served",
        next_steps=("Use one such as `http://localhost:8080`: how a browser reaches the proxy",),
    )
