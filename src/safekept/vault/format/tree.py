"""Trees: one directory's entries as canonical Go JSON, and any valid JSON back.

What is written is byte for byte what restic writes for the same nodes: fields in its order, nodes
ascending by the raw bytes of their names, one newline at the end. What is read may come from
rustic or an older restic: other orders, missing fields, times without fractions.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from .blobs import ID
from .go_text import format_time, json_text, parse_time, quote, unquote

TYPES = ("file", "dir", "symlink", "dev", "chardev", "fifo", "socket")

# Go's FileMode: the type bits, and the three special bits where Unix has others.
_TYPE_BITS = {
    "dir": 1 << 31,
    "symlink": 1 << 27,
    "dev": 1 << 26,
    "chardev": 1 << 26 | 1 << 21,
    "fifo": 1 << 25,
    "socket": 1 << 24,
}
_SPECIAL = ((stat.S_ISUID, 1 << 23), (stat.S_ISGID, 1 << 22), (stat.S_ISVTX, 1 << 20))


class BadTree(Exception):
    """Text that is not a tree, or that names what no directory can hold."""


@dataclass(slots=True)
class Node:
    """One entry of a directory. Names and targets are decoded with `surrogateescape`."""

    name: str
    type: str
    mode: int = 0  # Unix permission bits, setuid, setgid and sticky included
    mtime_ns: int = 0
    atime_ns: int | None = None  # None: as mtime, which is what restic stores
    ctime_ns: int | None = None  # None: as mtime
    uid: int = 0
    gid: int = 0
    user: str = ""
    group: str = ""
    inode: int = 0
    device_id: int = 0
    size: int = 0
    links: int = 0
    target: str = ""
    device: int = 0
    content: bytes | None = None  # ids of a file's blobs in a row; None for all but files
    subtree: bytes | None = None
    extended: tuple[tuple[str, bytes], ...] = ()
    #: What others store and we do not use (`generic_attributes`, `error`): kept when written again.
    generic: dict[str, Any] | None = None
    error: str = ""

    def blobs(self) -> list[bytes]:
        packed = self.content or b""
        return [packed[at : at + ID] for at in range(0, len(packed), ID)]


@dataclass(slots=True)
class Tree:
    nodes: list[Node] = field(default_factory=list)

    def find(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)


def go_mode(kind: str, mode: int) -> int:
    special = sum(go for unix, go in _SPECIAL if mode & unix)
    return mode & 0o777 | special | _TYPE_BITS.get(kind, 0)


def unix_mode(mode: int) -> int:
    return mode & 0o777 | sum(unix for unix, go in _SPECIAL if mode & go)


def encode_tree(nodes: Iterable[Node]) -> bytes:
    """The canonical bytes of a directory; ValueError for names that no directory can hold."""
    ordered = sorted(nodes, key=lambda node: os.fsencode(node.name))
    for before, after in itertools.pairwise(ordered):
        if before.name == after.name:
            raise ValueError(f"two nodes are called {after.name!r}")
    return encode_nodes([encode_node(node) for node in ordered])


def encode_nodes(texts: Sequence[str]) -> bytes:
    """A tree of nodes that were encoded (and sorted) before: large directories need no second copy."""
    return f'{{"nodes":[{",".join(texts)}]}}\n'.encode()


def encode_node(node: Node) -> str:
    """One node as Go's encoder writes it."""
    if node.name in ("", ".", "..") or "/" in node.name or node.type not in TYPES:
        raise ValueError(f"not a node: {node.name!r} ({node.type})")
    mtime = format_time(node.mtime_ns)
    mode = go_mode(node.type, node.mode)
    parts = [f'{{"name":{json_text(quote(node.name))},"type":"{node.type}"']
    if mode:
        parts.append(f',"mode":{mode}')
    parts.append(f',"mtime":"{mtime}"')
    parts.append(f',"atime":"{mtime if node.atime_ns is None else format_time(node.atime_ns)}"')
    parts.append(f',"ctime":"{mtime if node.ctime_ns is None else format_time(node.ctime_ns)}"')
    parts.append(f',"uid":{node.uid},"gid":{node.gid}')
    for name in ("user", "group"):
        if text := getattr(node, name):
            parts.append(f',"{name}":{json_text(text)}')
    for name in ("inode", "device_id", "size", "links"):
        if number := getattr(node, name):
            parts.append(f',"{name}":{number}')
    if node.target:
        parts.append(f',"linktarget":{json_text(node.target)}')
        raw = os.fsencode(node.target)
        if raw.decode("utf-8", "replace") != node.target:  # what Go could not say in JSON
            parts.append(f',"linktarget_raw":"{base64.b64encode(raw).decode()}"')
    if node.extended:
        items = ",".join(
            f'{{"name":{json_text(name)},"value":"{base64.b64encode(value).decode()}"}}'
            for name, value in node.extended
        )
        parts.append(f',"extended_attributes":[{items}]')
    if node.generic:
        parts.append(f',"generic_attributes":{json.dumps(node.generic, separators=(",", ":"))}')
    if node.device:
        parts.append(f',"device":{node.device}')
    parts.append(f',"content":{_encode_content(node)}')
    if node.subtree is not None:
        parts.append(f',"subtree":"{node.subtree.hex()}"')
    if node.error:
        parts.append(f',"error":{json_text(node.error)}')
    parts.append("}")
    return "".join(parts)


