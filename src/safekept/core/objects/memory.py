"""Objects in memory: for tests, and for work that must leave no trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from .base import (
    CHUNK,
    Content,
    CredentialRights,
    NotThere,
    ObjectStore,
    Stored,
    Taken,
    checked,
    checked_prefix,
)


class MemoryObjects(ObjectStore):
    """Objects in a dictionary by their name. `objects` and `times` may be looked at and tampered with."""

    lanes = 2

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.times: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return "memory"

    def present(self) -> bool:
        return True

    def create(self) -> None:
        pass

    def list(self, prefix: str = "") -> Iterator[Stored]:
        checked_prefix(prefix)
        with self._lock:
            found = [
                Stored(name, len(data), self.times.get(name, 0.0)) for name, data in self.objects.items()
            ]
        yield from sorted((one for one in found if one.name.startswith(prefix)), key=lambda one: one.name)

    def size(self, name: str) -> int:
        return len(self._object(name))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        data = self._object(name)
        return data[offset:] if length is None else data[offset : offset + length]

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        data = self._object(name)
        for start in range(offset, len(data), CHUNK):
            yield data[start : start + CHUNK]

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        checked(name)
        if not replace and self.exists(name):
            raise Taken(name)
        data = bytes(content) if isinstance(content, bytes | bytearray | memoryview) else content.read()
        with self._lock:
            if name in self.objects and not replace:
                raise Taken(name)
            self.objects[name] = data
            self.times[name] = time.time()

    def delete(self, name: str) -> None:
        with self._lock:
            self.objects.pop(checked(name), None)

    def probe(self) -> CredentialRights:
        return CredentialRights(write=True, overwrite=True, delete=True, versioning=False, write_once=True)

    def _object(self, name: str) -> bytes:
        with self._lock:
            data = self.objects.get(checked(name))
        if data is None:
            raise NotThere(name)
        return data
