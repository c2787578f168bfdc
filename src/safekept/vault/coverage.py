"""Whether the index names every piece of one snapshot.

Our own reader finds pieces in packs that no index names, so a restore works without one. restic does
not, and a prune may take such packs away: whoever proves a snapshot wants to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from safekept.core.entries import Remark
from safekept.vault.blobs import ID, BlobKind
from safekept.vault.reader import walk
from safekept.vault.snapshot import Snapshot

if TYPE_CHECKING:
    from safekept.vault.repo import Repository


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
