"""Connections to a REST server: kept open, shared by threads, and with an end for every wait.

The standard library's HTTP client waits for each piece alone, so a server that sends a byte a minute could
hold it for ever. Here an answer has to come at a pace.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...records import dataclass
from ..errors import refused, unreachable

if TYPE_CHECKING:
    from ...errors import SafekeptError

_PIECE = 1 << 18
_SLOWEST = 4 << 10  # bytes a second that an answer must reach
#: Seconds for a connection to come about, however patient one is with the answers: a server that is off, or
#: behind a wall that drops what is sent to it, says nothing at all.
CONNECT = 10.0
#: What a place that refuses may say before it is heard.
_MOST_WORDS = 1 << 16


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect to."""

    host: str
    port: int
    secure: bool
    certificates: str = ""  # a file with those that are trusted, in place of the system's

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.secure else 80
        return host if self.port == usual else f"{host}:{self.port}"


class ResponseHead:
    """The head of an answer; the body is read inside the block."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def header(self, name: str) -> str:
        return self._response.getheader(name) or ""

    @property
    def length(self) -> int | None:
        """How many bytes it announces; None where it does not."""
        text = self.header("Content-Length")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None

    def pieces(self) -> Iterator[bytes]:
        """The body; ConnectionError where it ends before what was announced."""
        announced, came = self._response.length, 0
        while data := self._response.read(_PIECE):
            came += len(data)
            yield data
        if announced is not None and came < announced:
            raise ConnectionError("the answer was cut off")


class Connections:
    """The open connections to one server."""

    def __init__(
        self, server: Server, place: str, headers: Mapping[str, str], timeout: float, most: int
    ) -> None:
        self.server, self._place = server, place
        self._headers, self._timeout, self._most = dict(headers), timeout, most
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def ask(
        self, method: str, path: str, body: memoryview | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[ResponseHead]:
        """One question; what is left of the answer is read after the block, and the connection kept."""
        connection = self._take()
        keep = False
        try:
            answer = self._send(connection, method, path, body, headers or {})
            yield answer
            for number, _ in enumerate(answer.pieces()):
                if number * _PIECE > _MOST_WORDS:
                    break
            else:
                keep = connection.sock is not None
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None
        finally:
            if keep:
                keep = self._give_back(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send(
        self,
        connection: _Connection,
        method: str,
        path: str,
        body: memoryview | None,
        headers: Mapping[str, str],
    ) -> ResponseHead:
        sent = {**headers, **self._headers}
        if body is not None:
            sent["Content-Length"] = str(len(body))
        try:
            # In pieces: a timeout counts for what is sent at once, and a pack over a slow line takes minutes.
            connection.request(method, path, _in_pieces(body) if body is not None else None, sent)
        except (BrokenPipeError, ConnectionResetError):
            # Refused before everything was sent: the answer may be here already.
            return ResponseHead(connection.getresponse())
        return ResponseHead(connection.getresponse())

    def _take(self) -> _Connection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.close()
        return _Connection(self.server, self._timeout)

    def _give_back(self, connection: _Connection) -> bool:
        with self._lock:
            if len(self._idle) >= self._most:
                return False
            self._idle.append(connection)
            return True

    def _lost(self, error: Exception) -> SafekeptError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return refused(
                self._place,
                "connect",
                f"its certificate is not trusted: {error.verify_message}",
                "If it is the server's own, name a file with it: `ca_file` in the table, or `RESTIC_CACERT`",
            )
        return unreachable(self._place, _reason(error))


def _reason(error: Exception) -> str:
    """In our words: those of a library may repeat what was sent."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as expected"
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead | ConnectionError):
        return "the connection was cut"
    if isinstance(error, http.client.HTTPException):
        return "its answer is not HTTP"
    return error.strerror or "the connection was cut" if isinstance(error, OSError) else "no answer"


def _in_pieces(body: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]


class _Connection(http.client.HTTPConnection):
    def __init__(self, server: Server, timeout: float) -> None:
        super().__init__(server.host, server.port, timeout=timeout)
        self._server = server
        self.response_class = self._response  # type: ignore[assignment]

    def connect(self) -> None:
        patience = self.timeout or 60.0
        self.timeout = min(patience, CONNECT)
        try:
            super().connect()
            if self._server.secure:
                context = ssl.create_default_context(cafile=self._server.certificates or None)
                self.sock = context.wrap_socket(self.sock, server_hostname=self._server.host)
        finally:
            self.timeout = patience
        self.sock.settimeout(patience)

    def usable(self) -> bool:
        """Whether the other side has neither closed it nor said anything unasked meanwhile."""
        if self.sock is None:
            return False
        look = select.poll()
        look.register(self.sock, select.POLLIN)
        return not look.poll(0)

    def _response(self, sock: socket.socket, *given: Any, **options: Any) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(_Paced(sock, self.timeout or 60.0), *given, **options)  # type: ignore[arg-type]


class _Paced:
    """A socket whose answer has to come at a pace, however many pieces it comes in."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._sock, self._timeout = sock, timeout

    def makefile(self, *_: object) -> io.BufferedReader:
        return io.BufferedReader(_PacedReader(self._sock, self._timeout), 1 << 16)


class _PacedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._sock, self._timeout = sock, timeout
        self._file = sock.makefile("rb", buffering=0)
        self._waited, self._came = 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._timeout + self._came / _SLOWEST - self._waited
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._sock.settimeout(min(left, self._timeout))
        began = time.monotonic()
        count = self._file.readinto(buffer)
        self._waited += time.monotonic() - began  # what our own side did in between is not the server's
        self._sock.settimeout(self._timeout)
        self._came += count or 0
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
