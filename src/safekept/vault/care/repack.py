"""Repacking: used blobs out of wasteful or small packs into new ones, each proven on the way.

A blob is opened, decompressed and hashed, and then its sealed bytes are copied as they are: no second
compression, no second encryption. Directories that an old writer left uncompressed are compressed, since
restic would pack them again otherwise. A pack in which something cannot be read stays where it is, with
all that it holds, and is named in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent
from safekept.core.records import dataclass

from ..errors import NotProven, VaultDamaged
from ..format import pack as pack_file
from ..format.blobs import BlobKind, Buffer, PackEntry, blob_id
from ..format.compression import BadCompression, compress_many, decompress_many
from ..format.crypto import Unauthentic
from ..format.pack import pack_size
from ..repo.index import Index
from ..repo.locks import Lock
from ..repo.packer import Packer
from ..storage.base import FileKind, NotStored

if TYPE_CHECKING:
    from ..repo.repository import Repository


# How much of each pack is used, which copy of a doubled blob stays, which packs are rewritten.
# Pure bookkeeping over the index, the used ids and the sizes on disk: it reads and changes nothing.

#: Fewer small packs than this of one kind are left alone: gathering them saves no room, and a push sends
#: what was gathered once more. A night makes one of each kind.
FEW = 40


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
class PackUse:
    packs: dict[bytes, PackFacts]
    missing: set[bytes]
    duplicates: list[tuple[PackEntry, bytes, tuple[bytes, ...]]]


def measure_pack_use(
    index: Index, used: Mapping[BlobKind, set[bytes]], sizes: Mapping[bytes, int]
) -> PackUse:
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
    return PackUse(packs, missing, duplicates)


def choose_packs(packs: Mapping[bytes, PackFacts], max_unused: float) -> set[bytes]:
    """The packs whose used blobs are worth packing again.

    Always: those that restic would not leave as they are. Then small ones, where there are enough of
    them; then those with the largest unused share, until what stays unused is within `max_unused`. A pack
    of which less than half is unused stays: to save a little, much would be written and pushed again.
    With a `max_unused` of 0 nothing unused stays, whatever that costs.
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
        if max_unused and facts.unused < facts.used:
            continue
        chosen.add(pack)
        unused -= facts.unused
    return chosen


def _preference(pack: bytes, facts: PackFacts) -> tuple[bool, float, int, bytes]:
    return facts.rewrite, facts.unused / facts.size, -facts.size, pack


_RUN = 4 << 20  # stored bytes that are read and proven in one go
_GAP = 64 << 10
_LEVEL = 3

_Sealed = tuple[bytes, bytes, int]  # id, sealed bytes, plain length (0: not compressed)


class Unsound(Exception):
    """These bytes are not the blob that they should be."""


def repack(
    repository: Repository,
    packs: Mapping[bytes, list[PackEntry]],
    lock: Lock,
    listener: Listener = silent,
) -> tuple[set[bytes], dict[bytes, str]]:
    """Copy the given blobs of each pack into new packs, durably and indexed.

    Gives the packs that are no longer needed for them, and those that must stay, with the reason.
    """
    total = sum(entry.length for entries in packs.values() for entry in entries)
    copied, damaged, done = set[bytes](), dict[bytes, str](), 0
    packer = Packer(repository, repository.index, lock, lambda entries: None)
    whole = False
    try:
        for pack, entries in packs.items():
            if packer.error is not None:
                break  # no room, or the lock is gone: `flush` says which
            listener(Event("repack", done, total, "bytes"))
            try:
                for kind, blobs in _proven(repository, pack, entries):
                    packer.add(kind, blobs)
                copied.add(pack)
            except VaultDamaged as error:
                damaged[pack] = str(error.facts.get("reason", error.what))
            done += sum(entry.length for entry in entries)
        packer.flush()
        whole = True
    finally:
        packer.close(failed=not whole)
    return copied, damaged


