"""Following every snapshot down to its blobs, and every damaged blob up to the files that need it.

Directories are shared between snapshots, so each is read once, whatever the length of history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.vault.blobs import ID, BlobKind
from holdfast.vault.errors import VaultDamaged
from holdfast.vault.findings import DAMAGE, Report, Touched
from holdfast.vault.snapshot import Snapshot
from holdfast.vault.tree import TYPES, Tree

if TYPE_CHECKING:
    from holdfast.vault.repo import Repository

_SHOWN = 20


class TreeCheck:
    """Checks the directories of snapshots one after the other."""

    def __init__(self, repository: Repository, report: Report) -> None:
        self._repository, self._report = repository, report
        self._seen: set[bytes] = set()
        self._reported: set[bytes] = set()
        self._touched: dict[bytes, bool] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Read all its directories that no earlier snapshot shared; look every blob up."""
        waiting = [snapshot.tree]
        while waiting:
            tree = waiting.pop()
            if tree in self._seen:
                continue
            self._seen.add(tree)
            found = self._load(tree)
            for node in found.nodes if found else ():
                if node.subtree is not None:
                    waiting.append(node.subtree)
                if node.type not in TYPES:
                    text = f"A directory ({tree.hex()[:8]}) holds `{node.name}` of unknown type {node.type}"
                    self._report.add("tree-unreadable", "", text, blobs=frozenset({tree}))
                self._look_up(node.content or b"")

    def trace(self, snapshots: list[Snapshot]) -> None:
        """Say of every damage which files of which snapshots it touches."""
        for finding in self._report.findings:
            if finding.severity != DAMAGE or not finding.blobs:
                continue
            lost = {blob for blob in finding.blobs if not self._elsewhere(blob, finding.file)}
            self._touched = {}
            touches = []
            for snapshot in snapshots:
                paths = list(self._paths(snapshot.tree, "", lost))
                if paths:
                    touches.append(Touched(snapshot.id, tuple(paths[:_SHOWN]), len(paths)))
            finding.touches = tuple(touches)

    def _load(self, tree: bytes) -> Tree | None:
        try:
            return self._repository.load_tree(tree)
        except VaultDamaged as error:
            reason = error.facts.get("reason", error.what)
            code = "tree-unreadable"
            if not self._repository.index.has(BlobKind.TREE, tree):
                code = "blob-missing"
            if tree not in self._reported:
                self._reported.add(tree)
                text = f"A directory ({tree.hex()[:8]}) cannot be read: {reason}"
                self._report.add(code, "", text, blobs=frozenset({tree}))
            return None

    def _look_up(self, content: bytes) -> None:
        for at in range(0, len(content), ID):
            blob = content[at : at + ID]
            if self._repository.index.has(BlobKind.DATA, blob) or blob in self._reported:
                continue
            self._reported.add(blob)
            if self._repository.locations(BlobKind.DATA, blob):
                text = f"A piece of data ({blob.hex()[:8]}) is in a pack, but in no index"
                self._report.add("blob-not-indexed", "", text, blobs=frozenset({blob}))
            else:
                text = f"A piece of data ({blob.hex()[:8]}) is in no pack and in no index"
                self._report.add("blob-missing", "", text, blobs=frozenset({blob}))

    def _elsewhere(self, blob: bytes, file: str) -> bool:
        """Whether another pack holds the same blob: then nothing is lost."""
        if not file:
            return False
        damaged = {finding.file for finding in self._report.findings if blob in finding.blobs}
        for kind in BlobKind:
            for location in self._repository.index.lookup_all(kind, blob):
                name = location.pack.hex()
                if f"data/{name[:2]}/{name}" not in damaged:
                    return True
        return False

    def _paths(self, tree: bytes, prefix: str, lost: set[bytes]) -> Iterable[str]:
        if tree in lost:
            yield prefix or "/"
            return
        if self._touched.get(tree) is False:
            return
        found, any_here = self._quietly(tree), False
        for node in found.nodes if found else ():
            if node.subtree is not None:
                for path in self._paths(node.subtree, f"{prefix}{node.name}/", lost):
                    any_here = True
                    yield path
            elif node.content and not lost.isdisjoint(node.blobs()):
                any_here = True
                yield prefix + node.name
        self._touched[tree] = any_here

    def _quietly(self, tree: bytes) -> Tree | None:
        try:
            return self._repository.load_tree(tree)
        except VaultDamaged:
            return None
