"""Deleting from a mirror what its vault has not any more: only when asked, and never on a doubt.

Snapshots go first, then index files, then packs that no index here names, then keys: what is left is a
whole vault at every moment. It is refused where it could cost somebody something: a damaged or empty
vault here, a vault in use there, snapshots of machines that the vault here knows nothing of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep

from ..errors import VaultDamaged
from ..format.snapshot import BadSnapshot, Snapshot
from ..marks import marks_in, read_marks
from ..repo.lock_file import Identity, locked_by, read_locks
from ..repo.sealed_files import load_file
from ..snapshots import list_snapshots, public_id
from ..storage.base import FileKind, NotStored, Storage
from .mirror import MirrorPlan

if TYPE_CHECKING:
    from ..repo.repository import Repository

#: What makes data visible goes first.
_ORDER = (FileKind.SNAPSHOT, FileKind.MARK, FileKind.INDEX, FileKind.PACK, FileKind.KEY)


_DAY_NS = 86_400 * 10**9


class MirrorPruneRefused(SafekeptError):
    code = "mirror-prune-refused"


def refuse_prune(repository: Repository, plan: MirrorPlan, target: Storage) -> list[Snapshot]:
    """Raise where deleting the surplus could cost somebody a snapshot; the snapshots that would go.

    A file that only has other tags here is no snapshot that goes.
    """
    snapshots, damaged = list_snapshots(repository)
    strangers = plan.surplus[FileKind.SNAPSHOT]
    if strangers and not snapshots:
        raise _refused(target, "the vault here has no snapshots at all, and the copy there has some")
    if damaged or repository.damaged_indexes or len(repository.index.packs) != _present(repository):
        raise _refused(target, "the vault here is damaged, and the copy may hold what it has lost")
    # Of this machine itself the last snapshot may have been forgotten.
    hosts = {snapshot.hostname for snapshot in snapshots} | {Identity.of_this_process().hostname}
    kept = {public_id(snapshot) for snapshot in snapshots}
    going = []
    for name in strangers:
        try:
            found = Snapshot.from_json(name, load_file(target, repository.key, FileKind.SNAPSHOT, name))
        except NotStored:
            continue
        except (VaultDamaged, BadSnapshot):
            reason = f"its snapshot {name[:8]} cannot be read, so nobody knows whose it is"
            raise _refused(target, reason) from None
        if found.hostname not in hosts:
            reason = f"it also holds snapshots of `{found.hostname}`, which are not in the vault here"
            raise _refused(target, reason)
        if public_id(found) not in kept:
            going.append(found)
    for lock in read_locks(target, repository.key):
        # No file of ours tells the time there, and our clock may be wrong.
        if time.time_ns() - lock.time_ns < _DAY_NS and not lock.abandoned:
            raise locked_by(target.location, lock)
    return sorted(going, key=lambda snapshot: snapshot.time_ns)


def _present(repository: Repository) -> int:
    """How many of the packs that the index names are there with the size that they need."""
    index = repository.index
    names = [pack.hex() for pack in index.packs]
    found = repository.storage.sizes(FileKind.PACK, names)
    # Where two index files disagree nobody knows the size (0): a vault for `check`, not for a prune.
    return sum(1 for name, size in zip(names, index.sizes, strict=True) if found.get(name) == size)


def prune_mirror(
    repository: Repository,
    plan: MirrorPlan,
    target: Storage,
    *,
    removed_keys: Collection[str] = (),
    check: Callable[[], None] | None = None,
    listener: Listener = silent,
) -> dict[str, int]:
    """Delete the surplus at the target; how many files of each kind. Call `refuse_prune` first.

    Keys go only where they are known to have been removed here: one that a bad disk lost may be the only
    way in.
    """
    named = {pack.hex() for pack in repository.index.packs}
    over = _marks_over(repository, plan, target)
    going = [
        (kind, name)
        for kind in _ORDER
        for name in sorted(plan.surplus[kind])
        # Lost here and still there: the copy is then the only one.
        if not (kind is FileKind.PACK and name in named)
        and not (kind is FileKind.KEY and name not in removed_keys)
        and not (kind is FileKind.MARK and name not in over)
    ]
    deleted: dict[str, int] = {}
    for number, (kind, name) in enumerate(going):
        listener(Event("delete", number, len(going), "files"))
        if check is not None:
            check()
        target.delete(kind, name)
        deleted[kind.plain] = deleted.get(kind.plain, 0) + 1
    # What pushes that were cut short left under a temporary name is in no list; a day old, it is nobody's.
    left = len(target.sweep())
    return {**deleted, "temporary": left} if left else deleted


def _marks_over(repository: Repository, plan: MirrorPlan, target: Storage) -> set[str]:
    """Of the marks that only the copy has, those that say nothing of what is left there.

    Where the vault here has lost its marks, the copy keeps what it knows: a pin is never lost by a push.
    """
    if not plan.surplus[FileKind.MARK]:
        return set()
    marks = marks_in(target, repository.key)
    for mark in read_marks(repository).newest.values():
        marks.add(mark)
    return set(marks.over(list_snapshots(repository)[0]))


def _refused(target: Storage, why: str) -> MirrorPruneRefused:
    return MirrorPruneRefused(
        f"Nothing is deleted at `{target.location}`: {why}",
        kept="Everything there stays as it is",
        next_steps=(
            NextStep(
                "vault check",
                before="Look at both:",
                after=",",
                then=NextStep("snapshot list", ("--all",), before="and"),
            ),
            "Push without `--prune`; nothing depends on it but room",
            "What is surely nobody's any more, restic itself can forget there",
        ),
        place=target.location,
    )
