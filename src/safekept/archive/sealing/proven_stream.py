"""Clear text that can only be had from front to back, made readable by position, proven beforehand.

OpenPGP authenticates a message at its end, so what comes before is not proven yet. The whole stream is
therefore run once with nothing released: a hash of every mebibyte is kept, and the verdict at the end is
awaited. Later runs give a mebibyte away only if it is the one that was proven. Memory is the same for
any size; positions that were passed cost a new run, so readers go through such a stream in its order.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from ..container.handle import Handle
from ..errors import damaged

SEGMENT = 1 << 20
_HEAD = 64 << 10
#: Of the end, where zips and our tars have their lists, so much is kept; of what lies around, so much.
_TAIL = 16 << 20
_SEGMENTS_KEPT = 24


class ClearStream(Protocol):
    """One run over the clear text."""

    def read(self, size: int) -> bytes:
        """That many bytes; fewer only at the end."""

    def verify(self) -> None:
        """Called at the end: raises unless all of it was authenticated."""

    def close(self) -> None: ...


class StreamProof:
    """What is remembered of a stream that passed by."""

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.size = 0
        self.head = b""
        self._recent: deque[bytes] = deque()
        self._kept = 0
        self._digest = hashlib.sha256()
        self._in_segment = 0

    def add(self, data: bytes | bytearray | memoryview) -> None:
        if len(self.head) < _HEAD:
            self.head += bytes(data[: _HEAD - len(self.head)])
        self._recent.append(bytes(data))
        self._kept += len(data)
        while self._kept - len(self._recent[0]) >= _TAIL:
            self._kept -= len(self._recent.popleft())
        self.size += len(data)
        view = memoryview(data)
        while view:
            part = view[: SEGMENT - self._in_segment]
            self._digest.update(part)
            self._in_segment += len(part)
            view = view[len(part) :]
            if self._in_segment == SEGMENT:
                self._end_segment()

    def _end_segment(self) -> None:
        self.digests.append(self._digest.digest())
        self._digest, self._in_segment = hashlib.sha256(), 0

    def end(self) -> None:
        if self._in_segment:
            self._end_segment()
        self._recent = deque((b"".join(self._recent),))

    @property
    def tail(self) -> bytes:
        return self._recent[0]


def prove_stream(stream: ClearStream, check: Callable[[int], None]) -> StreamProof:
    """Run a stream to its end, releasing nothing; raises what its verdict is. `check` judges its size."""
    proof = StreamProof()
    try:
        while data := stream.read(SEGMENT):
            proof.add(data)
            check(proof.size)
            if len(data) < SEGMENT:
                break
        stream.verify()
    finally:
        stream.close()
    proof.end()
    return proof


class ProvenHandle(Handle):
    """Reads a proven stream by position; cheap in order, a new run for every step back."""

    in_order = True

    def __init__(self, inner: Handle, proof: StreamProof, run: Callable[[], ClearStream]) -> None:
        super().__init__(inner.path, inner.descriptor)
        self._inner, self._proof, self._run = inner, proof, run
        self.size = proof.size
        self._guard = threading.Lock()
        self._stream: ClearStream | None = None
        self._next = 0  # the segment that the run under way gives next
        self._held: OrderedDict[int, bytes] = OrderedDict()

    def _pread(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        proof = self._proof
        if offset + length <= len(proof.head):
            return proof.head[offset : offset + length]
        before = self.size - len(proof.tail)
        if offset >= before:
            return proof.tail[offset - before : offset - before + length]
        with self._guard:
            first, last = offset // SEGMENT, (offset + length - 1) // SEGMENT
            data = b"".join([self._segment(number) for number in range(first, last + 1)])
        start = offset - first * SEGMENT
        return data[start : start + length]

    def _segment(self, number: int) -> bytes:
        held = self._held.get(number)
        if held is not None:
            return held
        if self._stream is None or self._next > number:
            self._stop()
            self._stream, self._next = self._run(), 0
        return self._segment_after(number)

    def _segment_after(self, number: int) -> bytes:
        """Go on to that segment, each one on the way held against the proof."""
        assert self._stream is not None
        while True:
            data = self._stream.read(SEGMENT)
            if hashlib.sha256(data).digest() != self._proof.digests[self._next]:
                raise damaged(self.path, "it changed while it was being read")
            self._held[self._next] = data
            while len(self._held) > _SEGMENTS_KEPT:
                self._held.popitem(last=False)
            self._next += 1
            if self._next > number:
                return data

    def settle(self) -> None:
        """Run to the very end, whatever was asked for until then, and hear the verdict."""
        with self._guard:
            if self._stream is None:
                self._stream, self._next = self._run(), 0
            if self._next < len(self._proof.digests):
                self._segment_after(len(self._proof.digests) - 1)
            if self._stream.read(1):
                raise damaged(self.path, "it changed while it was being read")
            self._stream.verify()
            self._stop()

    def _stop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        with self._guard:
            self._stop()
        self._inner.close()
