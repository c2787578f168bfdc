"""What a prune would do: which snapshot files go, which packs go, which are repacked.

Nothing is changed here. Everything that any readable snapshot needs, forgotten ones within their grace
period included, counts as used. Whatever casts doubt on that answer stops the plan with PruneRefused:
a snapshot, index or directory that cannot be read, a used blob that no sound pack holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass
from safekept.core.trash import GRACE

from ..errors import VaultDamaged
from ..format.blobs import BlobKind, PackEntry
from ..format.snapshot import Snapshot
from ..marks import mark_place, read_marks
from ..read.trees import used_blobs
from ..repo import index as index_file
from ..repo.index import Index
from ..snapshots import one_of_each, public_id
from ..storage.base import FileKind, NotStored, stored_name
from ..tags import forgotten_at, is_pinned
from .repack import PackFacts, choose_packs, measure_pack_use

if TYPE_CHECKING:
    from ..repo.repository import Repository

#: Unused bytes that may stay, as a share of the whole: restic's `--max-unused`.
MAX_UNUSED = 0.05
#: Below this much free room, or this share of the disk where that is less, there is no grace.
FLOOR = 1 << 30
FLOOR_SHARE = 0.05
#: So many index files that are not full are merged into one.
MERGE = 8


class PruneRefused(SafekeptError):
    code = "prune-refused"

    @classmethod
    def because(cls, what: str, *steps: Step, **facts: object) -> PruneRefused:
        return cls(
            f"Nothing was pruned: {what}",
            kept="Every snapshot and every byte of the vault is as it was",
            next_steps=(NextStep("vault check", ("--read-data",), before="See what is damaged:"), *steps),
            **facts,
        )


@dataclass(frozen=True, slots=True)
class PruneOptions:
    now_ns: int
    grace: float = GRACE
    max_unused: float = MAX_UNUSED
    floor: int = FLOOR
    leaving: frozenset[str] = frozenset()


@dataclass(slots=True)
class PrunePlan:
    """What would go, what would be repacked, and how many bytes that frees (estimated)."""

    options: PruneOptions
    snapshots: list[Snapshot] = field(default_factory=list)  # past their grace: to be deleted
    waiting: list[Snapshot] = field(default_factory=list)  # forgotten, but still in their grace
    leftovers: list[str] = field(default_factory=list)  # files that killed rewrites left
    marks: list[str] = field(default_factory=list)  # marks that mean nothing once those are gone
    grace_waived: bool = False  # the disk is nearly full
    delete: dict[bytes, int] = field(default_factory=dict)  # packs that no snapshot needs, with their sizes
    unindexed: dict[bytes, int] = field(default_factory=dict)  # packs that no index names
    lost: set[bytes] = field(default_factory=set)  # named by an index, not there, and not needed
    repack: dict[bytes, list[PackEntry]] = field(default_factory=dict)  # pack -> what of it is used
    #: Blobs that lie in several packs: where the kept copy is, and the packs that lose theirs.
    duplicates: list[tuple[PackEntry, bytes, tuple[bytes, ...]]] = field(default_factory=list)
    merge_indexes: bool = False
    index_files: int = 0
    packs: int = 0
    bytes_before: int = 0
    bytes_used: int = 0
    bytes_repacked: int = 0  # how much has to be rewritten
    bytes_freed: int = 0
    #: What the plan was made of: it holds only while these are the snapshot, mark and index files.
    basis: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        work = (self.snapshots, self.leftovers, self.delete, self.unindexed, self.lost, self.repack)
        return not any(work) and not self.merge_indexes

    def as_dict(self) -> dict[str, object]:
        return {
            "snapshots": [public_id(snapshot) for snapshot in self.snapshots],
            "waiting": [public_id(snapshot) for snapshot in self.waiting],
            "grace_waived": self.grace_waived,
            "packs": self.packs,
            "packs_deleted": len(self.delete) + len(self.unindexed),
            "packs_repacked": len(self.repack),
            "duplicate_blobs": len(self.duplicates),
            "index_files": self.index_files,
            "bytes_before": self.bytes_before,
            "bytes_used": self.bytes_used,
            "bytes_repacked": self.bytes_repacked,
            "bytes_freed": self.bytes_freed,
        }


def plan_prune(
    repository: Repository,
    *,
    now_ns: int,
    grace: float = GRACE,
    max_unused: float = MAX_UNUSED,
    floor: int = FLOOR,
    leaving: Collection[str] = (),
    listener: Listener = silent,
) -> PrunePlan:
    """What a prune at that time would do. Take a lock first: a shared one to look, else an exclusive one.

    `grace` in seconds; 0: none. `leaving` are public ids of snapshots that are to go as if they had
    been forgotten long ago: what a face shows before it forgets them. Without a lock, or with a shared
    one, it is an estimate; `carry_out` plans again where the vault has changed meanwhile.
    """
    repository.require_writable()
    plan = PrunePlan(PruneOptions(now_ns, grace, max_unused, floor, frozenset(leaving)))
    # Snapshots before the index: what a running snapshot adds is then in the index, too.
    kept, names = _sort_out(repository, plan)
    index, files = _read_index(repository)
    plan.index_files = len(files)
    plan.basis = frozenset(names) | frozenset(files)
    half = index_file.MOST_BLOBS // 2
    plan.merge_indexes = sum(blobs < half for blobs in files.values()) > MERGE
    try:
        used = used_blobs(repository, kept, listener)
    except VaultDamaged as error:
        raise PruneRefused.because(error.clause, *error.next_steps[1:], **error.facts) from error
    listener(Event("plan", 0, len(index.packs), "packs"))
    sizes = {bytes.fromhex(name): size for name, size in repository.storage.list(FileKind.PACK)}
    weighed = measure_pack_use(index, used, sizes)
    if weighed.missing:
        count, first = len(weighed.missing), min(weighed.missing).hex()
        raise PruneRefused.because(
            f"{count} pieces that snapshots need are in no sound pack ({first[:12]}, …)",
            NextStep("vault prune", ("--now",), before="Forget the snapshots that it names, then prune with"),
            missing=count,
        )
    _fill(plan, weighed.packs, choose_packs(weighed.packs, max_unused), index, used, sizes)
    plan.duplicates = weighed.duplicates
    return plan


def _fill(
    plan: PrunePlan,
    packs: dict[bytes, PackFacts],
    repack: set[bytes],
    index: Index,
    used: dict[BlobKind, set[bytes]],
    sizes: dict[bytes, int],
) -> None:
    plan.packs = len(packs)
    plan.bytes_before = sum(sizes.values())
    plan.unindexed = {pack: size for pack, size in sizes.items() if pack not in packs}
    for pack, facts in packs.items():
        plan.bytes_used += facts.used
        if facts.used_blobs == 0:
            if pack in sizes:
                plan.delete[pack] = sizes[pack]
            else:
                plan.lost.add(pack)
    for pack, entries in index.by_pack() if repack else ():
        if pack in repack:
            given_up = packs[pack].given_up
            plan.repack[pack] = [
                entry
                for entry in entries
                if entry.id in used[entry.kind] and (entry.kind, entry.id) not in given_up
            ]
    # What is rewritten needs headers, too: 41 bytes a blob.
    plan.bytes_repacked = sum(packs[pack].used + 41 * packs[pack].used_blobs for pack in repack)
    gone = sum(sizes[pack] for pack in repack) - plan.bytes_repacked
    plan.bytes_freed = sum(plan.delete.values()) + sum(plan.unindexed.values()) + max(0, gone)


def _sort_out(repository: Repository, plan: PrunePlan) -> tuple[list[Snapshot], list[str]]:
    """Fill in which snapshots and marks go; the snapshots that stay, and the names of all files."""
    files, names = [], []
    for name, _ in repository.storage.list(FileKind.SNAPSHOT):
        names.append(name)
        try:
            files.append(repository.load_snapshot(name))
        except VaultDamaged as error:
            place = stored_name(FileKind.SNAPSHOT, name)
            raise PruneRefused.because(
                f"the file `{place}` cannot be read, so what it needs is unknown",
                f"Bring `{place}` back from a copy of the vault; if there is none, delete that file",
                file=place,
                reason=str(error.facts.get("reason", error.what)),
            ) from error
        except NotStored:
            continue
    marks = read_marks(repository)
    for name, reason in marks.damaged.items():
        place = mark_place(name)
        raise PruneRefused.because(
            f"the mark `{place}` cannot be read, and it may keep a snapshot",
            f"Bring `{place}` back from a copy of the vault; if there is none, delete that file",
            file=place,
            reason=reason,
        )
    found, left = one_of_each(files)
    found = marks.on(found)
    plan.leftovers = [file.id for file in left]
    options = plan.options
    grace = options.grace
    if grace and _nearly_full(repository, options.floor):
        grace, plan.grace_waived = 0.0, True
    kept = []
    for snapshot in found:
        forgotten = forgotten_at(snapshot)
        if is_pinned(snapshot, options.now_ns):
            kept.append(snapshot)
        elif public_id(snapshot) in options.leaving:
            plan.snapshots.append(snapshot)
        elif forgotten is None:
            kept.append(snapshot)
        elif grace and options.now_ns - forgotten < grace * 1e9:
            # Forgotten in the future (a clock that was set back) is within its grace, too.
            kept.append(snapshot)
            plan.waiting.append(snapshot)
        else:
            plan.snapshots.append(snapshot)
    plan.marks = marks.over(kept)
    return kept, [*names, *marks.texts]


def _nearly_full(repository: Repository, floor: int) -> bool:
    room = repository.storage.room()
    return room is not None and room[0] < min(floor, FLOOR_SHARE * room[1])


def _read_index(repository: Repository) -> tuple[Index, dict[str, int]]:
    """The index as the files themselves say it, past any cache, and how many blobs each file names."""
    files: dict[str, int] = {}

    def packs() -> Iterator[tuple[bytes, list[PackEntry]]]:
        for name, _ in repository.storage.list(FileKind.INDEX):
            try:
                found = repository.load_index_file(name)
            except VaultDamaged as error:
                place = stored_name(FileKind.INDEX, name)
                raise PruneRefused.because(
                    f"the index file `{place}` cannot be read, so packs that are needed may look unneeded",
                    f"Bring `{place}` back from a copy of the vault",
                    file=place,
                    reason=str(error.facts.get("reason", error.what)),
                ) from error
            except NotStored:
                continue
            files[name] = sum(len(entries) for _, entries in found)
            yield from found

    repository.use_index(Index(), set())  # at a million blobs, two of them would be felt
    index = Index.build(packs())
    repository.use_index(index, set(files))
    return index, files
