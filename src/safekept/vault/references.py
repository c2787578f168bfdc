"""Which blobs snapshots need: the question that everything depends on that deletes.

Only ids are taken out of the directories, so that a million files cost little. A directory that is
missing, damaged or not understood is an error and never "needs nothing".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent
from safekept.vault.blobs import ID, BlobKind
from safekept.vault.errors import VaultDamaged
from safekept.vault.snapshot import Snapshot
from safekept.vault.tree import BadTree

if TYPE_CHECKING:
    from safekept.vault.repo import Repository

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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTree(f"not a tree: {error}") from error
    if len(packed) != count * ID or any(len(tree) != ID for tree in trees):
        raise BadTree("not a tree: it names what is not an id")
    return trees, packed
