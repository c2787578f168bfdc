"""Deleting from a mirror what its vault has not any more: only when asked, and never on a doubt.

Snapshots go first, then index files, then packs that no index here names, then keys: what is left is a
whole vault at every moment. It is refused where it could lose something: a damaged or empty
vault here, a vault in use there. Snapshots that the vault here never had stay: another machine made them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.snapshot import BadSnapshot, Snapshot
from ..marks import Marks, marks_in, read_marks
from ..repo.lock_file import locked_by, read_locks
from ..repo.sealed_files import load_file
from ..snapshots import list_snapshots, public_id
from ..storage.base import FileKind, NotStored, Storage
from ..tags import forgotten_at
from .mirror import MirrorPlan

if TYPE_CHECKING:
    from ..repo.repository import Repository

#: What makes data visible goes first.
_ORDER = (FileKind.SNAPSHOT, FileKind.MARK, FileKind.INDEX, FileKind.PACK, FileKind.KEY)


_DAY_NS = 86_400 * 10**9


class MirrorPruneRefused(SafekeptError):
    code = "mirror-prune-refused"


@dataclass(frozen=True, slots=True)
class MirrorPrune:
    """What a prune of a copy deletes there, and what it leaves to the machine that made it."""

    files: tuple[tuple[FileKind, str], ...]  # in the order of deleting
    leaving: tuple[Snapshot, ...]  # oldest first, and so are the next
    staying: tuple[Snapshot, ...]  # never in the vault here: another machine has its copy there, too


def plan_mirror_prune(
    repository: Repository,
    plan: MirrorPlan,
    target: Storage,
    *,
    once_here: Collection[str] = (),
    removed_keys: Collection[str] = (),
) -> MirrorPrune:
    """What would go; raise where deleting it could lose a snapshot.

    A snapshot goes where it is known to have been here (`once_here`: ids as people see them) or was forgotten
    by its owner. Any other is not ours to delete: a machine that was rebuilt from the copy pushes there
    too. While one of those stays, so do all index files and packs, since what it needs is unknown here.

    Keys go only where they are known to have been removed here: one that a bad disk lost may be the only
    way in, and a machine that was rebuilt has its own. A file that only has other tags here is no snapshot
    that goes.
    """
    snapshots, damaged = list_snapshots(repository)
    surplus = plan.surplus[FileKind.SNAPSHOT]
    if surplus and not snapshots:
        raise _refused(target, "the vault here has no snapshots at all, and the copy there has some")
    if damaged or repository.damaged_indexes or len(repository.index.packs) != _present(repository):
        raise _refused(target, "the vault here is damaged, and the copy may hold what it has lost")
    kept = {public_id(snapshot) for snapshot in snapshots}
    marks = _marks(repository, plan, target)
    leaving: list[Snapshot] = []
    staying: list[Snapshot] = []
    for name in surplus:
        try:
            found = Snapshot.from_json(name, load_file(target, repository.key, FileKind.SNAPSHOT, name))
        except NotStored:
            continue
        except (VaultDamaged, BadSnapshot):
            reason = f"its snapshot {name[:8]} cannot be read, so its owner is unknown"
            raise _refused(target, reason) from None
        called = public_id(found)
        if called in kept:
            continue
        (said,) = marks.on([found])
        ours = called in once_here or found.id in once_here or forgotten_at(said) is not None
        (leaving if ours else staying).append(found)
    for lock in read_locks(target, repository.key):
        # No file of ours tells the time there, and our clock may be wrong.
        if time.time_ns() - lock.time_ns < _DAY_NS and not lock.abandoned:
            raise locked_by(target.location, lock)
    spared = {snapshot.id for snapshot in staying}
    named = {pack.hex() for pack in repository.index.packs}
    over = set(marks.over([*snapshots, *staying]))
    goes: dict[FileKind, Callable[[str], bool]] = {
        FileKind.SNAPSHOT: lambda name: name not in spared,
        # Where the vault here has lost its marks, the copy keeps what it knows: no push loses a pin.
        FileKind.MARK: lambda name: name in over,
        FileKind.INDEX: lambda name: not staying,
        # Lost here and still there: the copy is then the only one.
        FileKind.PACK: lambda name: not staying and name not in named,
        FileKind.KEY: lambda name: name in removed_keys,
    }
    return MirrorPrune(
        tuple((kind, name) for kind in _ORDER for name in sorted(plan.surplus[kind]) if goes[kind](name)),
        *(tuple(sorted(some, key=lambda snapshot: snapshot.time_ns)) for some in (leaving, staying)),
    )


def _present(repository: Repository) -> int:
    """How many of the packs that the index names are there with the size that they need."""
    index = repository.index
    names = [pack.hex() for pack in index.packs]
    found = repository.storage.sizes(FileKind.PACK, names)
    # Where two index files disagree the size is unknown (0): a vault for `check`, not for a prune.
    return sum(1 for name, size in zip(names, index.sizes, strict=True) if found.get(name) == size)


def prune_mirror(
    planned: MirrorPrune,
    target: Storage,
    *,
    check: Callable[[], None] | None = None,
    listener: Listener = silent,
) -> dict[str, int]:
    """Delete at the target what was planned; how many files of each kind."""
    deleted: dict[str, int] = {}
    for number, (kind, name) in enumerate(planned.files):
        listener(Event("delete", number, len(planned.files), "files"))
        if check is not None:
            check()
        target.delete(kind, name)
        deleted[kind.plain] = deleted.get(kind.plain, 0) + 1
    # What pushes that were cut short left under a temporary name is in no list; a day old, it is left over.
    left = len(target.sweep())
    return {**deleted, "temporary": left} if left else deleted


def _marks(repository: Repository, plan: MirrorPlan, target: Storage) -> Marks:
    """What is said of the snapshots there, by the copy and by the vault here; the newest word counts."""
    if not (plan.surplus[FileKind.MARK] or plan.surplus[FileKind.SNAPSHOT]):
        return Marks()  # not asked for
    marks = marks_in(target, repository.key)
    for mark in read_marks(repository).newest.values():
        marks.add(mark)
    return marks


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
            "Snapshots that surely nothing needs any more can be forgotten there with restic",
        ),
        place=target.location,
    )
