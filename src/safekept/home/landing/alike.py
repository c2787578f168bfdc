"""Names that a disk takes for one: `Readme` and `README`, or `é` as one sign and as two.

One would be written over the other. So the very disk is asked, where a home has such names at all, and the
landing is refused before anything of it is begun.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from safekept.core.entries import Kind
from safekept.core.errors import SafekeptError
from safekept.core.files import temporary_name
from safekept.core.platform.filesystems import Folding, folding_of

from .items import Item

_EVERYTHING = Folding(case=True, forms=True)


class NamesAlike(SafekeptError):
    code = "names-alike"


def refuse_alike(items: Iterable[Item], directory: str) -> None:
    """Raise NamesAlike where two files would get one name; `directory`: ours, on the disk of the home."""
    alike = _pairs(items, _EVERYTHING)
    if not alike:
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        folding = folding_of(descriptor, os.path.basename(temporary_name(directory)))
    finally:
        os.close(descriptor)
    found = _pairs((item for pair in alike for item in pair), folding)
    if found:
        one, other = found[0]
        more = f", and {len(found) - 1:,} more such pairs" if len(found) > 1 else ""
        raise NamesAlike(
            f"This disk takes `{one.path}` and `{other.path}` for one name{more}",
            kept="The home is as it was",
            next_steps=("Restore to a disk that tells them apart, then rename one of each pair there",),
            alike=[[one.path, other.path] for one, other in found],
        )


def _pairs(items: Iterable[Item], folding: Folding) -> list[tuple[Item, Item]]:
    """Each file with one before it of the same key; of two directories that become one nothing is lost."""
    first: dict[tuple[int, str], Item] = {}
    found = []
    for item in items:
        if item.kind is not Kind.DIRECTORY:
            other = first.setdefault((item.root, folding.key(item.place)), item)
            if other.path != item.path:
                found.append((other, item))
    return found
