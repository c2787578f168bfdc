"""A batch of files in a local directory: all bytes are on the disk before the first file gets its name.

One file after the other, each waits for the disk twice: for its bytes, and for its name. Here the bytes of
all are handed to the disk at once and waited for together, and so are the names of one kind.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from safekept.core.files import fsync_directory, remove_quietly
from safekept.core.platform.syncing import sync_file

from .base import AlreadyStored, FileKind, stored_name
from .batch import Data, FileBatch

if TYPE_CHECKING:
    from .local import LocalStorage


class StagedFile(NamedTuple):
    """A file under a temporary name, with all its bytes; open until they are durable."""

    kind: FileKind
    place: str
    temporary: str
    descriptor: int
    made: str  # the directory that had to be made for it; its name is not durable yet


class LocalFileBatch(FileBatch):
    """The batch of a LocalStorage."""

    def __init__(self, storage: LocalStorage) -> None:
        super().__init__(storage)
        self._files = storage.files
        self._staged: list[StagedFile] = []
        self._open: set[int] = set()
        self._made: set[str] = set()

    def add(self, kind: FileKind, name: str, data: Data) -> None:
        place = stored_name(kind, name)
        found = self._files.stage(place, data)
        if found is None:
            raise AlreadyStored(kind, name)
        self._staged.append(StagedFile(kind, *found))
        self._open.add(found[2])
        if found[3]:
            self._made.add(found[3])

    def publish(self, kind: FileKind) -> None:
        chosen = [one for one in self._staged if one.kind is kind]
        with self._files.failing("write"):
            self._make_durable()
            for one in chosen:
                os.rename(one.temporary, one.place)
                self._staged.remove(one)
            for directory in sorted({os.path.dirname(one.place) for one in chosen}):
                fsync_directory(directory)

    def _make_durable(self) -> None:
        for one in self._staged:
            if one.descriptor in self._open:
                sync_file(one.descriptor)
                os.fchmod(one.descriptor, self._files.mode)
                self._open.discard(one.descriptor)
                os.close(one.descriptor)
        # Before anything has its name in one: where this fails, they go again.
        for directory in sorted({os.path.dirname(made) for made in self._made}):
            fsync_directory(directory)
        self._made.clear()

    def close(self) -> None:
        for descriptor in self._open:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()
        for one in self._staged:
            remove_quietly(one.temporary)
        self._staged = []
        for directory in self._made:
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        self._made.clear()
