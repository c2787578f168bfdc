"""Proxies that lie, cut, stall and refuse, between safekept and a real server.

`FaultProxy` understands HTTP: it sits before the S3 server and asks a rule for every request. A rule is a
function from a Request to a Fault or None (let it through); `proxy.rule = at(3, Status(503))` fails the
third request, `each(...)` all that match. `proxy.append_only()` is a policy instead of an accident: DELETE
and a PUT of a name that exists are answered with 403, as with a credential that can only add.

`CutProxy` knows bytes only: it sits before the SSH server and cuts or stalls after so many of them.

Nothing here waits for time to pass, except a stall, which ends when the client gives up or the proxy ends.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import socketserver
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    """What the client asks, before anybody answered."""

    number: int  # from 1
    method: str
    path: str  # with the query
    headers: dict[str, str] = field(repr=False)
    size: int  # of the body

    @property
    def name(self) -> str:
        """The object's place below the bucket: `prefix/data/ab/…`; "" for requests about the bucket."""
        parts = urllib.parse.unquote(self.path.partition("?")[0]).split("/", 2)
        return parts[2] if len(parts) > 2 else ""

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "list-type" in self.path


class Fault:
    """What goes wrong with one request."""


@dataclass(frozen=True)
class Status(Fault):
    """The server is not asked; this is the answer."""

    status: int
    code: str = ""
    message: str = "planted"


@dataclass(frozen=True)
class CutRequest(Fault):
    """The connection ends after so many bytes of the body came in; the server sees none of it."""

    after: int = 0


@dataclass(frozen=True)
class CutAnswer(Fault):
    """The server did it, and the answer is cut after so many bytes (0: nothing of it arrives)."""

    after: int = 0


@dataclass(frozen=True)
class Silence(Fault):
    """Nothing is answered until the client goes away; `done`: the server did it all the same."""

    done: bool = False


@dataclass(frozen=True)
class FlipRequest(Fault):
    """One bit of the body changes on its way to the server, which signs and stores what it got."""

    at: int = 0


@dataclass(frozen=True)
class FlipAnswer(Fault):
    """One bit of the answer's body changes."""

    at: int = 0


@dataclass(frozen=True)
class ShortAnswer(Fault):
    """The answer's body ends early and its length says so: a truncated object."""

    size: int = 0


@dataclass(frozen=True)
class Swap(Fault):
    """Another object's content is given: a swapped or, with what was there before, a stale one."""

    body: bytes


@dataclass(frozen=True)
class Header(Fault):
    """One header of the answer says something else."""

    name: str
    value: str


Rule = Callable[[Request], Fault | None]


def at(number: int, fault: Fault) -> Rule:
    """The Nth request of all goes wrong."""
    return lambda request: fault if request.number == number else None


def each(fault: Fault, *, method: str = "", name: str = "", times: int = 1 << 30) -> Rule:
    """Requests of that method whose object's name contains `name` go wrong, so many times."""
    left = [times]

    def rule(request: Request) -> Fault | None:
        if (method and request.method != method) or name not in request.name or not left[0]:
            return None
        left[0] -= 1
        return fault

    return rule


def let_through(request: Request) -> Fault | None:
    """Nothing goes wrong."""
    return None


