"""Git objects as bytes: hashing, trees, commits.

What is written here is what git itself would have written for the same content, so that plain git
reads, checks and repacks the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

FILE, EXECUTABLE, LINK, DIRECTORY = b"100644", b"100755", b"120000", b"40000"
NOTHING = bytes(20)
_AUTHOR = b"safekept <safekept@localhost>"


class BadObject(Exception):
    """An object that is missing or not what it should be. `oid` is its name."""

    def __init__(self, oid: str, what: str) -> None:
        super().__init__(f"object {oid} {what}")
        self.oid = oid


def object_id(kind: bytes, data: bytes | memoryview) -> bytes:
    """The name of an object, as twenty bytes."""
    digest = hashlib.sha1(b"%s %d\0" % (kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


def encode_tree(entries: Iterable[tuple[bytes, bytes, bytes]]) -> bytes:
    """A tree of (mode, name, oid) in any order."""
    ordered = sorted(entries, key=_tree_order)
    return b"".join([b"%s %s\0%s" % entry for entry in ordered])


def _tree_order(entry: tuple[bytes, bytes, bytes]) -> bytes:
    return entry[1] + b"/" if entry[0] == DIRECTORY else entry[1]


def decode_tree(data: bytes, oid: str = "") -> Iterator[tuple[bytes, bytes, bytes]]:
    """(mode, name, oid) of every entry."""
    position, end = 0, len(data)
    while position < end:
        space = data.find(b" ", position, position + 8)
        stop = data.find(b"\0", space)
        if space < 0 or stop < 0 or stop + 21 > end:
            raise BadObject(oid, "is not a tree")
        yield data[position:space], data[space + 1 : stop], data[stop + 1 : stop + 21]
        position = stop + 21


def encode_commit(tree: bytes, seconds: int, message: bytes) -> bytes:
    """A commit without parents. The message must be free of NUL bytes."""
    stamp = b"%s %d +0000" % (_AUTHOR, max(seconds, 0))
    return b"tree %s\nauthor %s\ncommitter %s\n\n%s" % (tree.hex().encode(), stamp, stamp, message)


def decode_commit(data: bytes, oid: str = "") -> tuple[bytes, bytes]:
    """The tree and the message of a commit."""
    head, _, message = data.partition(b"\n\n")
    first = head.split(b"\n", 1)[0]
    try:
        if not first.startswith(b"tree "):
            raise ValueError
        return bytes.fromhex(first[5:].decode("ascii")), message
    except ValueError:
        raise BadObject(oid, "is not a commit") from None
