"""Mending what can be mended: an index that tells the truth again, and sound pieces out of damaged packs.

Packs name their blobs themselves, so a lost or damaged index file is rebuilt from them. What is in a damaged
or truncated pack and can still be read is copied into a new one. A pack that is gone, and every piece
that cannot be read, is taken out of the index: the vault then no longer takes it for stored, and the next
snapshot stores it again if the home still has it, which makes older snapshots whole as well.

Nothing is deleted but index files that could not be read, after others name what they named. Damaged packs
stay where they are until a prune.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent
from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.blobs import PackEntry
from ..format.pack import BadPack, pack_size
from ..repo.index import Index, load_header
from ..repo.locks import Lock
from ..repo.packer import Packer
from ..storage.base import FileKind, NotStored
from .damage import Report
from .index_merge import IndexWriter, merge_indexes
from .repack import sound_blobs

if TYPE_CHECKING:
    from ..repo.repository import Repository


@dataclass(slots=True)
class RepairPlan:
    """What is wrong and can be put right."""

    indexes: dict[str, str] = field(default_factory=dict)  # files that cannot be read: name, reason
    add: dict[bytes, list[PackEntry]] = field(default_factory=dict)  # packs that no index names
    missing: dict[bytes, int] = field(default_factory=dict)  # packs that are gone, with their blobs
    salvage: dict[bytes, list[PackEntry]] = field(
        default_factory=dict
    )  # damaged packs, as the index has them

    @property
    def empty(self) -> bool:
        return not any((self.indexes, self.add, self.missing, self.salvage))

    def as_dict(self) -> dict[str, object]:
        return {
            "index_files": dict(self.indexes),
            "packs_indexed": [pack.hex() for pack in self.add],
            "packs_missing": [pack.hex() for pack in self.missing],
            "packs_damaged": [pack.hex() for pack in self.salvage],
        }


@dataclass(slots=True)
class Repaired:
    """What was done, in blobs: `saved` from damaged packs, `lost` for good unless a home still has them."""

    index_files: int = 0
    packs_indexed: int = 0
    saved: int = 0
    lost: int = 0

    def as_dict(self) -> dict[str, object]:
        names = ("index_files", "packs_indexed", "saved", "lost")
        return {name: getattr(self, name) for name in names}


def plan_repair(
    repository: Repository, report: Report | None = None, *, listener: Listener = silent
) -> RepairPlan:
    """What could be mended. The report of a check that read data adds the packs that it found damaged.

    Where an index file is lost, the packs that it named are read whole: that is most of the time it takes.
    """
    repository.require_writable()
    plan = RepairPlan()
    index = repository.reload_index(without_cache=True)
    plan.indexes = dict(repository.damaged_indexes)
    sizes = dict(repository.storage.list(FileKind.PACK))
    unnamed = {name: size for name, size in sizes.items() if not index.has_pack(bytes.fromhex(name))}
    done, total = 0, sum(unnamed.values())
    for name, size in unnamed.items():
        listener(Event("rebuild", done, total))
        done, pack = done + size, bytes.fromhex(name)
        try:
            entries = load_header(repository.storage, repository.key, name, size)
        except (BadPack, NotStored, VaultDamaged):
            continue  # what it held is unknown; a prune removes it
        # Read before it is trusted: it may be here because an earlier repair found it damaged.
        sound = {blob[0] for _, blob in sound_blobs(repository, pack, entries)}
        if len(sound) == len({entry.id for entry in entries}):
            plan.add[pack] = entries
        elif left := [e for e in entries if e.id in sound and not index.has(e.kind, e.id)]:
            plan.salvage[pack] = left
    bad = _packs_in(report) if report else set()
    for pack, entries in index.by_pack():
        if pack.hex() not in sizes:
            plan.missing[pack] = len(entries)
        elif sizes[pack.hex()] != pack_size(entries) or pack in bad:
            plan.salvage[pack] = entries
    return plan


def carry_out_repair(
    repository: Repository, plan: RepairPlan, lock: Lock, *, listener: Listener = silent
) -> Repaired:
    """Do what a plan says, under an exclusive lock."""
    if not lock.exclusive:
        raise ValueError("a repair needs an exclusive lock")
    result = Repaired(len(plan.indexes), len(plan.add), lost=sum(plan.missing.values()))
    writer = IndexWriter(repository, lock)
    for pack, entries in plan.add.items():
        writer.add(pack, entries)
    writer.flush()
    _salvage(repository, plan, lock, result, listener)
    for name in plan.indexes:
        lock.prove()
        repository.storage.delete(FileKind.INDEX, name)
    merge_indexes(repository, plan.missing.keys() | plan.salvage.keys(), lock, listener=listener)
    repository.reload_index(without_cache=True)
    return result


def _salvage(
    repository: Repository, plan: RepairPlan, lock: Lock, result: Repaired, listener: Listener
) -> None:
    # An index of its own: the one in memory must not take the damaged copies for stored.
    packer = Packer(repository, Index(), lock, lambda entries: None)
    whole = False
    try:
        for number, (pack, entries) in enumerate(plan.salvage.items()):
            listener(Event("repair", number, len(plan.salvage), "packs"))
            for kind, blob in sound_blobs(repository, pack, entries):
                packer.add(kind, [blob])
                result.saved += 1
            result.lost += len(entries)
        packer.flush()
        whole = True
    finally:
        packer.close(failed=not whole)
    result.lost -= result.saved


def _packs_in(report: Report) -> set[bytes]:
    codes = ("blob-damaged", "pack-damaged", "pack-truncated")
    names = {finding.file.rpartition("/")[2] for finding in report.findings if finding.code in codes}
    return {bytes.fromhex(name) for name in names}
