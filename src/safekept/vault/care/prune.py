"""Pruning: forgotten snapshots go for good, then the packs that no snapshot needs any more.

Under an exclusive lock, in an order in which a kill at any moment loses nothing:

1. snapshot files past their grace, then their marks, and packs that no index names;
2. used blobs of wasteful packs into new packs, these into new index files;
3. index files without the packs that go; the old index files are deleted;
4. the packs themselves.

At every moment each used blob lies in a pack that an index names. What a killed prune leaves (blobs in
two packs, packs that no index names) the next one clears away. On a full disk step 2 is left out, and
steps 3 and 4 go index file by index file, so that a prune can still make room.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent
from safekept.core.files import NoRoom
from safekept.core.records import dataclass
from safekept.core.trash import GRACE

from ..marks import delete_mark
from ..repo.locks import Lock
from ..storage.base import FileKind
from .index_merge import merge_indexes, shrink_indexes
from .prune_plan import MAX_UNUSED, PrunePlan, PruneRefused, plan_prune
from .repack import copy_is_sound, repack

if TYPE_CHECKING:
    from ..repo.repository import Repository

__all__ = ["GRACE", "MAX_UNUSED", "PrunePlan", "PruneRefused", "Pruned", "carry_out", "plan_prune"]


@dataclass(slots=True)
class Pruned:
    """What a prune did."""

    snapshots: int = 0
    packs_deleted: int = 0
    packs_repacked: int = 0
    bytes_freed: int = 0  # of packs: what was deleted less what was rewritten
    index_files_before: int = 0
    index_files_after: int = 0
    #: Packs that were to be repacked and hold something that cannot be read: they stay. Name, reason.
    damaged: dict[str, str] = field(default_factory=dict)
    no_room: bool = False  # the disk was too full to pack anything again

    def as_dict(self) -> dict[str, object]:
        return {
            "snapshots": self.snapshots,
            "packs_deleted": self.packs_deleted,
            "packs_repacked": self.packs_repacked,
            "bytes_freed": self.bytes_freed,
            "index_files_before": self.index_files_before,
            "index_files_after": self.index_files_after,
            "damaged": dict(self.damaged),
            "no_room": self.no_room,
        }


def carry_out(repository: Repository, plan: PrunePlan, lock: Lock, *, listener: Listener = silent) -> Pruned:
    """Do what a plan says. Where the vault has changed since it was made, it is rebuilt first."""
    if not lock.exclusive:
        raise ValueError("a prune needs an exclusive lock")
    repository.require_writable()
    lock.prove()
    if _basis(repository) != plan.basis:
        options = plan.options
        plan = plan_prune(
            repository,
            now_ns=options.now_ns,
            grace=options.grace,
            max_unused=options.max_unused,
            floor=options.floor,
            leaving=options.leaving,
            listener=listener,
        )
    result = Pruned()
    repository.storage.sweep()
    before = _bytes_in_packs(repository)
    for name in plan.leftovers:
        lock.prove()
        repository.delete_snapshot(name)
    for snapshot in plan.snapshots:
        lock.prove()
        repository.delete_snapshot(snapshot.id)
        result.snapshots += 1
    # Marks afterwards: without its mark a snapshot that was forgotten would be back if this is killed in
    # between. A mark without its snapshot says nothing, and the next prune takes it away.
    for name in plan.marks:
        lock.prove()
        delete_mark(repository, name)
    _delete(repository, sorted(plan.unindexed), lock, result, listener)
    copied = _repack(repository, plan, lock, result, listener)
    spared = _packs_with_only_copies(repository, plan, copied)
    gone = (plan.delete.keys() | plan.lost | copied) - spared
    result.index_files_before = plan.index_files
    try:
        counts = merge_indexes(repository, gone, lock, merge=plan.merge_indexes, listener=listener)
        result.index_files_after = counts[1]
    except NoRoom:
        _make_room(repository, plan, gone, lock, result, listener)
    else:
        _delete(repository, sorted(gone - plan.lost), lock, result, listener)
    result.packs_repacked = len(copied - spared)
    repository.reload_index()
    result.bytes_freed = before - _bytes_in_packs(repository)
    return result


def _repack(
    repository: Repository, plan: PrunePlan, lock: Lock, result: Pruned, listener: Listener
) -> set[bytes]:
    if not plan.repack:
        return set()
    try:
        copied, damaged = repack(repository, plan.repack, lock, listener)
    except NoRoom:
        # Deleting needs next to no room, and is what helps now. What was packed so far is no use:
        # where an index names it already it stays as a second copy, else it goes again.
        result.no_room = True
        known = repository.reload_index(without_cache=True)
        for name, _ in list(repository.storage.list(FileKind.PACK)):
            if not known.has_pack(bytes.fromhex(name)):
                lock.prove()
                repository.storage.delete(FileKind.PACK, name)
        return set()
    result.damaged = {pack.hex(): reason for pack, reason in damaged.items()}
    return copied


def _make_room(
    repository: Repository,
    plan: PrunePlan,
    gone: set[bytes],
    lock: Lock,
    result: Pruned,
    listener: Listener,
) -> None:
    """The disk is so full that not even the index can be written at once: a little after the other."""
    result.no_room = True
    repository.storage.give_up_reserve()

    def delete(pack: bytes) -> None:
        if pack not in plan.lost:
            _delete(repository, [pack], lock, result, listener)

    shrink_indexes(repository, gone, lock, delete)
    result.index_files_after = sum(1 for _ in repository.storage.list(FileKind.INDEX))


def _packs_with_only_copies(repository: Repository, plan: PrunePlan, copied: set[bytes]) -> set[bytes]:
    """Packs with the only readable copy of a blob whose chosen copy turns out damaged: they stay."""
    spared: set[bytes] = set()
    going = plan.delete.keys() | copied
    for entry, chosen, others in plan.duplicates:
        if chosen in copied or not going.intersection(others):
            continue  # what was repacked was proven then
        if not copy_is_sound(repository, chosen, entry):
            spared.update(others)
    return spared


def _delete(
    repository: Repository, packs: list[bytes], lock: Lock, result: Pruned, listener: Listener
) -> None:
    for number, pack in enumerate(packs):
        listener(Event("delete", number, len(packs), "packs"))
        lock.prove()
        repository.storage.delete(FileKind.PACK, pack.hex())
        result.packs_deleted += 1


def _basis(repository: Repository) -> frozenset[str]:
    kinds = (FileKind.SNAPSHOT, FileKind.INDEX, FileKind.MARK)
    return frozenset(name for kind in kinds for name, _ in repository.storage.list(kind))


def _bytes_in_packs(repository: Repository) -> int:
    return sum(size for _, size in repository.storage.list(FileKind.PACK))
