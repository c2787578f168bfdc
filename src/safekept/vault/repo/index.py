"""The index in memory: where every blob lies, made for a million of them.

Blobs known when the vault was opened are fixed records of 48 bytes, sorted by id, in one bytes
object with a table of the first two bytes: about 50 bytes a blob, half a
microsecond a look. What was added since is in a dictionary, found first. A blob may lie in several
packs; all its places are kept, so that a damaged one can be passed by. A pack that was found missing or
cut is doubted: what it holds may still be read where that is possible, but does not count as stored.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from safekept.core.errors import BAD_SHAPE

from ..errors import VaultDamaged
from ..format.blobs import ID, BlobKind, Location, PackEntry
from ..format.crypto import OVERHEAD, Key
from ..format.pack import BadPack, header_span, pack_size, read_header
from ..storage.base import FileKind, NotStored, Storage

RECORD = struct.Struct(">32sIIII")  # id, pack number and kind, offset, length, plain length
_PLACE = struct.Struct(">IIII")
_SIZE = RECORD.size
_TREE = 1 << 31
_FAN = 1 << 16
_FIRST = struct.Struct(">H")


class Index:
    """Where blobs lie. Looking is safe from any thread; adding is done by one at a time."""

    def __init__(self) -> None:
        self.packs: list[bytes] = []
        self.sizes: list[int] = []  # of each pack as its blobs need it; 0 where two index files disagree
        self._doubted: frozenset[int] = frozenset()
        self._numbers: dict[bytes, int] = {}
        self._records: bytes = b""
        self._fan = array("I", bytes(4 * (_FAN + 1)))
        self._recent: dict[bytes, bytes] = {}  # id -> its places, packed: half the size of objects

    @classmethod
    def build(cls, packs: Iterable[tuple[bytes, Sequence[PackEntry]]]) -> Index:
        """From the packs of all index files. What two of them say alike counts once."""
        index = cls()
        buckets = [bytearray() for _ in range(256)]
        for pack, entries in packs:
            number = index._number(pack, pack_size(entries))
            for kind, blob, offset, length, plain in entries:
                place = number | _TREE if kind is BlobKind.TREE else number
                buckets[blob[0]] += RECORD.pack(blob, place, offset, length, plain)
        for first, bucket in enumerate(buckets):
            # A bucket at a time: only a small part of the index is ever loose objects.
            ordered = sorted({bytes(bucket[at : at + _SIZE]) for at in range(0, len(bucket), _SIZE)})
            buckets[first] = bytearray(b"".join(ordered))
        index._records = b"".join(buckets)
        index._fan = fan_out(index._records)
        return index

    @classmethod
    def from_records(cls, packs: list[bytes], sizes: list[int], records: bytes, fan: array[int]) -> Index:
        """From sorted records, as a cache keeps them."""
        index = cls()
        index.packs, index.sizes, index._records, index._fan = packs, sizes, records, fan
        index._numbers = {pack: number for number, pack in enumerate(packs)}
        return index

    def add(self, pack: bytes, entries: Sequence[PackEntry]) -> None:
        """A pack that is now stored."""
        if pack in self._numbers:
            return
        number = self._number(pack, pack_size(entries))
        for entry in entries:
            place = number | _TREE if entry.kind is BlobKind.TREE else number
            fields = _PLACE.pack(place, entry.offset, entry.length, entry.plain)
            self._recent[entry.id] = self._recent.get(entry.id, b"") + fields

    def doubt(self, packs: Iterable[bytes]) -> None:
        """These packs are not there as they should be: what only they hold is not stored."""
        self._doubted = frozenset(self._numbers[pack] for pack in packs if pack in self._numbers)

    @property
    def doubted(self) -> int:
        """How many packs do not count."""
        return len(self._doubted)

    def has(self, kind: BlobKind, blob: bytes) -> bool:
        if self._doubted:
            return any(place & ~_TREE not in self._doubted for place, *_ in self._find(kind, blob))
        if blob in self._recent:
            return next(self._find(kind, blob), None) is not None
        # The common case of every stored block: no generator, no unpacking.
        first = blob[0] << 8 | blob[1]
        at = self._records.find(blob, self._fan[first] * _SIZE, self._fan[first + 1] * _SIZE)
        if at < 0:
            return False
        if at % _SIZE == 0 and (self._records[at + ID] >= 128) is (kind is BlobKind.TREE):
            return True
        return next(self._find(kind, blob), None) is not None

    def lookup(self, kind: BlobKind, blob: bytes) -> Location | None:
        found = next(self._find(kind, blob), None)
        return None if found is None else self._location(found)

    def lookup_all(self, kind: BlobKind, blob: bytes) -> list[Location]:
        return [self._location(found) for found in self._find(kind, blob)]

    def __len__(self) -> int:
        """How many places of blobs are known; a blob in two packs counts twice."""
        return len(self._records) // _SIZE + sum(map(len, self._recent.values())) // _PLACE.size

    def has_pack(self, pack: bytes) -> bool:
        return pack in self._numbers

    def by_pack(self) -> Iterator[tuple[bytes, list[PackEntry]]]:
        """Every pack with its blobs in the order of their offsets."""
        numbers = array("I", (RECORD.unpack_from(self._records, at)[1] & ~_TREE for at in self._places()))
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        recent: dict[int, list[PackEntry]] = {}
        for blob, places in self._recent.items():
            for place, *fields in _PLACE.iter_unpack(places):
                recent.setdefault(place & ~_TREE, []).append(_entry(blob, place, *fields))
        position = 0
        for number, pack in enumerate(self.packs):
            entries = recent.pop(number, [])
            while position < len(order) and numbers[order[position]] == number:
                entries.append(_entry(*RECORD.unpack_from(self._records, order[position] * _SIZE)))
                position += 1
            entries.sort(key=lambda entry: entry.offset)
            yield pack, entries

    def duplicates(self) -> set[tuple[BlobKind, bytes]]:
        """The blobs that lie in more than one place."""
        _, records, _ = self.records()
        found: set[tuple[BlobKind, bytes]] = set()
        before, before_tree = b"", False
        for at in range(0, len(records), _SIZE):
            blob, tree = records[at : at + ID], records[at + ID] >= 128
            # Records are sorted by id and then by kind: equal ones are neighbours.
            if blob == before and tree is before_tree:
                found.add((BlobKind.TREE if tree else BlobKind.DATA, blob))
            before, before_tree = blob, tree
        return found

    def records(self) -> tuple[list[bytes], bytes, array[int]]:
        """All that is known as sorted records (what was added since is worked in): for a cache."""
        if self._recent:
            merged = Index.build(list(self.by_pack()))
            return merged.packs, merged._records, merged._fan
        return self.packs, self._records, self._fan

    def _find(self, kind: BlobKind, blob: bytes) -> Iterator[tuple[int, int, int, int]]:
        tree = kind is BlobKind.TREE
        for place, offset, length, plain in _PLACE.iter_unpack(self._recent.get(blob, b"")):
            if bool(place & _TREE) is tree:
                yield place, offset, length, plain
        (first,) = _FIRST.unpack_from(blob)
        at, end = self._fan[first] * _SIZE, self._fan[first + 1] * _SIZE
        while (at := self._records.find(blob, at, end)) >= 0:
            if at % _SIZE:  # the same bytes across two records: not an id
                at += 1
                continue
            _, place, offset, length, plain = RECORD.unpack_from(self._records, at)
            if bool(place & _TREE) is tree:
                yield place, offset, length, plain
            at += _SIZE

    def _location(self, fields: tuple[int, int, int, int]) -> Location:
        place, offset, length, plain = fields
        return Location(self.packs[place & ~_TREE], offset, length, plain)

    def _number(self, pack: bytes, size: int) -> int:
        number = self._numbers.get(pack)
        if number is None:
            number = self._numbers[pack] = len(self.packs)
            self.packs.append(pack)
            self.sizes.append(size)
        elif self.sizes[number] != size:
            self.sizes[number] = 0
        return number

    def _places(self) -> range:
        return range(0, len(self._records), _SIZE)


def fan_out(records: bytes) -> array[int]:
    """For each value of an id's first two bytes, how many records come before it."""
    counts = array("I", bytes(4 * (_FAN + 1)))
    for first, second in zip(records[0::_SIZE], records[1::_SIZE], strict=True):
        counts[(first << 8 | second) + 1] += 1
    return array("I", accumulate(counts))


