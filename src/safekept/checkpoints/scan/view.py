"""The folders of a project as they are about to be: the cache, with what this pass found laid over it."""

from __future__ import annotations

from .cache import Cache
from .folder import REASON_OF, STORED, Folder


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

    def repositories(self) -> list[bytes]:
        """The data of git repositories inside the project, its own excepted. After a full pass only."""
        return sorted(
            path + b"/" + name
            for path, folder in self._over.items()
            if path and folder.hidden
            for name, (reason, _) in folder.hidden.items()
            if reason == "git"
        )
