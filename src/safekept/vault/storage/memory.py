"""A vault in memory: for tests, and for work that must leave no trace."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from .base import AlreadyStored, FileKind, NotStored, Storage, is_name, stored_name


class MemoryStorage(Storage):
    """Files in a dictionary by their stored name. `files` may be looked at and tampered with."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = {} if files is None else files
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return "memory"

    def create(self) -> None:
        pass

    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        with self._lock:
            found = sorted((path, len(data)) for path, data in self.files.items())
        if kind is FileKind.CONFIG:
            yield from (("", size) for path, size in found if path == "config")
            return
        for path, size in found:
            directory, _, name = path.rpartition("/")
            if directory.startswith(kind.value) and is_name(name) and stored_name(kind, name) == path:
                yield name, size

    def size(self, kind: FileKind, name: str = "") -> int:
        return len(self._file(kind, name))

    def read(self, kind: FileKind, name: str = "", offset: int = 0, length: int | None = None) -> bytes:
        data = self._file(kind, name)
        return data[offset:] if length is None else data[offset : offset + length]

    def write(self, kind: FileKind, name: str, data: bytes | bytearray | memoryview) -> None:
        path = stored_name(kind, name)
        with self._lock:
            if path in self.files:
                raise AlreadyStored(kind, name)
            self.files[path] = bytes(data)

    def delete(self, kind: FileKind, name: str) -> None:
        with self._lock:
            self.files.pop(stored_name(kind, name), None)

    def _file(self, kind: FileKind, name: str) -> bytes:
        with self._lock:
            data = self.files.get(stored_name(kind, name))
        if data is None:
            raise NotStored(kind, name)
        return data