def _entry(blob: bytes, place: int, offset: int, length: int, plain: int) -> PackEntry:
    kind = BlobKind.TREE if place & _TREE else BlobKind.DATA
    return PackEntry(kind, blob[:ID], offset, length, plain)


# Index files: which pack holds which blobs, as JSON, sealed and compressed. One entry for each pack, in
# one file only: restic 0.19 calls anything else an error.

#: A file is written when it holds this many blobs …
MOST_BLOBS = 50_000
#: … or when its oldest pack has waited this long: what a killed first snapshot can build on.
LONGEST_WAIT = 60.0

Packs = list[tuple[bytes, list[PackEntry]]]
_LIMIT = 1 << 32
_KINDS = {"data": BlobKind.DATA, "tree": BlobKind.TREE}


class BadIndex(Exception):
    """Text that is not an index file."""


def encode_index(packs: Sequence[tuple[bytes, Sequence[PackEntry]]]) -> bytes:
    """Go's form: no spaces, the fields in restic's order, a newline at the end."""
    parts = []
    for pack, entries in packs:
        blobs = ",".join(
            f'{{"id":"{entry.id.hex()}","type":"{entry.kind.value}","offset":{entry.offset},'
            f'"length":{entry.length}' + (f',"uncompressed_length":{entry.plain}}}' if entry.plain else "}")
            for entry in entries
        )
        parts.append(f'{{"id":"{pack.hex()}","blobs":[{blobs}]}}')
    return f'{{"packs":[{",".join(parts)}]}}\n'.encode()


