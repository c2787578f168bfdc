"""The hidden half as a rollback reads it: states of points, and the bytes behind them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from itertools import zip_longest

from safekept.checkpoints.checkpoint import Checkpoint, CheckpointDamaged, FileState, Skipped
from safekept.checkpoints.rollback import Damaged, FileContents
from safekept.checkpoints.scan import HiddenFolders, KeptHidden, KeptLook
from safekept.checkpoints.store import TreeState
from safekept.core.entries import Kind
from safekept.core.errors import SafekeptError
from safekept.vault.read import content_of, snapshot_source
from safekept.vault.repo import Repository

#: How the names of contents begin that are not in the checkpoint store.
_HERE, _LINK, _DISK = "hidden:", "link:", "disk:"
LEFT_OUT = "left_out"


class HiddenHistory:
    """The hidden halves of one project's points, each read once."""

    def __init__(self, repository: Repository, kept: KeptHidden) -> None:
        self.repository, self.kept = repository, kept
        self._states: dict[str, TreeState] = {}
        self.contents: dict[str, bytes] = {}  # name of a content -> ids of its blobs in a row

    def state(self, checkpoint: Checkpoint, paths: Collection[str] | None = None) -> TreeState:
        """Raises CheckpointDamaged where nothing is kept of it."""
        found = self.kept.of(checkpoint)
        if found is None:
            raise _unknown(f"The hidden half of checkpoint {checkpoint.id} was not kept")
        return self.of(found)

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
        snapshot = self.repository.load_snapshot(look.snapshot)
        source, manifest = snapshot_source(self.repository, snapshot)
        state = TreeState()
        for entry in source:
            if entry.kind is Kind.DIRECTORY:
                state[entry.path] = FileState("directory", entry.mode, entry.mtime_ns, 0, "")
            elif entry.kind is Kind.SYMLINK:
                size = len(os.fsencode(entry.target))
                name = f"{_HERE}{_LINK}{entry.target}"
                state[entry.path] = FileState("symlink", entry.mode, entry.mtime_ns, size, name)
            else:
                ids = content_of(entry) or b""
                name = _HERE + hashlib.sha256(ids).hexdigest()
                self.contents[name] = ids
                state[entry.path] = FileState("file", entry.mode, entry.mtime_ns, entry.size, name)
        facts = manifest or {}
        left = facts.get(LEFT_OUT)
        for path, reason in left.items() if isinstance(left, dict) else ():
            state.skipped[path] = Skipped(path, "not-kept", str(reason))
        for remark in facts.get("remarks", ()):
            # Something was there, and could not be read: that it is not in here proves nothing.
            if isinstance(remark, dict) and remark.get("outcome") in ("unreadable", "locked"):
                path = str(remark.get("path"))
                state.skipped[path] = Skipped(path, "not-kept", str(remark.get("reason", "")))
        return state


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
        ids = self._history.contents.get(state.oid)
        if ids is None:
            raise Damaged("its content is not known")
        try:
            yield from map(bytes, self._history.repository.loader.stream(ids))
        except (SafekeptError, OSError, ValueError) as error:
            raise Damaged(str(error)) from error

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
