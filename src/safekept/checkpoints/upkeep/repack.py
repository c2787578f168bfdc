"""Which objects go into one new pack, and which go away: a plan, made from an inventory.

Loose objects that a checkpoint holds are collected into a pack. Packs with much that nobody holds any
more are written anew without it, and many small packs become one. What nobody holds stays until it is
older than the grace period, and what was written lately and is not held yet is not touched at all: it
belongs to a checkpoint that is being taken.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from .inventory import Inventory, Pack

#: Fewer loose objects than this, and less than that many bytes of them, are not worth a pack.
_LOOSE_ENOUGH, _LOOSE_BYTES = 256, 8 << 20
#: A pack is written anew when so large a share of it, or so many bytes, are garbage.
_GARBAGE_SHARE, _GARBAGE_BYTES = 0.1, 16 << 20
#: More small packs than this are joined.
_SMALL_PACKS, _SMALL_BYTES = 8, 32 << 20


@dataclass(slots=True)
class RepackPlan:
    """What one new pack will hold, and what it makes superfluous."""

    names: list[bytes] = field(default_factory=list)  # into the new pack
    collected: list[str] = field(default_factory=list)  # loose files that the new pack replaces
    packs: list[Pack] = field(default_factory=list)  # that the new pack replaces
    condemned: list[str] = field(default_factory=list)  # loose files that nobody holds, past their grace
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


def _garbage(pack: Pack, held: Collection[bytes], older_than_ns: int) -> int:
    if pack.changed_ns >= older_than_ns:
        return 0
    return sum(size for name, size in pack.objects.items() if name not in held)


def whole_files_only(plan: RepackPlan, held: Collection[bytes], older_than_ns: int) -> RepackPlan:
    """What of a plan can be done without writing anything: files of which nobody holds any part."""
    packs = [
        pack
        for pack in plan.packs
        if pack.changed_ns < older_than_ns and not any(name in held for name in pack.objects)
    ]
    freed = sum(pack.size for pack in packs)
    return RepackPlan(packs=packs, condemned=plan.condemned, garbage_bytes=freed)
