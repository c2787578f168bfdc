"""A place off this host that misbehaves on request: at the Nth call, in one of many ways.

What lies in the store below afterwards is what the next push, or restic, would find there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from safekept.core.objects.base import Content, CredentialRights, ObjectStore, Stored, Taken
from safekept.core.objects.errors import refused, unreachable
from safekept.core.objects.memory import MemoryObjects

#: cut: no answer, and nothing happened. lost: it happened, and the answer was lost.
#: refused: the place says no. down: from here on there is no answer to anything.
#: stale: a listing of before, a file that is not there yet. torn: a read gives half of the bytes.
#: flipped: a read gives other bytes.
FAULTS = ("cut", "lost", "refused", "down", "stale", "torn", "flipped")


class FaultyObjects(ObjectStore):
    """Passes everything on to a store in memory, and fails at call number `at`."""

    def __init__(self, below: MemoryObjects, at: int = 0, fault: str = "cut") -> None:
        self.below_store, self.at, self.fault = below, at, fault
        self.calls = 0
        self.lanes = 1
        self._mutex = threading.Lock()

    @property
    def location(self) -> str:
        return "faulty"

    def present(self) -> bool:
        self._call("present")
        return True

    def create(self) -> None:
        self._call("create")

    def list(self, prefix: str = "") -> Iterator[Stored]:
        fault = self._call(f"list {prefix}")
        found = list(self.below_store.list(prefix))
        yield from found[: len(found) // 2] if fault == "stale" else found

    def size(self, name: str) -> int:
        self._call(name)
        return self.below_store.size(name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        fault = self._call(name)
        data = self.below_store.read(name, offset, length)
        if fault == "torn":
            return data[: len(data) // 2]
        return bytes(byte ^ 1 for byte in data) if fault == "flipped" else data

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        yield self.read(name, offset)

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        fault = self._call(name, writes=True)
        self.below_store.write(name, content, replace=replace)
        if fault == "lost":
            raise unreachable(self.location, "the answer was lost")

    def delete(self, name: str) -> None:
        fault = self._call(name, writes=True)
        self.below_store.delete(name)
        if fault == "lost":
            raise unreachable(self.location, "the answer was lost")

    def probe(self) -> CredentialRights:
        return self.below_store.probe()

    def _call(self, what: str, writes: bool = False) -> str:
        with self._mutex:
            self.calls += 1
            down = self.fault == "down" and self.at and self.calls >= self.at
            hit = self.calls == self.at
        if down or (hit and self.fault == "cut"):
            raise unreachable(self.location, f"the connection was cut at {what}")
        if hit and self.fault == "refused":
            raise refused(self.location, "do that", f"403 at {what}")
        return self.fault if hit else ""


class AddingOnly(MemoryObjects):
    """A credential that can only add: deleting and overwriting are refused, and counted."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[str] = []

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        if name in self.objects:
            if not replace:
                raise Taken(name)
            self.refusals.append(name)
            raise refused(self.location, "overwrite", "403")
        super().write(name, content)

    def delete(self, name: str) -> None:
        self.refusals.append(name)
        raise refused(self.location, "delete", "403")
