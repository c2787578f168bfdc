"""From folders to trees: only directories in which something changed get new objects."""

from __future__ import annotations

from ..scan.cache import View
from ..scan.folder import ABSENT, STORED, Folder
from ..store import metadata as meta_blob
from ..store.objects import FILE, META, NOTHING, encode_tree, object_id
from ..store.pack_writer import PackWriter


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
    return before is None or _essence(before) != _essence(now)


def _essence(folder: Folder) -> tuple[object, ...]:
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
