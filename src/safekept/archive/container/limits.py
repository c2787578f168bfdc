"""How much an archive may be before it is refused: the defence against bombs.

Sizes in an archive are claims. They are added up before anything is read, reading stops at what was
claimed, and nothing is ever allocated by a claimed size.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import too_large


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what will be read."""

    count: int = 2_000_000  # members
    ratio: int = 250  # content by archive size; only looked at above `ratio_floor`
    ratio_floor: int = 1 << 30
    #: An archive that says it is ours may hold the holes of sparse files; beyond this it is a bomb, too.
    own_ratio_floor: int = 64 << 30
    #: Archive bytes that each member must have; only looked at above `crowd` members.
    bytes_each: int = 8
    crowd: int = 100_000
    free_bytes: int | None = None  # room where it shall land, if known
    folds_case: bool = False  # the target takes `A` and `a` for one name


#: Content of any size is held against the SHA-256 of our manifest by the reader itself.
HASH_ALL = 1 << 62
#: None is: for one who computes it anyway, and compares it with `Entry.sha256`.
HASH_NONE = -1

#: For reading back what we wrote ourselves a moment ago.
NO_LIMITS = Limits(count=1 << 62, ratio=1 << 62, bytes_each=0)


class Budget:
    """Adds up what an archive claims or delivers, and refuses at the first limit passed."""

    def __init__(self, path: str, stored: int, limits: Limits) -> None:
        self.path, self.stored, self.limits = path, max(stored, 1), limits
        self.count = 0
        self.total = 0
        self.own = False  # the archive says that it is ours, as anybody's can

    def add(self, size: int) -> None:
        self.count += 1
        self.total += size
        if self.count > self.limits.count:
            raise too_large(self.path, f"holds more than {self.limits.count:,} members")
        if self.limits.free_bytes is not None and self.total > self.limits.free_bytes:
            raise too_large(
                self.path,
                f"unpacks to more than the {self.limits.free_bytes:,} bytes free where it shall land",
            )
        if self.count > self.limits.crowd and self.count * self.limits.bytes_each > self.stored:
            raise too_large(self.path, f"holds {self.count:,} members in {self.stored:,} bytes, as bombs do")
        if self.total > (self.limits.own_ratio_floor if self.own else self.limits.ratio_floor):
            ratio = self.total // self.stored
            if ratio > self.limits.ratio:
                raise too_large(self.path, f"unpacks to more than {self.limits.ratio} times its size")
