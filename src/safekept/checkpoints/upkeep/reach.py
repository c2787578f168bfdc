"""Which objects the checkpoints hold on to, and what each checkpoint holds alone.

The walk goes from commits through trees, visits nothing twice, and takes a missing object for what it
is: damage in one checkpoint, noted, which neither stops the walk nor endangers another project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..checkpoint import Checkpoint

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


def weigh(order: Sequence[Checkpoint], others: Sequence[Checkpoint], reach: Reach) -> list[int]:
    """What each of `order` frees if they go in that order and `others` stay.

    Whoever stays longest pays: an object is charged to the last of those that hold it. `reach` is left
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
