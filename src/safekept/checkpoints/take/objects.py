"""Reading what is pending: every row that waits gets its blob, or its reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from safekept.core.events import Event, Listener

from ..checkpoint import Skipped
from ..scan.cache import View
from ..scan.content import Reader, Unreadable, log_mark, sidecar_of
from ..scan.folder import ABSENT, CODE_OF, DATABASE, PLAIN, STORED, SYMLINK, UNSURE, WIDTH, Folder
from ..scan.walk import DIRECTORY_FLAGS
from ..store import metadata as meta_blob
from ..store.objects import FILE, META, NOTHING, encode_tree, object_id
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


# From folders to trees: only directories in which something changed get new objects.


class Trees:
    """Writes the trees of dirty folders, deepest first, up to the root."""

    def __init__(self, writer: PackWriter, view: View) -> None:
        self._writer, self._view = writer, view
        self.tree = self.meta = NOTHING  # of the root
        self.changed = False  # more than times, which alone make no checkpoint

    def build(self, dirty: set[bytes], tree: bytes, meta: bytes) -> None:
        """`tree` and `meta` are the root's objects as they were."""
        self.tree, self.meta = tree, meta
        levels: dict[int, set[bytes]] = {}
        for path in dirty:
            levels.setdefault(_depth(path), set()).add(path)
        for depth in range(max(levels, default=-1), -1, -1):
            for path in sorted(levels.get(depth, ())):
                parent = self._one(path)
                if parent is not None:
                    levels.setdefault(depth - 1, set()).add(parent)

    def _one(self, path: bytes) -> bytes | None:
        """Write one folder; returns its parent when that must be written too."""
        folder, before = self._view.own(path), self._view.before(path)
        folder.stale = False
        known_tree, known_meta = self._known(path)
        entries = folder.tree_entries()
        tree = NOTHING
        if entries:
            data = encode_tree(entries)
            tree = object_id(b"tree", data)
            if tree != known_tree:
                self._writer.add(b"tree", data)
        data = meta_blob.encode(folder.meta())
        blob = object_id(b"blob", data)
        if blob != folder.blob or known_meta == NOTHING:
            self._writer.add(b"blob", data)
            folder.blob = blob
        data = encode_tree([*folder.meta_entries(), (FILE, META, blob)])
        meta = object_id(b"tree", data)
        if meta != known_meta:
            self._writer.add(b"tree", data)
        self.changed = self.changed or differs(before, folder)
        if not path:
            self.tree, self.meta = tree, meta
            return None
        parent, _, name = path.rpartition(b"/")
        if (tree, meta) == (known_tree, known_meta):
            return None
        self._view.own(parent).set_folder(name, tree, meta)
        return parent

    def _known(self, path: bytes) -> tuple[bytes, bytes]:
        if not path:
            return self.tree, self.meta
        parent, _, name = path.rpartition(b"/")
        above = self._view.get(parent)
        assert above is not None
        try:
            at = 20 * above.folders.index(name)
        except ValueError:
            return NOTHING, NOTHING
        return bytes(above.trees[at : at + 20]), bytes(above.metas[at : at + 20])


def differs(before: Folder | None, now: Folder) -> bool:
    """Whether a directory itself holds something else than before; times alone do not count."""
    return before is None or _stored_facts(before) != _stored_facts(now)


def _stored_facts(folder: Folder) -> tuple[object, ...]:
    rows = {}
    for place, name in enumerate(folder.names):
        code = folder.codes[place]
        if code in STORED:
            rows[name] = (folder.modes[place], folder.oid(place))
        elif code == ABSENT:
            rows[name] = (0, b"absent")
    return folder.mode, set(folder.folders), rows


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0