def copy_is_sound(repository: Repository, pack: bytes, entry: PackEntry) -> bool:
    """Whether a blob can be read from this very place."""
    try:
        _read(repository, pack, [entry])
    except Unsound:
        return False
    return True


def sound_blobs(
    repository: Repository, pack: bytes, entries: list[PackEntry]
) -> Iterator[tuple[BlobKind, _Sealed]]:
    """Every blob of a damaged pack that can be read from it or from another place."""
    for entry in entries:
        try:
            (stored,), (body,) = _read(repository, pack, [entry])
            compress = entry.kind is BlobKind.TREE and not entry.plain
            sealed = entry.id, bytes(stored), entry.plain
            yield entry.kind, _seal(repository, entry.id, body) if compress else sealed
        except Unsound:
            try:
                plain = repository.loader.load(entry.kind, entry.id)
            except VaultDamaged:
                continue
            yield entry.kind, _seal(repository, entry.id, plain)


def _proven(
    repository: Repository, pack: bytes, entries: list[PackEntry]
) -> Iterator[tuple[BlobKind, list[_Sealed]]]:
    for run in _runs(entries):
        try:
            stored, bodies = _read(repository, pack, run)
        except Unsound:
            # One by one, and each from wherever it is sound; VaultDamaged where it is nowhere.
            for entry in run:
                plain = repository.loader.load(entry.kind, entry.id)
                yield entry.kind, [_seal(repository, entry.id, plain)]
            continue
        for kind in BlobKind:
            blobs = [
                _seal(repository, entry.id, body)
                if kind is BlobKind.TREE and not entry.plain
                else (entry.id, bytes(envelope), entry.plain)
                for entry, envelope, body in zip(run, stored, bodies, strict=True)
                if entry.kind is kind
            ]
            if blobs:
                yield kind, blobs


def _runs(entries: list[PackEntry]) -> Iterator[list[PackEntry]]:
    """Neighbours that are read together, each blob once."""
    run: list[PackEntry] = []
    seen: set[tuple[BlobKind, bytes]] = set()
    for entry in entries:
        if (entry.kind, entry.id) in seen:
            continue
        seen.add((entry.kind, entry.id))
        if run:
            gap = entry.offset - run[-1].offset - run[-1].length
            if not 0 <= gap <= _GAP or entry.offset + entry.length - run[0].offset > _RUN:
                yield run
                run = []
        run.append(entry)
    if run:
        yield run


def _read(repository: Repository, pack: bytes, run: list[PackEntry]) -> tuple[list[memoryview], list[Buffer]]:
    """The sealed and the plain bytes of neighbours, proven; Unsound where one of them is not."""
    start, end = run[0].offset, run[-1].offset + run[-1].length
    try:
        data = memoryview(repository.storage.read(FileKind.PACK, pack.hex(), start, end - start))
        stored = [data[entry.offset - start :][: entry.length] for entry in run]
        bodies: list[Buffer] = list(repository.key.open_many(stored))
        squeezed = [number for number, entry in enumerate(run) if entry.plain]
        if squeezed:
            frames, sizes = [bodies[n] for n in squeezed], [run[n].plain for n in squeezed]
            for number, content in zip(squeezed, decompress_many(frames, sizes), strict=True):
                bodies[number] = content
    except (Unauthentic, BadCompression, NotStored, VaultDamaged) as error:
        raise Unsound(str(error)) from error
    for entry, body in zip(run, bodies, strict=True):
        if blob_id(body) != entry.id:
            raise Unsound("its content has another hash")
    return stored, bodies


def _seal(repository: Repository, blob: bytes, plain: Buffer) -> _Sealed:
    size = memoryview(plain).nbytes
    sealed = repository.key.seal(compress_many([plain], _LEVEL)[0])
    if blob_id(decompress_many([repository.key.open(sealed)], [size])[0]) != blob:
        raise NotProven.of("piece of data")
    return blob, sealed, size
