"""Weighing packs: how much of each is used, which copy of a doubled blob stays, which are packed anew.

Pure bookkeeping over the index, the used ids and the sizes on disk: it reads and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..format import pack as pack_file
from ..format.blobs import BlobKind, PackEntry
from ..format.pack import pack_size
from ..repo.index import Index

#: Fewer small packs than this of one kind are left alone: they would be packed anew again and again.
FEW = 10


@dataclass(slots=True)
class PackFacts:
    """One pack that an index names."""

    size: int  # as its blobs need it
    sound: bool  # it is there and has exactly that size
    tree: bool
    rewrite: bool = False  # directories and data together, or directories that are not compressed
    used: int = 0  # bytes
    unused: int = 0
    used_blobs: int = 0
    given_up: set[tuple[BlobKind, bytes]] = field(default_factory=set)  # copies that another pack keeps

    @property
    def small(self) -> bool:
        return self.size < pack_file.TARGET // 4


@dataclass(slots=True)
class Weighed:
    packs: dict[bytes, PackFacts]
    missing: set[bytes]
    duplicates: list[tuple[PackEntry, bytes, tuple[bytes, ...]]]


def weigh_packs(index: Index, used: Mapping[BlobKind, set[bytes]], sizes: Mapping[bytes, int]) -> Weighed:
    """How much of each pack is used, a doubled blob counted in one of them; what is used and nowhere."""
    doubled = index.duplicates()
    packs: dict[bytes, PackFacts] = {}
    copies: dict[tuple[BlobKind, bytes], list[tuple[bytes, PackEntry]]] = {}
    found: dict[BlobKind, int] = dict.fromkeys(BlobKind, 0)
    lost: list[tuple[BlobKind, bytes]] = []
    for pack, entries in index.by_pack():
        size = pack_size(entries)
        kinds = {entry.kind for entry in entries}
        facts = packs[pack] = PackFacts(size, sizes.get(pack) == size, kinds == {BlobKind.TREE})
        for entry in entries:
            facts.rewrite |= len(kinds) > 1 or (entry.kind is BlobKind.TREE and not entry.plain)
            if entry.id not in used[entry.kind]:
                facts.unused += entry.length
            elif (entry.kind, entry.id) in doubled:
                copies.setdefault((entry.kind, entry.id), []).append((pack, entry))
            elif facts.sound:
                found[entry.kind] += 1
                facts.used += entry.length
                facts.used_blobs += 1
            else:
                lost.append((entry.kind, entry.id))
    missing = {blob for _, blob in lost}
    duplicates = []
    for (kind, blob), places in copies.items():
        sound = [place for place in places if packs[place[0]].sound]
        if not sound:
            missing.add(blob)
            continue
        # The copy in the pack that has least to lose by staying; of a prune that was killed, the new one.
        chosen, entry = min(sound, key=lambda place: _preference(place[0], packs[place[0]]))
        found[kind] += 1
        packs[chosen].used += entry.length
        packs[chosen].used_blobs += 1
        others = tuple(dict.fromkeys(pack for pack, _ in places if pack != chosen))
        for pack, other in places:
            if pack != chosen:
                packs[pack].unused += other.length
                packs[pack].given_up.add((kind, blob))
        if others:
            duplicates.append((entry, chosen, others))
    for kind in BlobKind:
        if found[kind] < len(used[kind]) and not missing:
            missing = {blob for blob in used[kind] if not index.has(kind, blob)}
    return Weighed(packs, missing, duplicates)


def choose_packs(packs: Mapping[bytes, PackFacts], max_unused: float) -> set[bytes]:
    """The packs whose used blobs are worth packing anew.

    Always: those that restic would not leave as they are. Then small ones, where there are enough of
    them; then those with the largest unused share, until what stays unused is within `max_unused`.
    """
    partly = {pack: facts for pack, facts in packs.items() if facts.used_blobs}
    chosen = {pack for pack, facts in partly.items() if facts.rewrite}
    for tree in (True, False):
        small = {pack for pack, facts in partly.items() if facts.small and facts.tree is tree}
        if len(small) >= FEW:
            chosen |= small
    used = sum(facts.used for facts in partly.values())
    allowed = used * max_unused / (1 - max_unused) if max_unused < 1 else float("inf")
    candidates = [(pack, facts) for pack, facts in partly.items() if facts.unused and pack not in chosen]
    unused = sum(facts.unused for _, facts in candidates)
    # Directories first: they are read most. Then what gives most for what must be written.
    candidates.sort(key=lambda item: (not item[1].tree, -item[1].unused / item[1].used, item[0]))
    for pack, facts in candidates:
        if unused <= allowed:
            break
        chosen.add(pack)
        unused -= facts.unused
    return chosen


def _preference(pack: bytes, facts: PackFacts) -> tuple[bool, float, int, bytes]:
    return facts.rewrite, facts.unused / facts.size, -facts.size, pack
