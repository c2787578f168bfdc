"""Git objects as bytes: hashing, trees, commits.

What is written here is what git itself would have written for the same content, so that plain git
reads, checks and repacks the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

# Names in git trees: a project may hold any name, a tree may not. Git refuses or distrusts names that
# could be taken for its own data on some filesystem (`.git` in many disguises, `git~1`, `.gitmodules`,
# `.gitattributes`, names with a backslash before one of them). Such a name is stored as `safekept%` and
# its bytes in hexadecimal, so that nothing has to be left out and `git fsck --strict` stays quiet. What
# is stored is the blob of the file all the same.

ESCAPE = b"safekept%"
#: The blob that describes a directory, in the tree `meta/`.
META = b".meta"

_SUSPICIOUS = re.compile(rb"git|~|\\|safekept%|mailmap|\xe2\x80|\xe2\x81|\xef\xbb\xbf", re.IGNORECASE)
#: Code points that HFS+ does not see in names.
_INVISIBLE = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_TAIL = rb"[ .]*(?::.*)?$"
_HOSTILE = re.compile(
    rb"(?:\.git(?:modules|attributes)?" + _TAIL + rb"|g[^~]{0,5}~\d)", re.IGNORECASE | re.DOTALL
)
_HOSTILE_LINK = re.compile(rb"(?:\.gitignore|\.mailmap|ma[^~]{0,4}~\d)", re.IGNORECASE)


def stored_name(name: bytes, link: bool = False) -> bytes:
    """The name of an entry of a tree for a name in the project."""
    if _SUSPICIOUS.search(name) is None:
        return name
    if name.startswith(ESCAPE):
        return ESCAPE + name.hex().encode()
    for part in _INVISIBLE.sub(b"", name).split(b"\\"):
        if _HOSTILE.match(part) or (link and _HOSTILE_LINK.match(part)):
            return ESCAPE + name.hex().encode()
    return name


def real_name(stored: bytes) -> bytes:
    """The name in the project for the name of an entry of a tree."""
    if not stored.startswith(ESCAPE):
        return stored
    try:
        return bytes.fromhex(stored[len(ESCAPE) :].decode("ascii"))
    except (ValueError, UnicodeDecodeError):
        return stored  # foreign: no name of ours looks like this


def meta_name(name: bytes) -> bytes:
    """The name of a directory in `meta/`, where `.meta` is taken."""
    stored = stored_name(name)
    return stored + b"~" if stored.rstrip(b"~") == META else stored


def real_meta_name(stored: bytes) -> bytes:
    """The directory's own name for its name in `meta/`."""
    if stored != META and stored.rstrip(b"~") == META:
        stored = stored[:-1]
    return real_name(stored)


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
