"""Reading what is pending: every row that waits gets its blob, or its reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from safekept.core.events import Event, Listener

from ..checkpoint import Skipped
from ..scan.content import Reader, Unreadable, log_mark, sidecar_of
from ..scan.folder import CODE_OF, DATABASE, PLAIN, SYMLINK, UNSURE, WIDTH, Folder
from ..scan.walk import DIRECTORY_FLAGS
from ..store.objects import NOTHING
from ..store.pack_writer import PackWriter


class Gather:
    """Fills rows from the project's files. `remarks` are worth a line, `lost` could not be read."""

    def __init__(
        self,
        root: int,
        project: bytes,
        writer: PackWriter,
        scratch: str,
        limit: int,
        listener: Listener,
        twin: Callable[[os.stat_result], bool] | None = None,
    ) -> None:
        self._root, self._project, self._limit, self._listener = root, project, limit, listener
        self._reader = Reader(writer, scratch, listener, twin)
        self._scratch = scratch
        self.remarks: list[str] = []
        self.lost: list[Skipped] = []
        self.read = 0

    def fill(self, folder: Folder, path: bytes, names: Collection[bytes]) -> None:
        """Read named rows of one folder."""
        wanted = set(names)
        places = [place for place, name in enumerate(folder.names) if name in wanted]
        try:
            directory = open_below(self._root, path)
        except OSError as error:
            for place in sorted(places, reverse=True):
                self._failed(folder, path, place, Unreadable("unreadable", error.strerror or str(error)))
            folder.inode = UNSURE
            return
        try:
            # Rows that look like a database's sidecars come last: by then the database is known.
            later = [place for place in places if sidecar_of(folder.names[place]) is not None]
            removed = []
            first = [place for place in places if place not in later] if later else places
            for place in first + later:
                if sidecar_of(folder.names[place]) in folder.databases:
                    continue
                if not self._row(folder, path, directory, place):
                    removed.append(place)
            for place, name in enumerate(folder.names):
                if folder.databases and sidecar_of(name) in folder.databases:
                    folder.codes[place] = CODE_OF["sidecar"]
                    folder.set_oid(place, NOTHING)
            for place in sorted(removed, reverse=True):
                folder.remove(place)
                folder.inode = UNSURE
        finally:
            os.close(directory)

    def _row(self, folder: Folder, path: bytes, directory: int, place: int) -> bool:
        """Read one row; False when its file is gone."""
        name = folder.names[place]
        log = log_mark(directory, name) if folder.codes[place] == DATABASE else None
        try:
            if folder.codes[place] == SYMLINK:
                found = self._reader.link(directory, name)
            else:
                found = self._reader.file(
                    directory,
                    name,
                    folder.marks[WIDTH * place + 3],
                    os.path.join(self._project, path),
                    folder.codes[place] == DATABASE,
                    self._limit,
                )
        except Unreadable as trouble:
            if trouble.reason == "gone":
                return False
            self._failed(folder, path, place, trouble)
            return True
        self.read += 1
        if self.read % 500 == 0:
            self._listener(Event("store", self.read, unit="files"))
        folder.set_oid(place, found.oid)
        if found.status is not None:
            folder.set_status(place, found.status)
        if found.unsure or found.status is None:
            folder.doubt(place)
        if found.database:
            folder.codes[place] = DATABASE
            folder.databases[name] = (found.size, log if log is not None else log_mark(directory, name))
        else:
            folder.databases.pop(name, None)
            if folder.codes[place] != SYMLINK:
                folder.codes[place] = PLAIN
                folder.marks[WIDTH * place + 2] = found.size
        if found.remark:
            self.remarks.append(f"{os.fsdecode(os.path.join(path, name))} {found.remark}")
        return True

    def _failed(self, folder: Folder, path: bytes, place: int, trouble: Unreadable) -> None:
        name = folder.names[place]
        folder.codes[place] = CODE_OF.get(trouble.reason, CODE_OF["unreadable"])
        folder.set_oid(place, NOTHING)
        folder.databases.pop(name, None)
        if trouble.reason in ("changing", "database", "unreadable"):
            folder.doubt(place)  # the next pass tries again: a bad moment of a disk is over then
        size = folder.marks[WIDTH * place + 2]
        self.lost.append(
            Skipped(os.fsdecode(os.path.join(path, name)), trouble.reason, trouble.detail, max(size, 0))
        )


def open_below(root: int, path: bytes) -> int:
    """Open a directory of the project from its root, following no link on the way."""
    current = os.dup(root)
    try:
        for part in path.split(b"/") if path else ():
            below = os.open(part, DIRECTORY_FLAGS, dir_fd=current)
            os.close(current)
            current = below
    except BaseException:
        os.close(current)
        raise
    return current
