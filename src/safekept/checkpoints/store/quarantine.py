"""Files on their way out: set aside first, deleted only when it is certain that nothing needs them.

What maintenance wants to delete is renamed out of the object store. It is deleted after an instant at
which nothing was written and after the refs were read again; whatever a new checkpoint turned out to need is
put back. A run that is killed in between leaves files here, and the next run, or the next time
the store is opened, puts all of them back: killing maintenance can delay a deletion and never cause one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from safekept.core.files import private_directory
from safekept.core.files.belt import Belt
from safekept.core.locks import AlreadyRunning, process_lock

_NAME = "quarantine"
#: A pack is found by its index, so the index goes first and comes back last.
_PACK_PARTS = (".idx", ".rev", ".bitmap", ".keep", ".mtimes", ".pack")


class Quarantine:
    """Where files wait. Paths are relative to the object directory."""

    def __init__(self, directory: str, repository: str) -> None:
        self.path = os.path.join(directory, _NAME)
        self._objects = os.path.join(repository, "objects")

    @property
    def occupied(self) -> bool:
        return os.path.isdir(self.path)

    def hold_loose(self, files: Iterable[str]) -> None:
        """Set loose objects aside, by their full paths."""
        for file in files:
            self._move(os.path.relpath(file, self._objects))

    def hold_pack(self, pack: str) -> None:
        """Set a pack aside with all that belongs to it."""
        stem = os.path.relpath(pack, self._objects).removesuffix(".pack")
        for suffix in _PACK_PARTS:
            self._move(stem + suffix)

    def put_back(self, file: str) -> None:
        """Bring one object or pack back, by the full path it had."""
        relative = os.path.relpath(file, self._objects)
        if relative.endswith(".pack"):
            stem = relative.removesuffix(".pack")
            for suffix in reversed(_PACK_PARTS):
                self._return(stem + suffix)
        else:
            self._return(relative)

    def put_all_back(self) -> int:
        """Bring everything back, and remove the place; returns how many files there were."""
        found = []
        for directory, _, names in os.walk(self.path):
            found += [os.path.relpath(os.path.join(directory, name), self.path) for name in names]
        for relative in sorted(found, key=lambda name: name.endswith(".idx")):
            self._return(relative)
        self.delete()
        return len(found)

    def delete(self) -> None:
        """Delete what is here for good. What cannot be deleted stays and is tried again."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)

    def _move(self, relative: str) -> None:
        target = os.path.join(self.path, relative)
        private_directory(self.path)
        private_directory(os.path.dirname(target))
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(self._objects, relative), target)

    def _return(self, relative: str) -> None:
        source, target = os.path.join(self.path, relative), os.path.join(self._objects, relative)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        # Files in a git store are named by their content: one that was written meanwhile is the same.
        with contextlib.suppress(FileNotFoundError):
            os.rename(source, target)


def mend_quarantine(directory: str, repository: str, belt: Belt) -> bool:
    """Put back what a killed run set aside, unless a run is at work; whether there was anything."""
    waiting = Quarantine(directory, repository)
    if not waiting.occupied:
        return False
    try:
        with process_lock(maintenance_lock(directory), "mending the checkpoint store"):
            belt.open_all()
            return bool(waiting.put_all_back())
    except AlreadyRunning:
        return False


def maintenance_lock(directory: str) -> str:
    """Held by the process that drops, packs or deletes."""
    return os.path.join(directory, "locks", "maintenance")
