"""Forgetting, bringing back, pinning: a mark beside the snapshot, whose file and id stay as they are.

Forgetting deletes nothing: a mark hides the snapshot, and `unforget` brings it back until a prune takes
it for good after its grace period. Marks are written under an exclusive lock: no prune runs meanwhile.
Earlier versions rewrote the snapshot with other tags; what a killed one left beside it is cleared away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep

from ..errors import NoSuchSnapshot, VaultDamaged, VaultLocked
from ..format.snapshot import Snapshot
from ..marks import Mark, read_marks, write_mark
from ..repo.locks import Lock
from ..snapshots import list_snapshots, one_of_each, public_id
from ..storage.base import FileKind, NotStored
from ..tags import FORGOTTEN, PIN, PROVEN, forgotten_at, is_pinned, moment_text, pin_tag, pinned_until
from .policy import Policy
from .retention import DEFAULT_POLICIES, ForgetPlan, plan_forget, states_in

if TYPE_CHECKING:
    from ..repo.repository import Repository

#: What is said of a snapshot: the name of a mark and its value; None takes it away.
Said = dict[str, str | None]


class SnapshotPinned(SafekeptError):
    code = "snapshot-pinned"

    @classmethod
    def of(cls, snapshots: list[Snapshot]) -> SnapshotPinned:
        first, more = snapshots[0], len(snapshots) - 1
        day = pinned_until(first)
        until = f" until {day}" if day else ""
        others = f", and so are {more} others" if more else ""
        return cls(
            f"Snapshot {first.short_id} is pinned{until}{others}",
            kept="No snapshot was forgotten",
            next_steps=(
                NextStep(
                    "snapshot pin",
                    ("--remove", first.short_id),
                    before="If it may go, take the pin away first:",
                ),
            ),
            snapshots=[public_id(snapshot) for snapshot in snapshots],
        )


def forget(
    repository: Repository,
    snapshots: Iterable[Snapshot],
    lock: Lock,
    *,
    now_ns: int,
    listener: Listener = silent,
) -> list[Snapshot]:
    """Hide these from now on; they stay restorable until pruned. SnapshotPinned where one is pinned."""
    current = _Current(repository, snapshots, lock)
    pinned = [snapshot for snapshot in current.chosen if is_pinned(snapshot, now_ns)]
    if pinned:
        raise SnapshotPinned.of(pinned)

    def say(snapshot: Snapshot) -> Said:
        # Forgotten twice is forgotten at the first time: the grace period does not start again.
        return {} if forgotten_at(snapshot) is not None else {FORGOTTEN: moment_text(now_ns)}

    return current.mark(say, listener)


def unforget(
    repository: Repository, snapshots: Iterable[Snapshot], lock: Lock, *, listener: Listener = silent
) -> list[Snapshot]:
    """Bring forgotten ones back; those that are not forgotten stay as they are."""
    return _Current(repository, snapshots, lock).mark(_called_back, listener)


def pin(
    repository: Repository,
    snapshots: Iterable[Snapshot],
    lock: Lock,
    *,
    until: str = "",
    listener: Listener = silent,
) -> list[Snapshot]:
    """Keep these whatever the policies say, for ever or until a day is over (`YYYY-MM-DD`).

    A forgotten one is brought back by it. ValueError where `until` is no day.
    """
    pin_tag(until)

    def say(snapshot: Snapshot) -> Said:
        pinned: Said = {} if pinned_until(snapshot) == until else {PIN: until}
        return {**pinned, **_called_back(snapshot)}

    return _Current(repository, snapshots, lock).mark(say, listener)


def unpin(
    repository: Repository, snapshots: Iterable[Snapshot], lock: Lock, *, listener: Listener = silent
) -> list[Snapshot]:
    def say(snapshot: Snapshot) -> Said:
        return {} if pinned_until(snapshot) is None else {PIN: None}

    return _Current(repository, snapshots, lock).mark(say, listener)


def mark_proven(
    repository: Repository,
    snapshots: Iterable[Snapshot],
    lock: Lock,
    *,
    now_ns: int,
    listener: Listener = silent,
) -> list[Snapshot]:
    """Say of these that a drill restored them whole: the last one proven good never goes by itself."""
    proven: Said = {PROVEN: moment_text(now_ns)}
    return _Current(repository, snapshots, lock).mark(lambda snapshot: proven, listener)


def _called_back(snapshot: Snapshot) -> Said:
    return {} if forgotten_at(snapshot) is None else {FORGOTTEN: None}


def forget_by_policy(
    repository: Repository,
    policies: Mapping[str, Policy] = DEFAULT_POLICIES,
    *,
    now_ns: int,
    chosen: Callable[[Snapshot], bool] = lambda snapshot: True,
    wait: float = 0.0,
    listener: Listener = silent,
) -> ForgetPlan | None:
    """Plan by policy and forget what the plan names; None where another process works on the vault.

    What an automatic run calls after a snapshot: without anything to forget it takes no lock, and where
    the vault is in use it leaves the work to the next run. `chosen` narrows it, to one home for example.
    """

    def plan() -> ForgetPlan:
        members = [snapshot for snapshot in list_snapshots(repository)[0] if chosen(snapshot)]
        return plan_forget(members, policies, now_ns=now_ns, facts=states_in(repository))

    found = plan()
    if not found.forget:
        return found
    try:
        lock = repository.lock(exclusive=True, wait=wait)
    except VaultLocked:
        return None
    with lock:
        found = plan()
        forget(repository, [item.snapshot for item in found.forget], lock, now_ns=now_ns, listener=listener)
    return found


def _settled(repository: Repository, lock: Lock) -> list[Snapshot]:
    """Every snapshot once, read from the vault and not from a cache.

    What killed rewrites of earlier versions left beside one is deleted.
    """
    _require_exclusive(lock)
    files = []
    for name, _ in repository.storage.list(FileKind.SNAPSHOT):
        try:
            files.append(repository.load_snapshot(name))
        except (VaultDamaged, NotStored):
            continue
    found, left = one_of_each(files)
    for file in left:
        lock.prove()
        repository.delete_snapshot(file.id)
    return found


class _Current:
    """The same snapshots as they are now that we hold the lock: they may have been marked meanwhile."""

    def __init__(self, repository: Repository, snapshots: Iterable[Snapshot], lock: Lock) -> None:
        _require_exclusive(lock)
        repository.require_writable()
        self._repository, self._lock = repository, lock
        self._marks = read_marks(repository)
        there = self._marks.on(_settled(repository, lock))
        known = {one.id: one for one in there} | {public_id(one): one for one in there}
        found = {}
        for snapshot in snapshots:
            now = known.get(public_id(snapshot)) or known.get(snapshot.id)
            if now is None:
                raise NoSuchSnapshot(
                    f"Snapshot {snapshot.short_id} is no longer in the vault",
                    kept="No snapshot was changed",
                    next_steps=(NextStep("snapshot list", before="See those that are:"),),
                )
            found[now.id] = now
        self.chosen = list(found.values())

    def mark(self, say: Callable[[Snapshot], Said], listener: Listener) -> list[Snapshot]:
        """Store what is to be said of each; the snapshots with it."""
        for number, snapshot in enumerate(self.chosen):
            listener(Event("marks", number, len(self.chosen), "snapshots", path=snapshot.short_id))
            for name, value in say(snapshot).items():
                self._lock.prove()
                self._write(public_id(snapshot), name, value)
        return self._marks.on(self.chosen)

    def _write(self, snapshot: str, name: str, value: str | None) -> None:
        standing = self._marks.newest.get((snapshot, name))
        # A clock that was set back must not make the new mark the older one.
        moment = max(time.time_ns(), standing.time_ns + 1 if standing is not None else 0)
        self._marks.add(write_mark(self._repository, Mark(snapshot, name, value, moment)))


def _require_exclusive(lock: Lock) -> None:
    if not lock.exclusive:
        raise ValueError("snapshots are marked under an exclusive lock only")
