"""The hidden half as a rollback reads it: states of points, and the bytes behind them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import zip_longest

from safekept.checkpoints.checkpoint import Checkpoint, CheckpointDamaged, FileState, Skipped
from safekept.checkpoints.points import OWN
from safekept.checkpoints.rollback import Damaged, FileContents
from safekept.checkpoints.scan import HiddenFolders, KeptHidden, KeptLook
from safekept.checkpoints.store import TreeState
from safekept.core.errors import SafekeptError
from safekept.vault.format import Node
from safekept.vault.read import snapshot_source
from safekept.vault.repo import Repository

#: How the names of contents begin that are not in the checkpoint store.
_HERE, _LINK, _DISK = "hidden:", "link:", "disk:"
LEFT_OUT = "left_out"
#: Why a path of a look is in no snapshot.
NOT_IN_TIME = "not-in-time"
#: So many snapshots are looked into for what a look saw that was not kept in time.
_NEAR = 4


class HiddenHistory:
    """The hidden halves of one project's points, each read once.

    `rows` gives what a look saw that was not kept in time: what looks just so in a snapshot of before or
    after is put together from there, and the rest is named.
    """

    def __init__(
        self,
        repository: Repository | None,
        kept: KeptHidden,
        rows: Callable[[str], HiddenFolders | None] = lambda look: None,
    ) -> None:
        self.repository, self.kept, self._rows = repository, kept, rows
        self._states: dict[str, TreeState] = {}
        self._pieced: dict[str, TreeState] = {}
        self._changed: dict[str, dict[str, int]] = {}  # snapshot -> path -> time of the file's last change
        self._began: dict[str, int] = {}  # snapshot -> when it was begun
        self.contents: dict[str, bytes] = {}  # name of a content -> ids of its blobs in a row

    def state(self, checkpoint: Checkpoint, paths: Collection[str] | None = None) -> TreeState:
        """Raises CheckpointDamaged where nothing is kept of it."""
        found = self.kept.of(checkpoint)
        if found is not None:
            return self.of(found)
        rows = self._rows(checkpoint.hidden)
        if rows is None:
            raise _unknown(f"The hidden half of checkpoint {checkpoint.id} was not kept")
        if checkpoint.hidden not in self._pieced:
            self._pieced[checkpoint.hidden] = self._together(rows, checkpoint.time_ns)
        return self._pieced[checkpoint.hidden]

    def difference(
        self, older: Checkpoint, newer: Checkpoint
    ) -> Iterable[tuple[str, FileState | None, FileState | None]]:
        one, two = self.state(older), self.state(newer)
        if one is two:
            return []
        paths = (path for path in one.keys() | two.keys() if one.get(path) != two.get(path))
        return [(path, one.get(path), two.get(path)) for path in paths]

    def of(self, look: KeptLook) -> TreeState:
        """What a snapshot holds; nothing where there was nothing to hold."""
        known = self._states.get(look.snapshot)
        if known is None:
            try:
                known = self._states[look.snapshot] = self._read(look) if look.snapshot else TreeState()
            except (SafekeptError, OSError) as error:
                raise _unknown(f"The hidden half cannot be read: {error}") from error
        return known

    def _read(self, look: KeptLook) -> TreeState:
        if self.repository is None:
            raise _unknown("The repository of the hidden half is gone")
        snapshot = self.repository.load_snapshot(look.snapshot)
        source, manifest = snapshot_source(self.repository, snapshot)
        state, changed = TreeState(), self._changed.setdefault(look.snapshot, {})
        self._began[look.snapshot] = snapshot.time_ns
        waiting = [("", source.node(""))]
        while waiting:
            prefix, above = waiting.pop()
            nodes = self.repository.load_tree(above.subtree).nodes if above and above.subtree else []
            for node in nodes:
                path = prefix + node.name
                state[path] = self._entry(node)
                changed[path] = node.ctime_ns or node.mtime_ns
                if node.type == "dir":
                    waiting.append((path + "/", node))
        facts = manifest or {}
        left = facts.get(LEFT_OUT)
        for path, reason in left.items() if isinstance(left, dict) else ():
            state.skipped[path] = Skipped(path, "not-kept", str(reason))
        for remark in facts.get("remarks", ()):
            # Something was there, and could not be read: that it is not in here proves nothing.
            if isinstance(remark, dict) and remark.get("outcome") in ("unreadable", "locked"):
                path = str(remark.get("path"))
                state.skipped[path] = Skipped(path, "not-kept", str(remark.get("reason", "")))
                if path == OWN or path in state:  # a directory, of which nothing more is known
                    state.partial.add("" if path == OWN else path)
        return state

    def _entry(self, node: Node) -> FileState:
        if node.type == "dir":
            return FileState("directory", node.mode, node.mtime_ns, 0, "")
        if node.type == "symlink":
            size, name = len(os.fsencode(node.target)), f"{_HERE}{_LINK}{node.target}"
            return FileState("symlink", node.mode, node.mtime_ns, size, name)
        ids = node.content or b""
        name = _HERE + hashlib.sha256(ids).hexdigest()
        self.contents[name] = ids
        return FileState("file", node.mode, node.mtime_ns, node.size, name)

    def _together(self, rows: HiddenFolders, time_ns: int) -> TreeState:
        """The state of a look out of snapshots of other looks, those next to it first."""
        near = sorted(self.kept.looks.values(), key=lambda one: abs(one.time_ns - time_ns))[:_NEAR]
        states = [(one.snapshot, self.of(one)) for one in near if one.snapshot]
        found = TreeState()
        for raw, folder in rows.folders.items():
            place = os.fsdecode(raw)
            if folder.mode:
                found[place] = FileState("directory", folder.mode, folder.mtime_ns, 0, "")
            for name, _, _, _, _ in folder.rows():
                if _is_sidecar(name, folder.names):
                    continue
                path = f"{place}/{os.fsdecode(name)}" if place else os.fsdecode(name)
                at = rows.changed_at(os.fsencode(path))
                log = max(rows.changed_at(os.fsencode(path + suffix)) for suffix in ("-wal", "-journal"))
                same = (
                    state[path]
                    for snapshot, state in states
                    if self._changed[snapshot].get(path) == at and log < self._began[snapshot]
                )
                state = next(same, None)
                if state is not None:
                    found[path] = state
                elif os.fsencode(path) not in rows.left:
                    found.skipped[path] = Skipped(path, NOT_IN_TIME)
        for raw, (reason, _, _) in rows.left.items():
            path = os.fsdecode(raw)
            found.skipped[path] = Skipped(path, "not-kept", reason)
        return found


def _is_sidecar(name: bytes, names: Collection[bytes]) -> bool:
    """Whether a file goes with a database beside it."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in (b"-wal", b"-journal"))