def _encode_content(node: Node) -> str:
    if node.type != "file":
        return "null"
    if not node.content:
        return "[]"
    return '["' + node.content.hex('"', ID).replace('"', '","') + '"]'


def decode_tree(text: bytes) -> Tree:
    """Any valid tree; BadTree where it is none."""
    try:
        return Tree([_decode_node(fields) for fields in json.loads(text)["nodes"] or ()])
    except BAD_SHAPE as error:
        raise BadTree(f"not a tree: {error}") from error


def find_node(text: bytes, name: str) -> Node | None:
    """One node of a tree by its name, without decoding the others.

    A directory with a large database in it is megabytes of ids. Written as restic writes it, a node
    begins with its name; anything else is found by decoding all of it.
    """
    start = ('{"name":' + json_text(quote(name)) + ',"type":').encode()
    at = text.find(start)
    if at >= 0:
        try:
            fields, _ = _DECODER.raw_decode(text[at:].decode())
            return _decode_node(fields)
        except BAD_SHAPE:
            pass  # as if it had not been found; decoding the whole will tell
    return decode_tree(text).find(name)


_DECODER = json.JSONDecoder()


def _decode_node(fields: dict[str, Any]) -> Node:
    kind, name = str(fields["type"]), unquote(fields["name"])
    content: bytes | None = None
    if kind == "file":
        content = bytes.fromhex("".join(fields.get("content") or ()))
        if len(content) % ID:
            raise ValueError(f"the content of {name!r} is not a list of ids")
    subtree = bytes.fromhex(fields["subtree"]) if fields.get("subtree") else None
    if kind == "dir" and (subtree is None or len(subtree) != ID):
        raise ValueError(f"the directory {name!r} has no subtree")
    if name in ("", ".", "..") or "/" in name or "\x00" in name:
        raise ValueError(f"a node is called {name!r}")
    target = str(fields.get("linktarget") or "")
    if raw := fields.get("linktarget_raw"):
        target = base64.b64decode(raw).decode("utf-8", "surrogateescape")
    mtime = _time(fields.get("mtime"))
    return Node(
        name,
        kind,
        unix_mode(int(fields.get("mode") or 0)),
        mtime,
        mtime if fields.get("atime") == fields.get("mtime") else _time(fields.get("atime"), mtime),
        mtime if fields.get("ctime") == fields.get("mtime") else _time(fields.get("ctime"), mtime),
        int(fields.get("uid") or 0),
        int(fields.get("gid") or 0),
        str(fields.get("user") or ""),
        str(fields.get("group") or ""),
        int(fields.get("inode") or 0),
        int(fields.get("device_id") or 0),
        int(fields.get("size") or 0),
        int(fields.get("links") or 0),
        target,
        int(fields.get("device") or 0),
        content,
        subtree,
        tuple(
            (str(item["name"]), base64.b64decode(item.get("value") or ""))
            for item in fields.get("extended_attributes") or ()
        ),
        fields.get("generic_attributes"),
        str(fields.get("error") or ""),
    )


def _time(text: str | None, default: int = 0) -> int:
    return parse_time(text)[0] if text else default
