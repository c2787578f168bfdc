"""Proof, before anything is touched, that what a rollback will replace or remove is in the undo point.

Two halves: the object is read back from the store and has the bytes its name promises; and the file on
disk has those very bytes now. A database counts by its committed state, and one that any program has
open is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from safekept.core.entries import EntryLost
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step
from safekept.core.platform.descriptors import open_here
from safekept.core.sqlite.format import SIDECARS, is_database

from ..checkpoint import FileState
from ..store.store import Store
from .placing import FileStamp
from .project_tree import ProjectTree

_CHUNK = 1 << 20
_LOOK = (NextStep("checkpoint status", before="Look at the store:"), "Then run the command again")
_OUTSIDE = (
    "In the sandbox of an agent the store can only be read: run the command in a terminal of your own",
    "Otherwise that disk may only be read now: see why (`dmesg` says more), then run the command again",
)


class UndoPointFailed(SafekeptError):
    code = "undo-point-failed"


class Damaged(Exception):
    """An object of the store is missing, or is not what its name says."""


def blob_name(size: int, chunks: Iterable[bytes], like: str) -> str:
    """The name git gives to these bytes, in the kind of hash that `like` has."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def checked_content(store: Store, state: FileState) -> Iterator[bytes]:
    """The bytes of an object; raises Damaged at the end where they are not what its name says."""
    digest = hashlib.sha256() if len(state.oid) == 64 else hashlib.sha1(usedforsecurity=False)
    try:
        digest.update(b"blob %d\0" % store.size_of(state.oid))
        for chunk in store.stream(state.oid):
            digest.update(chunk)
            yield chunk
    except (SafekeptError, OSError, KeyError, ValueError) as error:
        raise Damaged(str(error)) from error
    if digest.hexdigest() != state.oid:
        raise Damaged(f"object {state.oid} has other bytes than its name says")


class FileContents(Protocol):
    """Where the bytes behind a state are read."""

    def chunks(self, state: FileState) -> Iterator[bytes]:
        """All of them, in pieces. Raises Damaged where they are not what was stored."""
        ...

    def holds(self, state: FileState, size: int, chunks: Iterable[bytes]) -> bool:
        """Whether these are the very same bytes."""
        ...


class StoredContents:
    """Those of checkpoints: objects of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def chunks(self, state: FileState) -> Iterator[bytes]:
        return checked_content(self._store, state)

    def holds(self, state: FileState, size: int, chunks: Iterable[bytes]) -> bool:
        return blob_name(size, chunks, state.oid) == state.oid


def read_back(contents: FileContents, state: FileState) -> bytes:
    """Read an object whole; returns its first bytes. Raises Damaged."""
    head = b""
    for chunk in contents.chunks(state):
        if len(head) < 16:
            head += chunk[: 16 - len(head)]
    return head


def undo_point_failed(path: str, why: str) -> UndoPointFailed:
    return UndoPointFailed(
        f"The point to undo this rollback does not hold `{path}`: {why}",
        kept="Nothing was changed",
        next_steps=_LOOK,
        path=path,
    )


def room(error: OSError) -> tuple[Step, ...]:
    """What to do about a failed write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            NextStep("checkpoint prune", before="Make room:"),
            "Or free some space on that disk, then run the command again",
        )
    return _OUTSIDE if error.errno == errno.EROFS else _LOOK


def no_undo_point(project: str, why: str, steps: Sequence[Step] = ()) -> UndoPointFailed:
    return UndoPointFailed(
        f"The point to undo this rollback could not be taken in `{project}`: {why}",
        kept="Nothing was changed",
        next_steps=tuple(steps) or _LOOK,
        project=project,
    )


class PathProof:
    """What was found out about one path that is to be replaced or removed."""

    def __init__(self, old: FileStamp | None = None, reason: str = "", detail: str = "") -> None:
        self.old, self.reason, self.detail = old, reason, detail
        self.database = False
        self.sidecars: list[tuple[str, FileStamp]] = []


def prove(
    ground: ProjectTree, contents: FileContents, path: str, state: FileState, scratch: str
) -> PathProof:
    """Prove one path. `reason` says why it must be left; raises UndoPointFailed where the store fails."""
    try:
        head = read_back(contents, state)
    except Damaged as error:
        raise undo_point_failed(path, str(error)) from error
    facts = ground.look(path)
    if facts is None:
        return PathProof(reason="changed", detail="it is gone")
    try:
        if state.kind == "symlink":
            return _link(ground, contents, path, state, facts)
        if not stat.S_ISREG(facts.st_mode):
            return PathProof(reason="changed")
        if is_database(head):
            proof = _database(ground, contents, path, state, facts, scratch)
            proof.database = True
            return proof
        return _file(ground, contents, path, state)
    except OSError as error:
        return PathProof(reason="changed", detail=error.strerror or str(error))


def _link(
    ground: ProjectTree, contents: FileContents, path: str, state: FileState, facts: os.stat_result
) -> PathProof:
    if not stat.S_ISLNK(facts.st_mode):
        return PathProof(reason="changed")
    text = ground.link_text(path)
    if not contents.holds(state, len(text), [text]):
        return PathProof(reason="changed")
    return PathProof(FileStamp.of(facts))


def _file(ground: ProjectTree, contents: FileContents, path: str, state: FileState) -> PathProof:
    descriptor = ground.open(path)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != state.size:
            return PathProof(reason="changed")
        same = contents.holds(state, state.size, _read(descriptor))
        if not same or FileStamp.of(os.fstat(descriptor)) != FileStamp.of(facts):
            return PathProof(reason="changed")
        return PathProof(FileStamp.of(facts))
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Iterator[bytes]:
    while data := os.read(descriptor, _CHUNK):
        yield data


def open_elsewhere(full: str) -> str:
    """Who has a database open, in words; "" where none has. This process counts too."""
    from safekept.core.sqlite.holders import describe, holders

    found = holders(full)
    if found:
        return describe(found)
    with contextlib.suppress(OSError):
        facts = os.lstat(full)
        for descriptor in open_here():
            with contextlib.suppress(OSError):
                other = os.fstat(descriptor)
                if (other.st_dev, other.st_ino) == (facts.st_dev, facts.st_ino):
                    return "this process"
    return ""


def _database(
    ground: ProjectTree,
    contents: FileContents,
    path: str,
    state: FileState,
    facts: os.stat_result,
    scratch: str,
) -> PathProof:
    from safekept.core.sqlite.capture import CaptureOptions, capture

    # Asked before it is opened here: closing it would drop the locks that this process may have on it.
    if held := open_elsewhere(ground.full(path)):
        return PathProof(reason="held", detail=held)
    before = _stamps(ground, path)
    if len(before) == 1:
        proof = _file(ground, contents, path, state)
        if not proof.reason:
            return proof
    try:
        content = capture(ground.full(path), path, CaptureOptions(scratch, check=False))
        try:
            same = contents.holds(state, content.size, content.chunks())
        finally:
            content.close()
    except EntryLost as error:
        return PathProof(reason="changed", detail=str(error))
    if not same or _stamps(ground, path) != before:
        return PathProof(reason="changed")
    proof = PathProof(FileStamp.of(facts))
    proof.sidecars = [(path + suffix, before[suffix]) for suffix in SIDECARS if suffix in before]
    return proof


def _stamps(ground: ProjectTree, path: str) -> dict[str, FileStamp]:
    found = {}
    for suffix in ("", *SIDECARS):
        facts = ground.look(path + suffix)
        if facts is not None and stat.S_ISREG(facts.st_mode):
            found[suffix] = FileStamp.of(facts)
    return found
