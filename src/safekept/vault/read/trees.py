"""Which blobs snapshots need: the question that everything depends on that deletes.

Only ids are taken out of the directories, so that a million files cost little. A directory that is
missing, damaged or not understood is an error and never "needs nothing".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from safekept.core.entries import Remark
from safekept.core.errors import BAD_SHAPE
from safekept.core.events import Event, Listener, silent
from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.blobs import ID, BlobKind
from ..format.snapshot import Snapshot
from ..format.tree import BadTree, Node
from .homes import damaged_remark
from .reader import walk

if TYPE_CHECKING:
    from ..repo.repository import Repository


Used = dict[BlobKind, set[bytes]]


def used_blobs(repository: Repository, snapshots: Sequence[Snapshot], listener: Listener = silent) -> Used:
    """The ids of every directory and every piece of data below these snapshots; VaultDamaged otherwise.

    Directories are shared between snapshots, so each is read once, whatever the length of history.
    """
    trees, data = set[bytes](), set[bytes]()
    for number, snapshot in enumerate(snapshots):
        listener(Event("mark", number, len(snapshots), "snapshots"))
        waiting = [snapshot.tree]
        while waiting:
            tree = waiting.pop()
            if tree in trees:
                continue
            trees.add(tree)
            try:
                below, content = references(repository.load_blob(BlobKind.TREE, tree))
            except BadTree as error:
                raise VaultDamaged.blob("directory", tree.hex(), str(error)) from error
            waiting += below
            data.update([content[at : at + ID] for at in range(0, len(content), ID)])
    return {BlobKind.TREE: trees, BlobKind.DATA: data}


def references(text: bytes) -> tuple[list[bytes], bytes]:
    """The directories and the data (ids in a row) that a directory names; BadTree where it is none."""
    try:
        trees: list[bytes] = []
        contents: list[str] = []
        count = 0
        for node in json.loads(text)["nodes"] or ():
            if subtree := node.get("subtree"):
                trees.append(bytes.fromhex(subtree))
            elif node["type"] == "dir":
                raise ValueError("a directory without a subtree")
            if content := node.get("content"):
                contents += content
                count += len(content)
        packed = bytes.fromhex("".join(contents))
    except BAD_SHAPE as error:
        raise BadTree(f"not a tree: {error}") from error
    if len(packed) != count * ID or any(len(tree) != ID for tree in trees):
        raise BadTree("not a tree: it names what is not an id")
    return trees, packed


# Whether the index names every piece of one snapshot. Our own reader finds pieces in packs that no index
# names, so a restore works without one. restic does not, and a prune may take such packs away: a caller that
# proves a snapshot wants to know.


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one snapshot is made of, as far as it can be read."""

    directories: int
    pieces: int
    unnamed: int  # pieces and directories that no index file names


def coverage(repository: Repository, snapshot: Snapshot) -> Coverage:
    """Look every piece of a snapshot up. Damaged directories are found elsewhere."""
    remarks: list[Remark] = []
    trees, pieces = {snapshot.tree}, set[bytes]()
    for _, node in walk(repository, snapshot.tree, remarks):
        if node.subtree is not None:
            trees.add(node.subtree)
        content = node.content or b""
        pieces.update(content[at : at + ID] for at in range(0, len(content), ID))
    index = repository.index
    unnamed = sum(index.lookup(BlobKind.TREE, tree) is None for tree in trees)
    unnamed += sum(index.lookup(BlobKind.DATA, piece) is None for piece in pieces)
    return Coverage(len(trees), len(pieces), unnamed)


# What differs between two directories of a vault: cheap, since equal trees have equal ids.

Pair = tuple[str, Node | None, Node | None]


def tree_changes(
    repository: Repository,
    before: bytes | None,
    after: bytes | None,
    remarks: list[Remark],
    prefix: str = "",
) -> Iterator[Pair]:
    """Every path that is not the same in both trees, with its two nodes; equal subtrees are not looked at.

    Directories are among them where they are only on one side or differ in themselves.
    """
    if before == after:
        return
    old, new = _nodes(repository, before, prefix, remarks), _nodes(repository, after, prefix, remarks)
    if old is None or new is None:
        return  # damaged on one side: nothing can be said about it, and the remark says so
    for name in sorted(old.keys() | new.keys(), key=os.fsencode):
        first, second = old.get(name), new.get(name)
        path = prefix + name
        if first is None or second is None or not same_node(first, second):
            yield path, first, second
        trees = [node.subtree if node is not None else None for node in (first, second)]
        if trees[0] != trees[1]:
            yield from tree_changes(repository, trees[0], trees[1], remarks, path + "/")


def _nodes(
    repository: Repository, tree: bytes | None, prefix: str, remarks: list[Remark]
) -> dict[str, Node] | None:
    if tree is None:
        return {}
    try:
        return {node.name: node for node in repository.load_tree(tree).nodes}
    except VaultDamaged as error:
        remarks.append(damaged_remark(prefix.rstrip("/"), "this directory", error))
        return None


def same_node(first: Node, second: Node) -> bool:
    """Equal in what a restore would bring back, subtrees aside."""
    return same_content(first, second) and (first.mode, first.mtime_ns) == (second.mode, second.mtime_ns)


def same_content(first: Node, second: Node) -> bool:
    """Equal in kind, blocks and target; the same bytes in blocks of another size are not found equal."""
    if first.type != second.type:
        return False
    return first.content == second.content and first.target == second.target