class FaultProxy:
    """An HTTP proxy before `backend` (`127.0.0.1:PORT`); use it as a context manager."""

    def __init__(self, port: int) -> None:
        self.rule: Rule = let_through
        self.requests: list[Request] = []
        self._backend = port
        self._append_only = False
        self._lookers: dict[str, Callable[[str], bool]] = {}
        self._lock = threading.RLock()  # a rule may count
        self._ended = threading.Event()
        self._sockets: set[socket.socket] = set()
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with proxy._lock:
                    proxy._sockets.add(self.request)
                with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                    proxy._converse(self.request)
                with proxy._lock:
                    proxy._sockets.discard(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def append_only(self, on: bool = True) -> None:
        """Answer DELETE, and PUT of a name that exists, with 403."""
        self._append_only = on

    def count(self, method: str = "", name: str = "") -> int:
        with self._lock:
            return sum(
                1 for one in self.requests if (not method or one.method == method) and name in one.name
            )

    def reset(self) -> None:
        """Let everything through, and count from 1 again."""
        with self._lock:
            self.rule = let_through
            self.requests.clear()

    # ── one connection ─────────────────────────────────────────────────────────────────────────────

    def _converse(self, client: socket.socket) -> None:
        stream = client.makefile("rb")
        with contextlib.closing(stream):
            while not self._ended.is_set():
                line = stream.readline(65536)
                if not line:
                    return
                method, path, _ = line.decode("latin-1").split()
                headers = dict(http.client.parse_headers(stream).items())
                size = int(next((v for k, v in headers.items() if k.lower() == "content-length"), "0"))
                with self._lock:
                    request = Request(len(self.requests) + 1, method, path, headers, size)
                    self.requests.append(request)
                    fault = self.rule(request)
                if isinstance(fault, CutRequest):
                    stream.read(min(fault.after, size))
                    client.shutdown(socket.SHUT_RDWR)
                    return
                body = stream.read(size) if size else b""
                if len(body) < size:
                    return
                if fault is None and self._append_only and self._takes_away(request):
                    fault = Status(403, "AccessDenied", "Access Denied")
                if not self._serve(client, request, body, fault):
                    with contextlib.suppress(OSError):
                        client.shutdown(socket.SHUT_RDWR)
                    return

    def _takes_away(self, request: Request) -> bool:
        """Whether a request deletes or replaces what is stored."""
        if request.method == "DELETE" or (request.method == "POST" and "?delete" in request.path):
            return True
        if request.method not in ("PUT", "POST") or not request.name:
            return False
        bucket = urllib.parse.unquote(request.path).split("/")[1]
        return self._looker(bucket)(request.name)

    def _serve(self, client: socket.socket, request: Request, body: bytes, fault: Fault | None) -> bool:
        """Answer one request; False where the connection is to end."""
        if isinstance(fault, Status):
            self._send(client, fault.status, [("Content-Type", "application/xml")], _error(fault), request)
            return True
        if isinstance(fault, Silence) and not fault.done:
            self._hold(client)
            return False
        if isinstance(fault, FlipRequest) and body:
            body = _flipped(body, fault.at)
        status, headers, answer = self._ask(request, body)
        if isinstance(fault, Silence):
            self._hold(client)
            return False
        if isinstance(fault, FlipAnswer) and answer:
            answer = _flipped(answer, fault.at)
        elif isinstance(fault, ShortAnswer):
            answer = answer[: fault.size]
        elif isinstance(fault, Swap):
            answer = fault.body
        elif isinstance(fault, Header):
            headers = [(k, v) for k, v in headers if k.lower() != fault.name.lower()]
            headers.append((fault.name, fault.value))
        if isinstance(fault, CutAnswer):
            self._send(client, status, headers, answer, request, most=fault.after)
            return False
        self._send(client, status, headers, answer, request)
        return True

    def _ask(self, request: Request, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """The real server's answer. The Host header stays: it is signed."""
        connection = http.client.HTTPConnection("127.0.0.1", self._backend, timeout=300)
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read()
            kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding",)]
            return answer.status, kept, data
        finally:
            connection.close()

    def _looker(self, bucket: str) -> Callable[[str], bool]:
        """Looks whether an object is there, past the rules and with a signature of its own."""
        import obstore
        from obstore.store import S3Store

        from support.offsite.servers import KEY, SECRET

        if bucket not in self._lookers:
            store = S3Store(
                bucket,
                endpoint=f"http://127.0.0.1:{self._backend}",
                region="us-east-1",
                access_key_id=KEY,
                secret_access_key=SECRET,
                virtual_hosted_style_request=False,
                client_options={"allow_http": True},
            )

            def look(name: str) -> bool:
                try:
                    obstore.head(store, name)
                except FileNotFoundError:
                    return False
                return True

            self._lookers[bucket] = look
        return self._lookers[bucket]

    def _send(
        self,
        client: socket.socket,
        status: int,
        headers: list[tuple[str, str]],
        body: bytes,
        request: Request,
        most: int | None = None,
    ) -> None:
        lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, 'Planted')}"]
        length = len(body)
        if request.method == "HEAD":  # what it would be, not what is sent
            length = int(next((v for k, v in headers if k.lower() == "content-length"), "0"))
        lines += [f"{name}: {value}" for name, value in headers if name.lower() != "content-length"]
        head = "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode("latin-1")
        data = head + (b"" if request.method == "HEAD" else body)
        client.sendall(data if most is None else data[:most])

    def _hold(self, client: socket.socket) -> None:
        """Wait until the client gives up or the proxy ends."""
        with contextlib.suppress(OSError):
            client.settimeout(0.1)
            while not self._ended.is_set():
                try:
                    if not client.recv(65536):
                        return
                except TimeoutError:
                    continue


class CutProxy:
    """A TCP proxy before `port` that cuts or stalls each connection after so many bytes from the client.

    `limits` are taken one after the other, one for each connection; connections after the last are let
    through. `stall`: instead of cutting, nothing moves any more.
    """

    def __init__(self, port: int, limits: list[int] | None = None, stall: bool = False) -> None:
        self.limits = list(limits or [])
        self.stall = stall
        self.connections = 0
        self._port = port
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> CutProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        for one in self._sockets:
            _hang_up(one)
            one.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                return
            self._sockets += [client, server]
            limit = self.limits.pop(0) if self.limits else None
            self.connections += 1
            for source, target, most in ((client, server, limit), (server, client, None)):
                threading.Thread(target=self._pump, args=(source, target, most), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, most: int | None) -> None:
        moved = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if most is not None and moved + len(data) > most:
                    target.sendall(data[: most - moved])
                    if self.stall:
                        self._ended.wait()
                    break
                target.sendall(data)
                moved += len(data)
        _hang_up(source)
        _hang_up(target)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at % len(changed)] ^= 0x10
    return bytes(changed)


def _error(fault: Status) -> bytes:
    if not fault.code:
        return b""
    text = f"<Error><Code>{fault.code}</Code><Message>{fault.message}</Message></Error>"
    return f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