def decode_index(text: bytes) -> Packs:
    """The packs that an index file names; others' additions (`packs_to_delete`) are passed over."""
    try:
        found: Packs = []
        for pack in json.loads(text)["packs"] or ():
            entries = []
            for blob in pack["blobs"] or ():
                identity = bytes.fromhex(blob["id"])
                offset, length = blob["offset"], blob["length"]
                plain = blob.get("uncompressed_length", 0)
                fits = 0 <= offset < _LIMIT and OVERHEAD <= length < _LIMIT and 0 <= plain < _LIMIT
                if not fits or len(identity) != ID:
                    raise BadIndex("it names a blob that cannot be")
                entries.append(PackEntry(_KINDS[blob["type"]], identity, offset, length, plain))
            name = bytes.fromhex(pack["id"])
            if len(name) != ID:
                raise BadIndex("it names a pack that cannot be")
            found.append((name, entries))
    except BAD_SHAPE as error:
        raise BadIndex(f"not an index: {error}") from error
    return found


# Packs that no index names: what they hold is read from their own headers. They are what an interrupted
# snapshot left, or what a lost index file named. Their blobs are sound and may be read; they do not
# count as stored.

_GUESS = 64 << 10  # most headers are read with one read


def unindexed_packs(storage: Storage, key: Key, index: Index) -> Iterator[tuple[bytes, list[PackEntry]]]:
    for name, size in storage.list(FileKind.PACK):
        if not index.has_pack(bytes.fromhex(name)):
            try:
                yield bytes.fromhex(name), load_header(storage, key, name, size)
            except (BadPack, NotStored, VaultDamaged):
                continue


def load_header(storage: Storage, key: Key, name: str, size: int) -> list[PackEntry]:
    """The blobs that a pack's own header names; BadPack where it has none that can be read."""
    tail = storage.read(FileKind.PACK, name, max(0, size - _GUESS), _GUESS)
    span = header_span(tail, size)
    if span > len(tail):
        tail = storage.read(FileKind.PACK, name, size - span, span)
    return read_header(key, tail, size)


# Are the packs there that the index names? Asked before anything new is built on what is stored. A pack
# that was lost or cut since then must not count as stored, or a snapshot would call itself complete and
# could not be restored. One look at the size of each pack: whatever else is wrong inside of one is for
# `check` to find.


def find_lost_packs(storage: Storage, index: Index) -> frozenset[bytes]:
    """Every pack of the index that is missing or has not the size that its blobs need."""
    names = [pack.hex() for pack in index.packs]
    found = storage.sizes(FileKind.PACK, names)
    return frozenset(
        pack
        for pack, name, expected in zip(index.packs, names, index.sizes, strict=True)
        # Where two index files disagree, the right size is unknown: `check` says so.
        if name not in found or (expected and found[name] != expected)
    )
