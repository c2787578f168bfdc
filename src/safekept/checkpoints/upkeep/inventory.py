"""What lies in the object store: every pack with its objects, every loose object, sizes and ages.

Read from the pack indexes and directory listings alone, so one damaged object or dangling ref hides
nothing and stops nothing.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from safekept.core.records import dataclass

from ..checkpoint import Checkpoint
from .size import disk_bytes, fan_outs

_MAGIC = b"\377tOc\0\0\0\2"


@dataclass(frozen=True, slots=True)
class PackContents:
    """One pack and what is in it."""

    path: str  # of the .pack file
    size: int
    changed_ns: int
    objects: dict[bytes, int]  # object name -> bytes it takes in the pack

    @property
    def stem(self) -> str:
        return self.path.removesuffix(".pack")


@dataclass(frozen=True, slots=True)
class Loose:
    """One object in a file of its own."""

    path: str
    size: int
    changed_ns: int


@dataclass(slots=True)
class Inventory:
    """Everything that is there."""

    packs: list[PackContents] = field(default_factory=list)
    loose: dict[bytes, Loose] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)  # packs whose index cannot be read

    def sizes(self) -> dict[bytes, int]:
        """What every object takes on disk, all copies of it together."""
        found = {name: loose.size for name, loose in self.loose.items()}
        for pack in self.packs:
            for name, size in pack.objects.items():
                found[name] = found.get(name, 0) + size
        return found


def take_inventory(repository: str) -> Inventory:
    """List every object of the store."""
    found = Inventory()
    objects = os.path.join(repository, "objects")
    packs = os.path.join(objects, "pack")
    for name in sorted(_names(packs)):
        if not name.endswith(".pack") or not name.startswith("pack-"):
            continue
        path = os.path.join(packs, name)
        try:
            facts = os.stat(path)
            held = read_pack_index(path.removesuffix(".pack") + ".idx", facts.st_size)
        except (OSError, ValueError):
            found.unreadable.append(path)
            continue
        found.packs.append(PackContents(path, facts.st_size, facts.st_mtime_ns, held))
    for fan_out in fan_outs(objects):
        with contextlib.suppress(OSError), os.scandir(os.path.join(objects, fan_out)) as listing:
            for item in listing:
                with contextlib.suppress(OSError, ValueError):
                    if len(item.name) == 38:
                        facts = item.stat(follow_symlinks=False)
                        key = bytes.fromhex(fan_out + item.name)
                        found.loose[key] = Loose(item.path, disk_bytes(facts), facts.st_mtime_ns)
    return found


def read_pack_index(path: str, pack_bytes: int) -> dict[bytes, int]:
    """The objects of a pack and what each takes. Raises ValueError where it is not an index of version 2."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:8] != _MAGIC or len(data) < 8 + 1024 + 40:
        raise ValueError(f"{path} is not a pack index")
    count = struct.unpack_from(">I", data, 8 + 255 * 4)[0]
    names = 8 + 1024
    offsets = names + count * 24  # names, then checksums
    large = offsets + count * 4
    if len(data) < large + 40:
        raise ValueError(f"{path} is cut off")
    starts: list[int] = []
    for value in struct.unpack_from(f">{count}I", data, offsets):
        if value & 0x80000000:
            value = struct.unpack_from(">Q", data, large + (value & 0x7FFFFFFF) * 8)[0]
        starts.append(value)
    order = sorted(range(count), key=starts.__getitem__)
    found: dict[bytes, int] = {}
    for place, number in enumerate(order):
        end = starts[order[place + 1]] if place + 1 < count else pack_bytes - 20
        name = data[names + number * 20 : names + number * 20 + 20]
        found[name] = end - starts[number]
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


# Which objects go into one new pack, and which go away: a plan, made from an inventory. Loose objects
# that a checkpoint holds are collected into a pack. Packs with much that no point holds any more are
# rewritten without it, and many small packs become one. What no point holds stays until it is older
# than the grace period, and what was written lately and is not held yet is not touched at all: it
# belongs to a checkpoint that is being taken.

#: Fewer loose objects than this, and less than that many bytes of them, are not worth a pack.
_LOOSE_ENOUGH, _LOOSE_BYTES = 256, 8 << 20
#: A pack is rewritten when so large a share of it, or so many bytes, are garbage.
_GARBAGE_SHARE, _GARBAGE_BYTES = 0.1, 16 << 20
#: More small packs than this are joined.
_SMALL_PACKS, _SMALL_BYTES = 8, 32 << 20


@dataclass(slots=True)
class RepackPlan:
    """What one new pack will hold, and what it makes superfluous."""

    names: list[bytes] = field(default_factory=list)  # into the new pack
    collected: list[str] = field(default_factory=list)  # loose files that the new pack replaces
    packs: list[PackContents] = field(default_factory=list)  # that the new pack replaces
    condemned: list[str] = field(default_factory=list)  # loose files that no point holds, past their grace
    garbage_bytes: int = 0  # what is freed

    @property
    def empty(self) -> bool:
        return not self.names and not self.condemned and not self.packs


