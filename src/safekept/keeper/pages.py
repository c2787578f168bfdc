"""Manifests, page by page: which files the stores of a user consist of, and which objects make up each.

A manifest is an object that lists pages; a page is an object that lists files. All of them are named by
their SHA-256 and never change, so two manifests share every page in which nothing changed. A file is a list
of objects, or, where it is as small as a ref, its bytes. A reader of pages trusts nothing in them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from .wire import is_name

#: Bytes of a page or of the list of pages, packed and unpacked.
MAX_PAGE, MAX_UNPACKED = 1 << 20, 8 << 20
MAX_ENTRIES = 1_000_000
#: Files up to here lie in the page itself.
INLINE = 512
#: About so many files are on a page.
_ON_A_PAGE = 64
_LONGEST_PATH = 4096
#: Files that stand for a point in time: a snapshot, a checkpoint.
_POINTS = ("vault/snapshots/", "checkpoints/refs/")


class BadManifest(Exception):
    """A page that none of ours is; the text is for a person."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its path below the stores, and its bytes or the objects that hold them, in order."""

    path: str
    parts: tuple[tuple[str, int], ...] = ()
    inline: bytes | None = None

    @property
    def is_point(self) -> bool:
        return self.path.startswith(_POINTS)

    @property
    def size(self) -> int:
        return len(self.inline) if self.inline is not None else sum(size for _, size in self.parts)


def packed_pages(entries: Iterable[Entry]) -> tuple[dict[str, bytes], str]:
    """The pages of a manifest and the list of them, each by its name; and the name of the list.

    Which page a file is on depends on its path alone, so one new file changes one page.
    """
    found = sorted(entries, key=lambda one: one.path)
    count = 1
    while count * _ON_A_PAGE < len(found):
        count *= 2
    parts: list[list[object]] = [[] for _ in range(count)]
    for one in found:
        content = one.parts if one.inline is None else base64.b64encode(one.inline).decode()
        spread = hashlib.sha256(one.path.encode("utf-8", "surrogatepass")).digest()
        parts[int.from_bytes(spread[:4], "big") % count].append([one.path, content])
    pages: dict[str, bytes] = {}
    names = []
    for part in parts:
        data = zlib.compress(json.dumps(part, separators=(",", ":")).encode(), 6)
        names.append(hashlib.sha256(data).hexdigest())
        pages[names[-1]] = data
    listed = zlib.compress(json.dumps(names, separators=(",", ":")).encode(), 6)
    root = hashlib.sha256(listed).hexdigest()
    pages[root] = listed
    return pages, root


def read_root(data: bytes) -> list[str]:
    """The names of the pages. BadManifest where it is no list of names."""
    names = _unpacked(data)
    if not isinstance(names, list) or not names or not all(map(is_name, names)):
        raise BadManifest("its list of pages is none")
    return names


def read_page(data: bytes) -> Iterator[Entry]:
    """The files on a page. BadManifest where one of them is none."""
    rows = _unpacked(data)
    if not isinstance(rows, list):
        raise BadManifest("a page is no list")
    for row in rows:
        try:
            path, content = row
            check_path(path)
            if isinstance(content, str):
                inline = base64.b64decode(content, validate=True)
                if len(inline) > INLINE:
                    raise BadManifest("a file in a page is too large for it")
                yield Entry(path, inline=inline)
                continue
            parts = tuple((name, size) for name, size in content)
            if not parts or not all(is_name(name) and _is_size(size) for name, size in parts):
                raise BadManifest("a file names something that is no object")
            yield Entry(path, parts)
        except (*BAD_SHAPE, binascii.Error):
            raise BadManifest("a page has a line that is none") from None


def check_path(path: object) -> None:
    """BadManifest unless it is a plain path below something: nothing empty, nothing that leads up."""
    if not isinstance(path, str) or not 0 < len(path) <= _LONGEST_PATH or "\0" in path:
        raise BadManifest("a path that is none")
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise BadManifest("a path that leads elsewhere")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50


def _unpacked(data: bytes) -> object:
    if len(data) > MAX_PAGE:
        raise BadManifest("a page is too large")
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data, MAX_UNPACKED)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise BadManifest("a page is too large, or not whole")
        found: object = json.loads(text)
        return found
    except (zlib.error, ValueError, RecursionError):
        raise BadManifest("a page cannot be read") from None
