"""The whole state that a checkpoint describes, and the difference of two, read from their trees."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from ..checkpoint import FileState, Skipped
from . import metadata as meta_blob
from .metadata import Meta
from .object_store import ObjectStore
from .objects import DIRECTORY, LINK, META, NOTHING, decode_tree, real_meta_name, real_name

Change = tuple[str, FileState | None, FileState | None]


class TreeState(dict[str, FileState]):
    """Path -> state, directories included (the project itself is not). Names are `str`, any bytes.

    `skipped`: what was there and is not stored, by path. `absent`: named, and known not to have been
    there. `partial`: directories of which only named files are known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: dict[str, Skipped] = {}
        self.absent: set[str] = set()
        self.partial: set[str] = set()
        self.root = FileState("directory", 0o755, 0, 0, "")

    def knows(self, path: str) -> bool:
        """Whether the checkpoint can say what was at a path: its content, or that nothing was there.

        False for whatever is below something skipped, and in a directory that was never listed. Only
        where this is true may a file that is not in the checkpoint be called created since.
        """
        if path in self or path in self.absent:
            return True
        while path:
            parent = os.path.dirname(path)
            if path in self.skipped or (path not in self and parent in self.partial):
                return path in self.absent
            if parent == "" or parent in self:
                return path not in self.skipped and parent not in self.partial
            if parent in self.absent:
                return True
            path = parent
        return False


class TreeReader:
    """Reads trees of `files/` and `meta/` side by side."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def roots(self, tree: bytes) -> dict[bytes, bytes]:
        """The entries of a checkpoint's root tree: `files`, `meta`, `about.json`."""
        data = self._objects.read_as(b"tree", tree)
        return {name: oid for _, name, oid in decode_tree(data, tree.hex())}

    def state(self, tree: bytes, paths: Collection[str] | None = None) -> TreeState:
        """Everything below a checkpoint's root tree; with `paths` only the folders on the way to these."""
        roots = self.roots(tree)
        way = None if paths is None else _way(paths)
        state = TreeState()
        stack = [("", roots.get(b"files", NOTHING), roots.get(b"meta", NOTHING))]
        while stack:
            path, files, metas = stack.pop()
            rows, folders, meta = self._folder(files, metas)
            own = FileState("directory", meta.mode, meta.mtime_ns, 0, "")
            if path:
                state[path] = own
                path += "/"
            else:
                state.root = own
            if meta.partial:
                state.partial.add(path.rstrip("/"))
            for name, row in rows.items():
                state[path + name] = row
            for raw, (reason, size) in meta.skipped.items():
                full = path + os.fsdecode(raw)
                state.skipped[full] = Skipped(full, reason, "", size)
            state.absent.update(path + os.fsdecode(raw) for raw in meta.absent)
            stack += [
                (path + name, *oids) for name, oids in folders.items() if way is None or path + name in way
            ]
        return state

    def difference(self, older: bytes, newer: bytes) -> Iterator[Change]:
        """What differs between two root trees. Subtrees that are shared are not read."""
        first, second = self.roots(older), self.roots(newer)
        one = (first.get(b"files", NOTHING), first.get(b"meta", NOTHING))
        two = (second.get(b"files", NOTHING), second.get(b"meta", NOTHING))
        stack = [("", one, two)] if one != two else []
        while stack:
            path, left, right = stack.pop()
            nothing = (NOTHING, NOTHING)
            rows_left, folders_left, _ = self._folder(*left)
            rows_right, folders_right, _ = self._folder(*right)
            for name in sorted(rows_left.keys() | rows_right.keys()):
                # A name is reported once, though it was a file on one side and is a directory on the other.
                before = rows_left.get(name) or self._own(folders_left.get(name, nothing))
                after = rows_right.get(name) or self._own(folders_right.get(name, nothing))
                if before != after:
                    yield path + name, before, after
            for name in sorted(folders_left.keys() | folders_right.keys(), reverse=True):
                before_oids, after_oids = folders_left.get(name, nothing), folders_right.get(name, nothing)
                if before_oids != after_oids:
                    own_left, own_right = self._own(before_oids), self._own(after_oids)
                    if own_left != own_right and name not in rows_left and name not in rows_right:
                        yield path + name, own_left, own_right
                    stack.append((path + name + "/", before_oids, after_oids))

    def _own(self, oids: tuple[bytes, bytes]) -> FileState | None:
        if oids == (NOTHING, NOTHING):
            return None
        meta = self._folder(NOTHING, oids[1])[2]
        return FileState("directory", meta.mode, meta.mtime_ns, 0, "")

    def _folder(
        self, files: bytes, metas: bytes
    ) -> tuple[dict[str, FileState], dict[str, tuple[bytes, bytes]], Meta]:
        """Rows, subfolders and description of one directory."""
        folders: dict[str, tuple[bytes, bytes]] = {}
        meta = Meta()
        if metas != NOTHING:
            for mode, stored, oid in decode_tree(self._objects.read_as(b"tree", metas), metas.hex()):
                if mode == DIRECTORY:
                    folders[os.fsdecode(real_meta_name(stored))] = (NOTHING, oid)
                elif stored == META:
                    meta = meta_blob.decode(self._objects.read_as(b"blob", oid), oid.hex())
        rows: dict[str, FileState] = {}
        if files != NOTHING:
            known = meta.entries
            for mode, stored, oid in decode_tree(self._objects.read_as(b"tree", files), files.hex()):
                raw = real_name(stored)
                name = os.fsdecode(raw)
                if mode == DIRECTORY:
                    folders[name] = (oid, folders.get(name, (NOTHING, NOTHING))[1])
                    continue
                described = known.get(raw)
                if described is None:  # adopted from another store: only what git knows
                    permissions = 0o755 if mode == b"100755" else 0o644
                    described = (permissions, 0, self._objects.size(oid))
                kind = "symlink" if mode == LINK else "file"
                rows[name] = FileState(kind, *described, oid.hex())
        return rows, folders, meta


def _way(paths: Collection[str]) -> set[str]:
    """The paths and every directory above them."""
    found: set[str] = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found
