"""Dropping checkpoints, with a memory of what was dropped.

What a dropped checkpoint held stays in the store for a grace period: its commit is written down here
before its ref goes, and maintenance takes what is written down lately for as good as a ref. What a person
dropped may be given a longer grace than the ordinary one; it holds while the store is within its limit.
Until then a checkpoint can be brought back: `bringing_back`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable

from safekept.core.files import durable_write, write_all
from safekept.core.locks import process_lock
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint
from ..project import ORPHAN, presence, project_id
from ..store.metadata import from_message
from ..store.objects import DIRECTORY, BadObject, decode_commit, decode_tree
from ..store.pack_reader import BadGitPack
from ..store.quarantine import maintenance_lock
from ..store.store import Store

# Which checkpoints are damaged: something that they hold is not in the store any more.


class Soundness:
    """Looks whether everything that is held is there. What points share is looked at once.

    A status must not take long: after so many seconds what was not looked at counts as sound.
    """

    def __init__(self, store: Store, seconds: float = 1.0) -> None:
        self._store, self._until = store, time.monotonic() + seconds
        self._whole: dict[bytes, bool] = {}

    def damaged(self, points: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Those that are not whole."""
        return [point for point in points if not self._sound(point)]

    def _sound(self, point: Checkpoint) -> bool:
        try:
            data = self._store.objects.read_as(b"commit", bytes.fromhex(point.commit))
            return self._tree(decode_commit(data, point.commit)[0])
        except (BadObject, BadGitPack, OSError, ValueError):
            return False
        except RecursionError:  # nested deeper than this can look
            return True

    def _tree(self, oid: bytes) -> bool:
        known = self._whole.get(oid)
        if known is not None or time.monotonic() > self._until:
            return known is not False
        try:
            entries = decode_tree(self._store.objects.read_as(b"tree", oid), oid.hex())
        except (BadObject, BadGitPack, OSError):
            self._whole[oid] = False
            return False
        sound = all(
            self._tree(child) if mode == DIRECTORY else child in self._store.objects
            for mode, _, child in entries
        )
        self._whole[oid] = sound
        return sound


_NAME = "dropped.jsonl"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Dropped:
    """One checkpoint that was dropped, and how long its content is kept."""

    project: str
    id: str
    commit: str
    time_ns: int
    operation: str = ""  # of the journal, where a person did it
    grace_ns: int = 0  # 0: the ordinary one

    def until_ns(self, ordinary_ns: int, *, longer: bool = True) -> int:
        """When its content may go."""
        return self.time_ns + (self.grace_ns if longer and self.grace_ns > ordinary_ns else ordinary_ns)

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


def drop_checkpoints(
    store: Store, points: Iterable[Checkpoint], now_ns: int, *, operation: str = "", grace_ns: int = 0
) -> int:
    """Drop them; returns how many. Their content goes with maintenance, after the grace period."""
    gone = list(points)
    if not gone:
        return 0
    lines = [
        json.dumps(Dropped(p.project, p.id, p.commit, now_ns, operation, grace_ns).as_dict()) for p in gone
    ]
    try:
        _note(store.directory, lines)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        # Without room there is no grace either; deleting must work above all.
    try:
        store.drop(gone)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        _make_room(store)
        store.drop(gone)
    return len(gone)


def _note(directory: str, lines: list[str]) -> None:
    path = os.path.join(directory, _NAME)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # A line that a killed process left unfinished must not swallow the first of ours.
        write_all(descriptor, ("\n" + "\n".join(lines) + "\n").encode())
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def _make_room(store: Store) -> None:
    """A few blocks, so that the list of refs can be rewritten: caches only cost time."""
    base = os.path.join(store.directory, "projects")
    for identity in os.listdir(base) if os.path.isdir(base) else ():
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(base, identity, "cache"))


def held_by_grace(directory: str, now_ns: int, ordinary_ns: int, *, longer: bool = True) -> set[str]:
    """Commits of checkpoints that were dropped and are within their grace."""
    return {
        entry.commit for entry in dropped(directory) if entry.until_ns(ordinary_ns, longer=longer) >= now_ns
    }


