"""The stat cache of one project: what the last checkpoint's files looked like on disk.

Promise: it describes exactly the tree of one checkpoint (`base`), so a file that still looks the same is
still in the store. Whatever is wrong with it (torn, of another store, of a checkpoint that was dropped)
makes it empty, and then everything is read again; it can cost time, never truth.

The file is a row of frames, each with its length and a checksum. A pass writes only the directories that
changed, at the end; when the old ones outweigh the rest, the file is rewritten. A torn last frame is
as if that pass had not been written: an older checkpoint is described, which is just as true.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import struct
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from isal import isal_zlib

from safekept.core.files import quick_write, write_all
from safekept.core.records import dataclass

from .folder import REASON_OF, STORED, Folder

_MAGIC = b"safekept stat cache 2\n"
_FRAME = struct.Struct("<II")
NAME = "cache"


@dataclass(slots=True)
class Facts:
    """What is said of the whole; written with every frame."""

    store: str = ""  # identity of the store
    project: bytes = b""
    base: str = ""  # id of the checkpoint described
    latest: dict[str, object] = field(default_factory=dict)  # that checkpoint, as a dict
    tree: bytes = b""  # of `files/`
    meta: bytes = b""  # of `meta/`
    rules: bytes = b""  # fingerprint of exclusions, limits and ignore rules outside the tree
    files: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> count
    full: bool = False
    index: bytes = b""  # looks of the user's own index, when it was asked for
    tracked: tuple[bytes, ...] = ()  # what it tracks although it is ignored
    repository: tuple[Any, ...] = ()  # of `repository/`, and what it was read from: `repositories.taking`

    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)


class Cache:
    """Folders by their path relative to the project (bytes; `b""` is the project itself)."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)
        self.facts = Facts()
        self._raw: dict[bytes, bytes] = {}
        self._loaded: dict[bytes, Folder] = {}
        self._changed: dict[bytes, Folder | None] = {}
        self._length = 0  # of the file, as far as it is good
        self._live = 0  # bytes of the frames that would remain

    @classmethod
    def read(cls, directory: str) -> Cache:
        """The cache as written; an empty one where there is none or it is damaged."""
        cache = cls(directory)
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError, IndexError):
            cache._read()
        return cache

    def clear(self) -> None:
        """Know nothing."""
        self.facts = Facts()
        self._raw, self._loaded, self._changed = {}, {}, {}
        self._length = self._live = 0

    def __len__(self) -> int:
        return len(self._raw)

    def paths(self) -> list[bytes]:
        return list(self._raw.keys() | {path for path, folder in self._changed.items() if folder})

    def get(self, path: bytes) -> Folder | None:
        """A folder, to be read; changing it must be told by `put`."""
        if path in self._changed:
            return self._changed[path]
        folder = self._loaded.get(path)
        if folder is None:
            raw = self._raw.get(path)
            if raw is None:
                return None
            folder = self._loaded[path] = Folder.load(raw)
        return folder

    def put(self, path: bytes, folder: Folder) -> None:
        self._changed[path] = folder

    def forget(self, path: bytes) -> None:
        self._changed[path] = None

    def replace(self, folders: dict[bytes, Folder]) -> None:
        """The result of a full pass: what is not in it is forgotten."""
        for path, folder in folders.items():
            if self._loaded.get(path) is not folder:
                self._changed[path] = folder
        for path in self._raw.keys() - folders.keys():
            self._changed[path] = None

    def write(self) -> None:
        """Store what changed. Atomic; not synced, because losing it costs a pass and nothing else."""
        fresh = {path: folder.dump() if folder else None for path, folder in self._changed.items()}
        payload = marshal.dumps((self.facts.values(), fresh), 4)
        if self._length and self._length + len(payload) < 2 * self._live + (1 << 20):
            with contextlib.suppress(OSError):
                self._append(payload)
                self._absorb(fresh)
                return
        self._absorb(fresh)
        payload = marshal.dumps((self.facts.values(), self._raw), 4)
        frame = _MAGIC + _FRAME.pack(len(payload), isal_zlib.crc32(payload)) + payload
        quick_write(self.path, frame)
        self._length = self._live = len(frame)

    def _append(self, payload: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # Where a torn frame lies behind the last good one, it goes first.
            if os.fstat(descriptor).st_size != self._length:
                os.ftruncate(descriptor, self._length)
            os.lseek(descriptor, self._length, os.SEEK_SET)
            write_all(descriptor, _FRAME.pack(len(payload), isal_zlib.crc32(payload)) + payload)
        finally:
            os.close(descriptor)
        self._length += _FRAME.size + len(payload)

    def _absorb(self, fresh: dict[bytes, bytes | None]) -> None:
        for path, raw in fresh.items():
            if raw is None:
                self._raw.pop(path, None)
                self._loaded.pop(path, None)
            else:
                self._raw[path] = raw
                folder = self._changed.get(path)
                if folder is not None:
                    self._loaded[path] = folder
        self._changed = {}

    def _read(self) -> None:
        with open(self.path, "rb") as file:
            data = file.read()
        if not data.startswith(_MAGIC):
            return
        position, view = len(_MAGIC), memoryview(data)
        while position + _FRAME.size <= len(data):
            length, checksum = _FRAME.unpack_from(data, position)
            start = position + _FRAME.size
            payload = view[start : start + length]
            if len(payload) != length or isal_zlib.crc32(payload) != checksum:
                break
            values, folders = marshal.loads(payload)  # noqa: S302 - checksummed, private to the user
            self.facts = Facts(*values)
            if self._length == 0:
                self._raw = folders
                self._live = start + length
            else:
                for path, raw in folders.items():
                    if raw is None:
                        self._raw.pop(path, None)
                    else:
                        self._raw[path] = raw
            position = start + length
            self._length = position


# The folders of a project as they are about to be: the cache, with what this pass found laid over it.


class View:
    """Reads through to the cache; changes stay here until `settle`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._over: dict[bytes, Folder] = {}
        self._removed: set[bytes] = set()
        self._full = False

    @property
    def touched(self) -> bool:
        """Whether anything is to be written."""
        return any(self._cache.get(path) is not folder for path, folder in self._over.items()) or bool(
            self._removed
        )

    def walked(self, folders: dict[bytes, Folder]) -> None:
        """The result of a full pass: nothing else is known from now on."""
        self._over, self._full = folders, True

    def folders(self) -> Iterable[tuple[bytes, Folder]]:
        """Every folder, by its path. After a full pass only."""
        return self._over.items()

    def before(self, path: bytes) -> Folder | None:
        """A folder as the last checkpoint has it."""
        return self._cache.get(path)

    def get(self, path: bytes) -> Folder | None:
        folder = self._over.get(path)
        if folder is not None or self._full or path in self._removed:
            return folder
        return self._cache.get(path)

    def own(self, path: bytes) -> Folder:
        """A folder that may be changed. It must be known."""
        folder = self.get(path)
        if folder is None:
            raise KeyError(path)
        if folder is self._cache.get(path):
            folder = self._over[path] = folder.copy()
        return folder

    def put(self, path: bytes, folder: Folder) -> None:
        self._over[path] = folder
        self._removed.discard(path)

    def remove(self, path: bytes) -> int:
        """Forget a folder and all below it; returns how many stored files that were."""
        below, files = path + b"/", 0
        known = set(self._over) if self._full else {*self._over, *self._cache.paths()}
        for other in known:
            if other == path or other.startswith(below):
                folder = self.get(other)
                files += folder.stored() if folder is not None else 0
                self._over.pop(other, None)
                self._removed.add(other)
        return files

    def take_back(self) -> None:
        """No checkpoint was made: what only its objects would hold is not known.

        What the files look like is worth keeping; the objects of a folder stay those of the last
        checkpoint, and a folder whose times changed is marked to be described with the next one.
        """
        for path, folder in self._over.items():
            before = self._cache.get(path)
            if before is None or before is folder:
                continue
            folder.stale = before.stale or folder.blob != before.blob
            folder.blob = before.blob
            folder.folders, folder.trees, folder.metas = before.folders, before.trees, before.metas

    def settle(self) -> None:
        """Hand everything over to the cache."""
        if self._full:
            self._cache.replace(self._over)
            return
        for path in self._removed:
            self._cache.forget(path)
        for path, folder in self._over.items():
            if self._cache.get(path) is not folder:
                self._cache.put(path, folder)

    def counts(self) -> dict[str, int]:
        """How many paths are not stored, by reason. After a full pass only."""
        counts: dict[str, int] = {}
        for folder in self._over.values():
            if folder.hidden:
                for reason, _ in folder.reasons().values():
                    counts[reason] = counts.get(reason, 0) + 1
            if folder.stored() != len(folder.names):
                for code in folder.codes:
                    if code not in STORED and code in REASON_OF:
                        counts[REASON_OF[code]] = counts.get(REASON_OF[code], 0) + 1
        return counts

    def left_out(self, most: int) -> dict[str, list[bytes]]:
        """The first few paths that are not stored, by reason. After a full pass only."""
        found: dict[str, list[bytes]] = {}
        for path in sorted(self._over):
            folder = self._over[path]
            names = [(name, reason) for name, (reason, _) in folder.reasons().items()]
            if folder.stored() != len(folder.names):
                rows = zip(folder.names, folder.codes, strict=True)
                names += [(name, REASON_OF[code]) for name, code in rows if code in REASON_OF]
            for name, reason in sorted(names):
                listed = found.setdefault(reason, [])
                if len(listed) < most:
                    listed.append(path + b"/" + name if path else name)
        return found

    def repositories(self) -> list[bytes]:
        """The data of git repositories inside the project, its own excepted. After a full pass only."""
        return sorted(
            path + b"/" + name
            for path, folder in self._over.items()
            if path and folder.hidden
            for name, (reason, _) in folder.hidden.items()
            if reason == "git"
        )
