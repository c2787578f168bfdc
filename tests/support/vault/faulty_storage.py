"""A storage that fails on request: stops for good at the Nth change, tears the last write, has no room.

After it stopped nothing works any more, as after kill -9; what lies in the storage below is what a
next process would find.
"""

from __future__ import annotations

from collections.abc import Iterator

from safekept.core.files import NoRoom
from safekept.vault.storage.base import FileKind, Storage, stored_name
from support.vault.memory_storage import MemoryStorage

#: before: the change did not happen. after: it happened, the caller never heard of it.
#: torn: half of the bytes under a temporary name. full: refused with NoRoom, and so is every later write.
MODES = ("before", "after", "torn", "full")


class Stopped(BaseException):
    """The process is dead. Not an Exception: no clean-up that catches errors may see it."""


class FaultyStorage(Storage):
    def __init__(self, below: MemoryStorage, at: int = 0, mode: str = "before") -> None:
        self.below, self.at, self.mode = below, at, mode
        self.changes = 0
        self.stopped = False

    @property
    def location(self) -> str:
        return "faulty"

    def create(self) -> None:
        self._alive()
        self.below.create()

    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        self._alive()
        yield from self.below.list(kind)

    def size(self, kind: FileKind, name: str = "") -> int:
        self._alive()
        return self.below.size(kind, name)

    def read(self, kind: FileKind, name: str = "", offset: int = 0, length: int | None = None) -> bytes:
        self._alive()
        return self.below.read(kind, name, offset, length)

    def write(self, kind: FileKind, name: str, data: bytes | bytearray) -> None:
        fault = self._fault()
        if fault == "full":
            raise NoRoom("no room", kept="all", next_steps=("make room",))
        if fault == "torn":
            self.below.files[stored_name(kind, name) + "-tmp-1-0-0"] = bytes(data[: len(data) // 2])
        if fault in ("", "after"):
            self.below.write(kind, name, data)
        self._end(fault)

    def delete(self, kind: FileKind, name: str) -> None:
        fault = self._fault()
        if fault in ("", "after", "full"):
            self.below.delete(kind, name)
        self._end("" if fault == "full" else fault)

    def _alive(self) -> None:
        if self.stopped:
            raise Stopped

    def _fault(self) -> str:
        self._alive()
        self.changes += 1
        if self.mode == "full":
            return "full" if self.at and self.changes >= self.at else ""
        return self.mode if self.changes == self.at else ""

    def _end(self, fault: str) -> None:
        if fault:
            self.stopped = True
            raise Stopped
