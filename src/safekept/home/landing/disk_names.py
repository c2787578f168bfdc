"""Names that a disk takes for one, and names that it cannot hold: what a landing has to leave there.

`Readme` and `README`, or `é` as one sign and as two: one would be written over the other. So the very disk is
asked, where a home has such names at all: the first of them lands, the others are left and named. A name such
as `a:b`, which exFAT refuses, costs that entry and what is below it, and nothing else. And what lies there
as `README` is no other file than the `Readme` that lands: it is never taken away.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from safekept.core.entries import Kind
from safekept.core.files import temporary_name
from safekept.core.platform.filesystems import Folding, folding_of, takes_name

from .items import Item

NO_SUCH_NAME = "this filesystem cannot hold such a name"
_EVERYTHING = Folding(case=True, forms=True)


def left_by_disk(items: Iterable[Item], directory: str) -> dict[str, str]:
    """The paths that cannot land, each with why. `directory`: ours, on the disk of the home."""
    items = list(items)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        left = dict.fromkeys(_refused(items, descriptor), NO_SUCH_NAME)
        if _alike(items, _EVERYTHING):
            folding = folding_of(descriptor, os.path.basename(temporary_name(directory)))
            for path, other in _alike((item for item in items if item.path not in left), folding).items():
                left[path] = f"this disk takes its name and `{other}` for one"
        return left
    finally:
        os.close(descriptor)


def _refused(items: Iterable[Item], directory: int) -> list[str]:
    taken: dict[str, bool] = {}

    def takes(part: str) -> bool:
        if part not in taken:
            taken[part] = takes_name(directory, part)
        return taken[part]

    return [item.path for item in items if not all(map(takes, item.path.split("/")))]


def _alike(items: Iterable[Item], folding: Folding) -> dict[str, str]:
    """Each file with what has its place already; of two directories that become one nothing is lost."""
    first: dict[tuple[int, str], str] = {}
    found: dict[str, str] = {}
    for item in sorted(items, key=lambda item: item.kind is not Kind.DIRECTORY):
        other = first.setdefault((item.root, folding.key(item.place)), item.path)
        if other != item.path and item.kind is not Kind.DIRECTORY:
            found[item.path] = other
    return found


class OtherSpellings:
    """What lies in a home under another spelling of a name that lands there: its disk takes both for one.

    It is the very thing that lands, and keeps its spelling where its bytes are the same. Nothing is written
    to find that out: the disk leads from a name to a file that it lists by another.
    """

    def __init__(self, home: str, wanted: Iterable[str]) -> None:
        self._home, self._wanted = home, wanted
        self._by_key: dict[str, str] | None = None
        self._listed: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> str:
        """The path that lands in the very place of this one; "" where none does."""
        if self._by_key is None:
            self._by_key = {_EVERYTHING.key(one): one for one in self._wanted}
        other = self._by_key.get(_EVERYTHING.key(path), path)
        return other if other != path and self._leads_to(path, other) else ""

    def _leads_to(self, path: str, other: str) -> bool:
        place = self._home
        for there, asked in zip(path.split("/"), other.split("/"), strict=True):
            if there != asked:
                names = self._names(place)
                if there not in names or asked in names or not os.path.lexists(os.path.join(place, asked)):
                    return False
            place = os.path.join(place, there)
        return True

    def _names(self, directory: str) -> frozenset[str]:
        if directory not in self._listed:
            try:
                self._listed[directory] = frozenset(os.listdir(directory))
            except OSError:
                self._listed[directory] = frozenset()
        return self._listed[directory]
