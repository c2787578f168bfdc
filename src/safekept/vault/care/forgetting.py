"""Forgetting, bringing back, pinning: a snapshot's tags written anew, and never a moment without it.

Forgetting deletes nothing: a tag hides the snapshot, and `unforget` brings it back until a prune takes
it for good after its grace period. Every change here writes the new snapshot file durably before it
deletes the old one, under an exclusive lock. A process that is killed in between leaves two files of
one snapshot; a listing shows the one that keeps more, and the next change here clears the other away.
The id that people see does not change: `original` carries it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep

from ..errors import NoSuchSnapshot, VaultDamaged, VaultLocked
from ..format.snapshot import Snapshot
from ..repo.locks import Lock
from ..snapshots import list_snapshots, one_of_each, public_id
from ..storage.base import FileKind, NotStored
from ..tags import (
    FORGOTTEN,
    PIN,
    forgotten_at,
    forgotten_tag,
    is_pinned,
    pin_tag,
    pinned_until,
    proven_tag,
    with_tag,
    without_tag,
)
from .policy import Policy
from .retention import DEFAULT_POLICIES, ForgetPlan, plan_forget, states_in

if TYPE_CHECKING:
    from ..repo.repository import Repository


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
    current = _current(repository, snapshots, lock)
    pinned = [snapshot for snapshot in current if is_pinned(snapshot, now_ns)]
    if pinned:
        raise SnapshotPinned.of(pinned)
    tag = forgotten_tag(now_ns)

    def change(snapshot: Snapshot) -> Snapshot:
        # Forgotten twice is forgotten at the first time: the grace period does not start again.
        return snapshot if forgotten_at(snapshot) is not None else with_tag(snapshot, tag)

    return _change(repository, current, lock, change, listener)


def unforget(
    repository: Repository, snapshots: Iterable[Snapshot], lock: Lock, *, listener: Listener = silent
) -> list[Snapshot]:
    """Bring forgotten ones back; those that are not forgotten stay as they are."""
    current = _current(repository, snapshots, lock)
    return _change(repository, current, lock, lambda one: without_tag(one, FORGOTTEN), listener)


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
    tag = pin_tag(until)
    current = _current(repository, snapshots, lock)
    return _change(
        repository, current, lock, lambda one: with_tag(without_tag(one, FORGOTTEN), tag), listener
    )


def unpin(
    repository: Repository, snapshots: Iterable[Snapshot], lock: Lock, *, listener: Listener = silent
) -> list[Snapshot]:
    current = _current(repository, snapshots, lock)
    return _change(repository, current, lock, lambda one: without_tag(one, PIN), listener)


def mark_proven(
    repository: Repository,
    snapshots: Iterable[Snapshot],
    lock: Lock,
    *,
    now_ns: int,
    listener: Listener = silent,
) -> list[Snapshot]:
    """Say of these that a drill restored them whole: the last one proven good never goes by itself."""
    tag = proven_tag(now_ns)
    current = _current(repository, snapshots, lock)
    return _change(repository, current, lock, lambda one: with_tag(one, tag), listener)


def forget_by_policy(
    repository: Repository,
    policies: Mapping[str, Policy] = DEFAULT_POLICIES,
    *,
    now_ns: int,
    chosen: Callable[[Snapshot], bool] = lambda snapshot: True,
    wait: float = 0.0,
    listener: Listener = silent,
) -> ForgetPlan | None:
    """Plan by policy and forget what the plan names; None where somebody works on the vault.

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


def settle(repository: Repository, lock: Lock) -> list[str]:
    """Delete what killed rewrites left beside a snapshot; the names of the files that went."""
    return [file.id for file in _settled(repository, lock)[1]]


def _settled(repository: Repository, lock: Lock) -> tuple[list[Snapshot], list[Snapshot]]:
    """Every snapshot once, read from the vault and not from a cache, and the files that went."""
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
    return found, left


def rewrite(repository: Repository, snapshot: Snapshot, changed: Snapshot, lock: Lock) -> Snapshot:
    """Put a changed snapshot in the place of the stored one; the new one is durable before the old goes."""
    _require_exclusive(lock)
    lock.prove()
    new = repository.save_snapshot(dataclasses.replace(changed, original=public_id(snapshot)))
    if new.id != snapshot.id:
        lock.prove()
        repository.delete_snapshot(snapshot.id)
    return dataclasses.replace(new, public=snapshot.public)


def _current(repository: Repository, snapshots: Iterable[Snapshot], lock: Lock) -> list[Snapshot]:
    """The same snapshots as they are now that we hold the lock: somebody may have changed their tags."""
    _require_exclusive(lock)
    repository.require_writable()
    known = {public_id(snapshot): snapshot for snapshot in _settled(repository, lock)[0]}
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
    return list(found.values())


def _change(
    repository: Repository,
    snapshots: list[Snapshot],
    lock: Lock,
    change: Callable[[Snapshot], Snapshot],
    listener: Listener,
) -> list[Snapshot]:
    done = []
    for number, snapshot in enumerate(snapshots):
        listener(Event("tags", number, len(snapshots), "snapshots", path=snapshot.short_id))
        changed = change(snapshot)
        same = changed.tags == snapshot.tags
        done.append(snapshot if same else rewrite(repository, snapshot, changed, lock))
    return done


def _require_exclusive(lock: Lock) -> None:
    if not lock.exclusive:
        raise ValueError("tags are rewritten under an exclusive lock only")
