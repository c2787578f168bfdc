"""A checkpoint written out into an empty directory, and held against what it says of itself.

What a rollback would bring back, without the project: every object is read out of the store, every
file is read again from disk and named by git's own hash.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import field

from safekept.core.files import write_all
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint, FileState
from ..points.rollback_plan import file_mode
from ..store.store import Store
from .proving import Damaged, blob_name, checked_content

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


@dataclass(slots=True)
class Unpacked:
    """What came out of one checkpoint."""

    files: int = 0
    bytes: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)  # path and why


def size_of(store: Store, point: Checkpoint) -> int:
    """The room that a checkpoint takes when it is written out. Raises CheckpointDamaged."""
    state = store.state(point)
    return sum(-(-item.size // 4096) * 4096 + 4096 for item in state.values())


def unpack(store: Store, point: Checkpoint, directory: str) -> Unpacked:
    """Write it below `directory`, which is ours and empty, and prove it. Raises CheckpointDamaged.

    OSError where the disk does not take it.
    """
    state = store.state(point)
    result = Unpacked()
    for path in sorted(path for path, item in state.items() if item.kind == "directory"):
        os.makedirs(os.path.join(directory, path), mode=0o700, exist_ok=True)
    for path, item in sorted(state.items()):
        if item.kind == "directory":
            continue
        full = os.path.join(directory, path)
        os.makedirs(os.path.dirname(full), mode=0o700, exist_ok=True)
        try:
            _write(store, item, full)
        except Damaged as error:
            result.wrong.append((path, str(error)))
            continue
        result.files += 1
        result.bytes += item.size
        if why := _differs(item, full) or _with_mode_and_time(item, full):
            result.wrong.append((path, why))
    return result


def _write(store: Store, item: FileState, full: str) -> None:
    if item.kind == "symlink":
        os.symlink(b"".join(checked_content(store, item)), os.fsencode(full))
        return
    descriptor = os.open(full, _CREATE, 0o600)
    try:
        for chunk in checked_content(store, item):
            write_all(descriptor, chunk)
    finally:
        os.close(descriptor)


def _differs(item: FileState, full: str) -> str:
    """Read again from disk, and named by git's hash."""
    if item.kind == "symlink":
        target = os.readlink(os.fsencode(full))
        return "" if blob_name(len(target), [target], item.oid) == item.oid else "has another target"
    same = blob_name(os.lstat(full).st_size, _read(full), item.oid) == item.oid
    return "" if same else "has other bytes than its name in the store says"


def _with_mode_and_time(item: FileState, full: str) -> str:
    """Its mode and time, given last: it may be a file that not even its owner may read."""
    if item.kind == "symlink":
        return ""
    os.chmod(full, file_mode(item))
    os.utime(full, ns=(item.mtime_ns, item.mtime_ns))
    return "" if stat.S_IMODE(os.lstat(full).st_mode) == file_mode(item) else "has another mode"


def _read(full: str) -> Iterator[bytes]:
    descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while chunk := os.read(descriptor, _CHUNK):
            yield chunk
    finally:
        os.close(descriptor)
