"""One SFTP conversation with many requests under way, over the streams of one `ssh` process.

Used by one thread at a time. `post` queues a request and gives its number, `answer` waits for the answer
to a number; whatever else arrives meanwhile is kept. Both directions move in one loop, so neither side can
block the other, and a server from which nothing comes for `timeout` seconds is given up.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import subprocess
import time
from collections import deque

from ...platform.descriptors import widen_pipe
from .wire import MalformedAnswer, Packet, Reply, Status, number, text

_HEAD = struct.Struct(">IB")
_HEAD_WITH_ID = struct.Struct(">IBI")
_PIECES = 64  # of one gathered write
_READ = 1 << 18
_MOST = 1 << 20  # an answer longer than this is no answer
_BREATH = 2  # milliseconds
_PATIENCE = 20  # times the longest silence: how long a single answer may take, a byte at a time
_WORDS = 16 << 10  # of what ssh says on its error stream


class Lost(Exception):
    """The conversation is over: the process ended, the server is silent, or it talks nonsense."""

    def __init__(self, reason: str, words: str = "") -> None:
        super().__init__(reason)
        self.reason, self.words = reason, words


class Endless(Lost):
    """It goes on without end: another try would be the same."""


class Refusal(Exception):
    """The server answered a request with a status other than OK."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class Channel:
    """The conversation, from the greeting to the end of the process."""

    def __init__(self, command: list[str], environment: dict[str, str], timeout: float) -> None:
        self.timeout = timeout
        self.extensions: dict[str, str] = {}
        self.write_length = self.read_length = 32 << 10
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for us: we end the conversation ourselves
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._words_from = self._process.stderr.fileno()
        for descriptor in (self._in, self._out, self._words_from):
            os.set_blocking(descriptor, False)
        self._wide = widen_pipe(self._in, 1 << 20)
        self._full = False
        widen_pipe(self._out, 1 << 20)
        self._outgoing: deque[memoryview] = deque()
        self._incoming = bytearray()
        self._answers: dict[int, Reply] = {}
        self._asked: set[int] = set()
        self._last = 0
        self._words = bytearray()
        self._hearing = True
        self._lost = False
        self._moved = time.monotonic()  # when the last byte of the conversation itself went or came
        try:
            self._greet()
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether more can be said; after Lost nothing can."""
        return not self._lost

    @property
    def idle(self) -> bool:
        """Whether every request was answered, so that the next user finds a clean conversation."""
        if self._lost or self._asked or self._answers or self._outgoing:
            return False
        return self._process.poll() is None

    def post(self, kind: Packet, *parts: bytes | memoryview) -> int:
        """Queue a request; it travels with the next wait, or at once when much has gathered."""
        self._last = (self._last + 1) & 0xFFFFFFFF
        length = 5 + sum(map(len, parts))
        head = _HEAD_WITH_ID.pack(length, kind, self._last)
        # Small parts are joined; a large one goes out from where it lies.
        if parts and len(parts[-1]) > 4096:
            self._outgoing.append(memoryview(head + b"".join(parts[:-1])))
            self._outgoing.append(memoryview(parts[-1]))
        else:
            self._outgoing.append(memoryview(head + b"".join(parts)))
        self._asked.add(self._last)
        return self._last

    def answer(self, request: int) -> Reply:
        """The answer to one request; Refusal where its status is not OK, Lost where none comes."""
        until = time.monotonic() + _PATIENCE * self.timeout
        while request not in self._answers:
            self._move()
            if time.monotonic() > until:
                self._lost = True
                raise Endless("the server takes its answers apart: they come too slowly to be of use")
        answer = self._answers.pop(request)
        if answer.kind == Packet.STATUS:
            try:
                status = answer.number()
                words = "" if answer.ended else answer.text()
            except (MalformedAnswer, struct.error):
                raise Lost("the server's answer cannot be understood") from None
            if status != Status.OK:
                raise Refusal(status, words)
        return answer

    def settle(self, requests: list[int]) -> list[Refusal]:
        """Wait for all of these; the refusals among the answers."""
        refusals = []
        for request in requests:
            try:
                self.answer(request)
            except Refusal as refusal:
                refusals.append(refusal)
        return refusals

    def ask(self, kind: Packet, *parts: bytes | memoryview) -> Reply:
        return self.answer(self.post(kind, *parts))

    def extended(self, name: str, *parts: bytes | memoryview) -> int:
        return self.post(Packet.EXTENDED, text(name), *parts)

    def end(self) -> None:
        """End the process and let go of its streams; may be called twice."""
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if process.poll() is None and self._asked:
            process.terminate()  # its unfinished work is not waited for
        for patience, push in ((1.0, process.terminate), (2.0, process.kill)):
            try:
                process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                push()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()

    def _greet(self) -> None:
        self._outgoing.append(memoryview(_HEAD.pack(5, Packet.INIT) + number(3)))
        self._asked.add(-1)
        while -1 not in self._answers:
            self._move()
        greeting = self._answers.pop(-1)
        try:
            if greeting.kind != Packet.VERSION or greeting.number() < 3:
                raise Lost("the server does not speak SFTP version 3")
            while not greeting.ended:
                name = greeting.text()
                self.extensions[name] = greeting.text()
        except (MalformedAnswer, struct.error):
            raise Lost("the server's greeting cannot be understood") from None
        if "limits@openssh.com" in self.extensions:
            with contextlib.suppress(Refusal, MalformedAnswer, struct.error):
                limits = self.answer(self.extended("limits@openssh.com"))
                packet, read, write = (limits.long_number() for _ in range(3))
                most = min(packet - 1024, 255 << 10)
                self.read_length = max(32 << 10, min(read or most, most))
                self.write_length = max(32 << 10, min(write or most, most))

    def _move(self) -> None:
        """Move bytes in whichever direction goes, once. Whatever ends this early ends the conversation."""
        if self._lost:
            raise Lost("the connection was closed")
        self._lost = True
        self._move_once()
        self._lost = False

    def _move_once(self) -> None:
        poller = select.poll()
        poller.register(self._out, select.POLLIN)
        if self._hearing:
            poller.register(self._words_from, select.POLLIN)
        wait = self.timeout * 1000
        if self._outgoing and self._full:
            # A wide pipe that is full keeps ssh busy for some milliseconds. Waking for every piece that it
            # takes out costs a quarter of our processor time.
            self._full, wait = False, _BREATH
        elif self._outgoing:
            poller.register(self._in, select.POLLOUT)
        ready = dict(poller.poll(wait))
        if not ready and wait == _BREATH:
            return
        # What it says on the side is no answer, however much of it there is.
        now = time.monotonic()
        if self._out in ready or self._in in ready:
            self._moved = now
        if not ready or now - self._moved > self.timeout:
            raise Lost(f"the server said nothing for {self.timeout:g} seconds", self._said())
        if self._words_from in ready:
            self._hear()
        if self._in in ready:
            self._send()
        if self._out in ready:
            self._receive()

    def _send(self) -> None:
        try:
            pieces = [self._outgoing[at] for at in range(min(_PIECES, len(self._outgoing)))]
            sent = os.writev(self._in, pieces)
        except BlockingIOError:
            return
        except OSError:
            raise Lost("the connection was closed", self._said(wait=True)) from None
        while sent:
            piece = self._outgoing[0]
            if sent < len(piece):
                self._outgoing[0] = piece[sent:]
                self._full = self._wide
                return
            sent -= len(piece)
            self._outgoing.popleft()

    def _receive(self) -> None:
        try:
            data = os.read(self._out, _READ)
        except BlockingIOError:
            return
        if not data:
            raise Lost("the connection was closed", self._said(wait=True))
        self._incoming += data
        at = 0
        while len(self._incoming) - at >= 5:
            length, kind = _HEAD.unpack_from(self._incoming, at)
            if not 1 <= length <= _MOST:
                raise Lost("the server's answer is no SFTP", self._said())
            if len(self._incoming) - at < length + 4:
                break
            body = memoryview(bytes(memoryview(self._incoming)[at + 5 : at + 4 + length]))
            at += length + 4
            self._file(kind, body)
        if at:
            del self._incoming[:at]

    def _file(self, kind: int, body: memoryview) -> None:
        if kind == Packet.VERSION:
            request, rest = -1, body
        elif len(body) < 4:
            raise Lost("the server's answer is no SFTP")
        else:
            request, rest = int.from_bytes(body[:4], "big"), body[4:]
        if request not in self._asked:
            raise Lost("the server answered what was not asked")
        self._asked.remove(request)
        self._answers[request] = Reply(kind, rest)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._words_from, 4096)
            self._hearing = bool(piece)
            self._words += piece
            del self._words[:-_WORDS]

    def _said(self, wait: bool = False) -> str:
        """What ssh said on its error stream; after the end of its streams its last words are on their way."""
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
        before = -1
        while before != len(self._words):
            before = len(self._words)
            self._hear()
        return self._words.decode("utf-8", "replace")