class BothContents:
    """The bytes of either half, by the name of the content."""

    def __init__(self, visible: FileContents, history: HiddenHistory) -> None:
        self._visible, self._history = visible, history

    def chunks(self, state: FileState) -> Iterator[bytes]:
        if not state.oid.startswith(_HERE):
            return self._visible.chunks(state)
        if state.oid.startswith(_HERE + _LINK):
            return iter([os.fsencode(state.oid.removeprefix(_HERE + _LINK))])
        return self._stored(state)

    def _stored(self, state: FileState) -> Iterator[bytes]:
        ids, repository = self._history.contents.get(state.oid), self._history.repository
        if ids is None or repository is None:
            raise Damaged("its content is not known")
        try:
            yield from map(bytes, repository.loader.stream(ids))
        except (SafekeptError, OSError, ValueError) as error:
            raise Damaged(str(error)) from error

    def same(self, one: FileState, other: FileState) -> bool:
        """Whether two states are of the same bytes; size and time tell where a plan is only shown, since
        nothing is kept for it."""
        if (one.kind, one.size) != (other.kind, other.size) or one.kind == "directory":
            return False
        if one.oid == other.oid:
            return True
        looked_at = any(state.oid.startswith(_DISK) for state in (one, other))
        if not looked_at and one.oid.startswith(_HERE) == other.oid.startswith(_HERE):
            return False
        try:
            return self.holds(one, other.size, self.chunks(other))
        except (Damaged, SafekeptError, OSError):
            return one.mtime_ns == other.mtime_ns

    def holds(self, state: FileState, size: int, chunks: Iterable[bytes]) -> bool:
        if not state.oid.startswith(_HERE):
            return self._visible.holds(state, size, chunks)
        return size == state.size and _same_bytes(self.chunks(state), chunks)


def _same_bytes(one: Iterable[bytes], other: Iterable[bytes]) -> bool:
    """Whether two rows of pieces are the same bytes, wherever they are cut."""
    left = _steps(one)
    right = _steps(other)
    return all(a == b for a, b in zip_longest(left, right))


_STEP = 1 << 16


def _steps(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of one length."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= _STEP:
            yield bytes(waiting[:_STEP])
            del waiting[:_STEP]
    if waiting:
        yield bytes(waiting)


def looks_like(folders: HiddenFolders, then: TreeState) -> TreeState:
    """What lies there now by its looks alone, for a plan that is only shown: what has size and time of what
    was there then counts as the same."""
    state = TreeState()
    for path, folder in folders.folders.items():
        place = os.fsdecode(path)
        if folder.mode:
            state[place] = FileState("directory", folder.mode, folder.mtime_ns, 0, "")
        for name, mode, mtime_ns, size, link in folder.rows():
            full = f"{place}/{os.fsdecode(name)}" if place else os.fsdecode(name)
            if path + b"/" + name in folders.left or name in folders.left:
                continue
            old = then.get(full)
            same = old is not None and (old.size, old.mtime_ns) == (size, mtime_ns)
            kind = "symlink" if link else "file"
            oid = old.oid if old is not None and same else f"{_DISK}{full}"
            state[full] = FileState(kind, mode, mtime_ns, size, oid)
    return state


def _unknown(what: str) -> CheckpointDamaged:
    return CheckpointDamaged(what, kept="Nothing was changed", next_steps=())