def plan_repack(
    inventory: Inventory, held: Collection[bytes], older_than_ns: int, *, thorough: bool = False
) -> RepackPlan:
    """Decide. `thorough` (asked for by a person) ignores what is not worth the trouble."""
    plan = RepackPlan()
    loose_held = {name: loose for name, loose in inventory.loose.items() if name in held}
    for name, loose in inventory.loose.items():
        if name not in held and loose.changed_ns < older_than_ns:
            plan.condemned.append(loose.path)
            plan.garbage_bytes += loose.size
    garbage = {pack.path: _garbage(pack, held, older_than_ns) for pack in inventory.packs}
    for pack in inventory.packs:
        lost = garbage[pack.path]
        if lost and (thorough or lost >= _GARBAGE_BYTES or lost >= _GARBAGE_SHARE * pack.size):
            plan.packs.append(pack)
    small = [pack for pack in inventory.packs if pack.size < _SMALL_BYTES]
    if len(small) > (1 if thorough else _SMALL_PACKS):
        plan.packs += [pack for pack in small if pack not in plan.packs]
    loose_bytes = sum(loose.size for loose in loose_held.values())
    enough = len(loose_held) >= _LOOSE_ENOUGH or loose_bytes >= _LOOSE_BYTES
    wanted: dict[bytes, None] = {}
    if loose_held and (enough or plan.packs or thorough):
        wanted.update(dict.fromkeys(loose_held))
        plan.collected = [loose.path for loose in loose_held.values()]
    for pack in plan.packs:
        stays_whole = pack.changed_ns >= older_than_ns
        wanted.update(dict.fromkeys(n for n in pack.objects if stays_whole or n in held))
        plan.garbage_bytes += garbage[pack.path]
    plan.names = list(wanted)
    return plan


def _garbage(pack: PackContents, held: Collection[bytes], older_than_ns: int) -> int:
    if pack.changed_ns >= older_than_ns:
        return 0
    return sum(size for name, size in pack.objects.items() if name not in held)


def whole_files_only(plan: RepackPlan, held: Collection[bytes], older_than_ns: int) -> RepackPlan:
    """What of a plan can be done without writing anything: files of which no point holds any part."""
    packs = [
        pack
        for pack in plan.packs
        if pack.changed_ns < older_than_ns and not any(name in held for name in pack.objects)
    ]
    freed = sum(pack.size for pack in packs)
    return RepackPlan(packs=packs, condemned=plan.condemned, garbage_bytes=freed)


# Which objects the checkpoints hold on to, and what each checkpoint holds alone. The walk goes from
# commits through trees, visits nothing twice, and takes a missing object for what it is: damage in one
# checkpoint, noted, which neither stops the walk nor endangers another project.

#: Reads a commit or tree: its content, or None where it is not there.
ReadObject = Callable[[bytes], bytes | None]
#: What an object takes on disk, or None where it is not there.
SizeOf = Callable[[bytes], int | None]

_TREE = b"40000"
_GITLINK = b"160000"


class Reach:
    """Everything found from the commits given so far."""

    def __init__(self, read: ReadObject, size_of: SizeOf) -> None:
        self.objects: set[bytes] = set()
        self.missing: dict[bytes, str] = {}  # object -> the commit from which it was looked for
        self.opaque: set[bytes] = set()  # those of them behind which more was hidden: trees and commits
        self.names: dict[bytes, bytes] = {}  # a file name for each: what is named alike packs well together
        self._read, self._size_of = read, size_of

    def add(self, commit: str) -> int:
        """Walk from one commit; returns the bytes on disk of what was not reached before."""
        new_bytes = 0
        waiting: list[tuple[bytes, bytes, bool]] = [(bytes.fromhex(commit), b"", True)]
        while waiting:
            name, label, opens = waiting.pop()
            if name in self.objects:
                continue
            size = self._size_of(name)
            content = self._read(name) if opens and size is not None else None
            if size is None or (opens and content is None):
                self.missing.setdefault(name, commit)
                if opens:
                    self.opaque.add(name)
                continue
            self.objects.add(name)
            new_bytes += size
            self.names[name] = label
            if content is None:
                continue
            if label == b"":
                waiting.append((_tree_of(content), b"tree", True))
            else:
                for mode, entry, child in tree_entries(content):
                    if mode != _GITLINK and child not in self.objects:
                        waiting.append((child, entry or b"?", mode == _TREE))
        return new_bytes


def bytes_held(order: Sequence[Checkpoint], others: Sequence[Checkpoint], reach: Reach) -> list[int]:
    """What each of `order` frees if they go in that order and `others` stay.

    The one that stays longest pays: an object is charged to the last of those that hold it. `reach` is left
    holding everything.
    """
    for point in others:
        reach.add(point.commit)
    freed = [reach.add(point.commit) for point in reversed(order)]
    return freed[::-1]


def tree_entries(content: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """(mode, name, object) of every entry; a torn tree gives what can be read."""
    found = []
    place, end = 0, len(content)
    while place < end:
        space = content.find(b" ", place)
        stop = content.find(b"\0", space)
        if space < 0 or stop < 0 or stop + 21 > end:
            break
        found.append((content[place:space], content[space + 1 : stop], content[stop + 1 : stop + 21]))
        place = stop + 21
    return found


def _tree_of(commit: bytes) -> bytes:
    first = commit.split(b"\n", 1)[0]
    if not first.startswith(b"tree "):
        return b""
    return bytes.fromhex(first[5:45].decode("ascii", "replace"))
