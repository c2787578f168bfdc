"""Which blobs snapshots need: the question that everything depends on that deletes.

Only ids are taken out of the directories, so that a million files cost little. A directory that is
missing, damaged or not understood is an error and never "needs nothing".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from safekept.core.entries import Remark
from safekept.core.errors import BAD_SHAPE
from safekept.core.events import Event, Listener, silent

from ..errors import VaultDamaged
from ..format.blobs import ID, BlobKind
from ..format.snapshot import Snapshot
from ..format.tree import BadTree
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
# names, so a restore works without one. restic does not, and a prune may take such packs away: whoever
# proves a snapshot wants to know.


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one snapshot is made of, as far as it can be read."""

    directories: int
    pieces: int
    unnamed: int  # pieces and directories that no index file names


def coverage(repository: Repository, snapshot: Snapshot) -> Coverage:
    """Look every piece of a snapshot up. Damaged directories are somebody else's finding."""
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
