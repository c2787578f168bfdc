"""What lies in the object store: every pack with its objects, every loose object, sizes and ages.

Read from the pack indexes and directory listings alone, so one damaged object or dangling ref hides
nothing and stops nothing.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import dataclass, field

from .size import disk_bytes, fan_outs

_MAGIC = b"\377tOc\0\0\0\2"


@dataclass(frozen=True, slots=True)
class Pack:
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

    packs: list[Pack] = field(default_factory=list)
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
        found.packs.append(Pack(path, facts.st_size, facts.st_mtime_ns, held))
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
