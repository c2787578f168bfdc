"""A place that is asked again: what may be retried is, with growing, jittered waits and an end.

May be retried: no connection, a dropped one, silence, server errors, "slow down" — all of them
PlaceUnreachable below. Never: a refusal, a missing place, a wrong answer, a taken name.

A server that has never answered is given up after some seconds: it is off, or its name is wrong, and a
person waits. One that answered before is worth waiting for.

Two things need care. A write that broke off may have been stored all the same: a retry that finds the name
taken looks whether what is there is what was sent. A broken-off stream goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from .base import Content, CredentialRights, NotThere, ObjectStore, Stored, Taken, valid_name
from .errors import PlaceUnreachable

# A limit for bytes a second, shared by every thread that writes to one place. A reservation: each taker
# moves the moment at which the next may start, and sleeps until its own. So the average holds however
# many threads there are and however large the pieces; an idle time earns one second of burst and no
# more.

_BURST = 1.0  # seconds


class Rate:
    """Bytes a second; 0 is no limit."""

    def __init__(
        self,
        limit: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limit = limit
        self._clock, self._sleep = clock, sleep
        self._free_at = clock() - _BURST
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """Wait until so many bytes may be sent."""
        if self.limit <= 0 or count <= 0:
            return
        with self._lock:
            now = self._clock()
            start = max(self._free_at, now - _BURST)
            self._free_at = start + count / self.limit
            wait = self._free_at - now
        if wait > 0:
            self._sleep(wait)


_T = TypeVar("_T")
_ATTEMPTS = 8
_FIRST, _LONGEST = 0.5, 30.0  # seconds
#: Seconds in which a server that has never answered must do so.
FIRST_CONTACT = 10.0


class RetryPatience:
    """How often and how long one operation is tried."""

    def __init__(
        self,
        seconds: float = 300.0,
        attempts: int = _ATTEMPTS,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds, self.attempts = seconds, attempts
        self.clock, self.sleep = clock, sleep
        self.heard = False  # of the server, by any answer

    def begin(self) -> Attempts:
        return Attempts(self)


class Attempts:
    """The attempts of one operation."""

    def __init__(self, patience: RetryPatience) -> None:
        self._patience = patience
        self._began = patience.clock()
        self.failed = 0

    def again(self, error: PlaceUnreachable) -> None:
        """Wait for the next attempt; the error itself where there is none left."""
        self.failed += 1
        wait = random.uniform(0.5, 1.0) * min(_LONGEST, _FIRST * 2 ** (self.failed - 1))
        self._patience.heard |= not error.nobody_answered
        seconds = self._patience.seconds
        if not self._patience.heard:
            seconds = min(seconds, FIRST_CONTACT)
        over = self._patience.clock() + wait > self._began + seconds
        if over or self.failed >= self._patience.attempts:
            if self.failed > 1:
                error.facts["attempts"] = self.failed
            raise error
        self._patience.sleep(wait)


class PatientObjects(ObjectStore):
    """Another place, with retries and a rate limit."""

    def __init__(
        self, place: ObjectStore, patience: RetryPatience | None = None, rate: Rate | None = None
    ) -> None:
        self.place = place
        self.lanes = place.lanes
        self.patience = patience or RetryPatience()
        self.rate = rate or Rate(0)

    @property
    def location(self) -> str:
        return self.place.location

    def present(self) -> bool:
        return self._try(self.place.present)

    def create(self) -> None:
        self._try(self.place.create)

    def list(self, prefix: str = "") -> Iterator[Stored]:
        # Others who can write there can give a thing any name; what is not named as ours is left alone.
        yield from self._try(lambda: [one for one in self.place.list(prefix) if valid_name(one.name)])

    def directories(self, prefix: str = "") -> Iterator[str]:
        yield from self._try(lambda: [one for one in self.place.directories(prefix) if valid_name(one)])

    def size(self, name: str) -> int:
        return self._try(lambda: self.place.size(name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._try(lambda: self.place.read(name, offset, length))

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        attempts = self.patience.begin()
        while True:
            try:
                for piece in self.place.stream(name, offset):
                    offset += len(piece)
                    self.patience.heard = True
                    yield piece
                    if attempts.failed:
                        attempts = self.patience.begin()  # it goes on: a new patience
                return
            except PlaceUnreachable as error:
                attempts.again(error)

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        attempts = self.patience.begin()
        start = _position(content)
        while True:
            try:
                self.place.write(name, self._limited(content), replace=replace)
                self.patience.heard = True
                return
            except Taken:
                if attempts.failed and start is not None and self._is_there(name, content, start):
                    return  # an earlier attempt was stored, only its answer was lost
                raise
            except PlaceUnreachable as error:
                if start is None:
                    raise
                attempts.again(error)
                _rewind(content, start)

    def delete(self, name: str) -> None:
        self._try(lambda: self.place.delete(name))

    def probe(self) -> CredentialRights:
        return self._try(self.place.probe)

    def room(self) -> tuple[int, int] | None:
        return self._try(self.place.room)

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        return self._try(lambda: self.place.sweep(older_than))

    def close(self) -> None:
        self.place.close()

    def _try(self, work: Callable[[], _T]) -> _T:
        attempts = self.patience.begin()
        while True:
            try:
                found = work()
                self.patience.heard = True
                return found
            except NotThere:
                self.patience.heard = True
                raise
            except PlaceUnreachable as error:
                attempts.again(error)

    def _limited(self, content: Content) -> Content:
        if self.rate.limit <= 0:
            return content
        if isinstance(content, bytes | bytearray | memoryview):
            self.rate.take(len(content))
            return content
        return _Limited(content, self.rate)  # type: ignore[return-value]

    def _is_there(self, name: str, content: Content, start: int) -> bool:
        _rewind(content, start)
        if isinstance(content, bytes | bytearray | memoryview):
            try:
                return self.place.size(name) == len(content) and self.place.read(name) == bytes(content)
            except NotThere:
                return False
        ours, theirs = hashlib.sha256(), hashlib.sha256()
        while data := content.read(1 << 20):
            ours.update(data)
        try:
            for piece in self.place.stream(name):
                theirs.update(piece)
        except NotThere:
            return False
        return ours.digest() == theirs.digest()


class _Limited:
    """A file that is read no faster than the rate allows."""

    def __init__(self, file: BinaryIO, rate: Rate) -> None:
        self._file, self._rate = file, rate

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._rate.take(len(data))
        return data

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)


def _position(content: Content) -> int | None:
    """Where a file stands, for the next attempt; None where it cannot be read twice."""
    if isinstance(content, bytes | bytearray | memoryview):
        return 0
    try:
        return content.tell() if content.seekable() else None
    except (OSError, AttributeError):
        return None


def _rewind(content: Content, start: int) -> None:
    if not isinstance(content, bytes | bytearray | memoryview):
        content.seek(start)
