"""Several new files of which each names the ones before it: packs, their index, the snapshot.

The promise is that of single writes, in their order: where a snapshot has its name, the index and the packs
that it needs have theirs, after a power cut too. A place that can write all bytes before it gives the first
name (`local_batch.py`) waits for its disk far less often than for one file after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .base import FileKind, Storage

Data = bytes | bytearray | memoryview


class FileBatch:
    """`add` every file, then `publish` one kind after the other. What is not published is dropped in the end.

    Use it in a `with`. Nothing added is seen before it is published.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting: list[tuple[FileKind, str, Data]] = []

    def add(self, kind: FileKind, name: str, data: Data) -> None:
        """One new file; `data` must not change before it is published. AlreadyStored, here or when it is
        published, where the name is taken."""
        self._waiting.append((kind, name, data))

    def publish(self, kind: FileKind) -> None:
        """The files of one kind are stored, whole and durable, when this returns."""
        for number in [at for at, one in enumerate(self._waiting) if one[0] is kind]:
            self._storage.write(*self._waiting[number])
        self._waiting = [one for one in self._waiting if one[0] is not kind]

    def close(self) -> None:
        self._waiting = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
