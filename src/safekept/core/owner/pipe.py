"""Two processes on two pipes: each may ask the other, and answers while it waits for an answer.

A frame is a head and a body of bytes. How a head is written differs by direction: what comes from the
process with fewer rights is plain JSON and never anything that could run on arrival.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..files import write_all

ASK, ANSWER, FAILED, EVENT = 1, 2, 3, 4
#: What can be asked of a side: its arguments and a body in, a plain value and a body out.
Handler = Callable[..., tuple[Any, bytes]]
_FRAME = struct.Struct(">BII")
#: A head lists the files of a directory, a body is a piece of a file.
_LONGEST_HEAD, _LONGEST_BODY = 256 << 20, 8 << 20


class PipeClosed(Exception):
    """The other side is gone."""


class OwnerPipe:
    """One end. Several threads may ask; they take turns."""

    def __init__(
        self,
        reading: int,
        writing: int,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        failure: Callable[[BaseException], Any],
        raised: Callable[[Any], BaseException],
    ) -> None:
        """`failure` turns an exception into something that can be sent, `raised` back into one."""
        self._reading, self._writing = reading, writing
        self._encode, self._decode, self._failure, self._raised = encode, decode, failure, raised
        self._turn, self._pen = threading.RLock(), threading.Lock()
        self._answers: list[Mapping[str, Handler]] = []
        self.broken = False
        self.on_event: Callable[[Any], None] = lambda value: None

    def ask(
        self, name: str, *arguments: object, handlers: Mapping[str, Handler] | None = None
    ) -> tuple[Any, bytes]:
        """Ask, and answer with `handlers` whatever the other side wants to know before it can answer.

        Ctrl-C or an end of the time may come in the middle of a word. The line is then `broken`: no one
        can say any more which answer belongs to which question.
        """
        with self._turn:
            if self.broken:
                raise PipeClosed
            self.broken = True
            self._answers.append(handlers or {})
            try:
                self._send(ASK, [name, list(arguments)], b"")
                kind, head, body = self._until_answered()
            finally:
                self._answers.pop()
            self.broken = False
        if kind == FAILED:
            raise self._raised(head)
        return head, body

    def _until_answered(self) -> tuple[int, Any, bytes]:
        while True:
            kind, head, body = self._receive()
            if kind in (ANSWER, FAILED):
                return kind, head, body
            if kind == EVENT:
                self.on_event(head)
            else:
                self._answer(head)

    def tell(self, value: object) -> None:
        """Say something that wants no answer."""
        self._send(EVENT, value, b"")

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Answer until the other side is gone."""
        self._answers.append(handlers)
        try:
            while True:
                kind, head, _ = self._receive()
                if kind == ASK:
                    self._answer(head)
        except PipeClosed:
            return

    def _answer(self, head: Any) -> None:
        try:
            name, arguments = head
            known = next((one for one in reversed(self._answers) if name in one), None)
            if known is None:
                raise ValueError(f"nothing here answers `{name}`")
            answer, body = known[name](*arguments)
        except PipeClosed:
            raise
        except Exception as error:
            self._send(FAILED, self._failure(error), b"")
        else:
            self._send(ANSWER, answer, body)

    def _send(self, kind: int, head: object, body: bytes) -> None:
        text = self._encode(head)
        try:
            with self._pen:
                write_all(self._writing, _FRAME.pack(kind, len(text), len(body)) + text)
                if body:
                    write_all(self._writing, body)
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.EBADF):
                raise PipeClosed from error
            raise

    def _receive(self) -> tuple[int, Any, bytes]:
        kind, head, body = _FRAME.unpack(self._exactly(_FRAME.size))
        if head > _LONGEST_HEAD or body > _LONGEST_BODY:
            raise PipeClosed
        return kind, self._decode(self._exactly(head)), self._exactly(body)

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = os.read(self._reading, min(count - len(found), 1 << 20))
            if not piece:
                raise PipeClosed
            found += piece
        return bytes(found)