def forget_dropped(directory: str, over: Callable[[Dropped], bool]) -> None:
    """Keep the record short: what is past its grace, or there again, is not needed any more."""
    entries = dropped(directory)
    kept = [entry for entry in entries if not over(entry)]
    if len(kept) < len(entries):
        data = "".join(json.dumps(entry.as_dict()) + "\n" for entry in kept).encode()
        with contextlib.suppress(OSError):  # a longer record does no harm
            durable_write(os.path.join(directory, _NAME), data)


def dropped(directory: str) -> list[Dropped]:
    """Every checkpoint that is written down as dropped, oldest first."""
    found = []
    try:
        with open(os.path.join(directory, _NAME), "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
            if len(bytes.fromhex(entry["commit"])) == 20:
                found.append(
                    Dropped(
                        str(entry["project"]),
                        str(entry["id"]),
                        str(entry["commit"]),
                        int(entry["time_ns"]),
                        str(entry.get("operation") or ""),
                        int(entry.get("grace_ns") or 0),
                    )
                )
        except (ValueError, KeyError, TypeError):
            continue  # torn by a kill, or foreign
    return found


def tidy_records(store: Store) -> None:
    """Shorten what is kept beside the store of checkpoints that are gone; all of it is only a help.

    A take may be writing there at this moment: what it adds and we lose is found out again.
    """
    base = os.path.join(store.directory, "projects")
    with_points = store.refs.projects()
    for identity in os.listdir(base) if os.path.isdir(base) else ():
        place = os.path.join(base, identity)
        if identity in with_points:
            _shorten_ledger(store, place, identity)
            continue
        path = store.project_path(identity)
        if path is not None and presence(place, path).state == ORPHAN:
            shutil.rmtree(place, ignore_errors=True)
            continue
        for name in ("cache", "ledger"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(place, name))


def _shorten_ledger(store: Store, place: str, identity: str) -> None:
    path, project = os.path.join(place, "ledger"), store.project_path(identity)
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            lines = sum(1 for line in file if line.strip())
        points = store.checkpoints(project) if project else []
        if points and lines > 2 * len(points) + 32:
            durable_write(path, b"".join(json.dumps(p.as_dict()).encode() + b"\n" for p in reversed(points)))


# Checkpoints that were dropped and whose content is still there get their refs again. Under the lock of
# maintenance: nothing can be deleted meanwhile. A checkpoint comes back only where every piece of it is
# there; one that is not whole any more is named and stays gone.

_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class LandingResult:
    """What has its ref again, and what could not get it."""

    back: tuple[Checkpoint, ...]
    lost: tuple[Dropped, ...]


def bring_back(
    store: Store, wanted: Callable[[Dropped], bool], *, look_only: bool = False, wait: float = 60.0
) -> LandingResult:
    """Bring back what is wanted of what was dropped; with `look_only`, say what would come."""
    with process_lock(maintenance_lock(store.directory), "bringing checkpoints back", wait):
        back, lost = [], []
        soundness = Soundness(store, _SECONDS)
        for entry in dropped(store.directory):
            if not wanted(entry):
                continue
            point = _read(store, entry)
            if point is None or soundness.damaged([point]):
                lost.append(entry)
                continue
            back.append(point)
            identity = project_id(entry.project)
            if not look_only and store.refs.get(identity, entry.id) is None:
                scratch = store.project_directory(entry.project)
                store.open_refs(identity)
                store.refs.create(identity, entry.id, entry.commit, scratch)
        if back and not look_only:
            again = {(point.project, point.id) for point in back}
            forget_dropped(store.directory, lambda entry: (entry.project, entry.id) in again)
    return LandingResult(tuple(back), tuple(lost))


def _read(store: Store, entry: Dropped) -> Checkpoint | None:
    try:
        content = store.objects.read_as(b"commit", bytes.fromhex(entry.commit))
        return from_message(decode_commit(content, entry.commit)[1], entry.commit)
    except (BadObject, BadGitPack, OSError, ValueError):
        return None
