"""Following every snapshot down to its blobs, and every damaged blob up to the files that need it.

Directories are shared between snapshots, so each is read once, whatever the length of history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.blobs import ID, BlobKind
from ..format.snapshot import Snapshot
from ..format.tree import TYPES, Node, Tree
from ..snapshots import public_id
from ..storage.base import FileKind, stored_name

if TYPE_CHECKING:
    from ..repo.repository import Repository


# What a check found, as values: what is damaged, and which files of which snapshots it touches.

DAMAGE = "damage"  # something stored cannot be given back, or soon could not be
NOTE = "note"  # nothing is lost; maintenance would tidy it up


@dataclass(frozen=True, slots=True)
class Touched:
    """What one finding means for one snapshot."""

    snapshot: str
    paths: tuple[str, ...]  # the first of them; directories end with `/`
    count: int  # of all of them


@dataclass(slots=True)
class Defect:
    """One thing that is not as it should be.

    Codes: index-unreadable, snapshot-unreadable, mark-unreadable, key-unreadable, pack-missing,
    pack-truncated, pack-damaged, pack-not-indexed, blob-damaged, blob-missing, tree-unreadable,
    index-disagrees;
    as notes: pack-unreferenced, pack-indexed-twice, pack-mixed, lock-left-behind.
    """

    code: str
    severity: str
    file: str  # as it lies in the vault: `data/ab/ab12…`; empty where it has none
    what: str
    blobs: frozenset[bytes] = frozenset()  # what cannot be read because of it
    touches: tuple[Touched, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "what": self.what,
            "touches": [
                {"snapshot": item.snapshot, "paths": list(item.paths), "count": item.count}
                for item in self.touches
            ],
        }


@dataclass(slots=True)
class Report:
    """The whole account of one check."""

    findings: list[Defect] = field(default_factory=list)
    snapshots: int = 0
    packs: int = 0
    blobs: int = 0
    packs_read: int = 0
    bytes_read: int = 0

    @property
    def sound(self) -> bool:
        """Nothing is damaged; there may be notes."""
        return not self.damage

    @property
    def damage(self) -> list[Defect]:
        return [finding for finding in self.findings if finding.severity == DAMAGE]

    def add(
        self, code: str, file: str, what: str, *, note: bool = False, blobs: frozenset[bytes] = frozenset()
    ) -> None:
        self.findings.append(Defect(code, NOTE if note else DAMAGE, file, what, blobs))


_SHOWN = 20


class TreeCheck:
    """Checks the directories of snapshots one after the other; `conclude` writes the findings."""

    def __init__(self, repository: Repository, report: Report) -> None:
        self._repository, self._report = repository, report
        self._seen: set[bytes] = set()
        self._missing: set[bytes] = set()
        self._unindexed: dict[bytes, set[bytes]] = defaultdict(set)  # pack -> needed blobs

    def check(self, snapshot: Snapshot) -> None:
        """Read all its directories that no earlier snapshot shared; look every blob up."""
        waiting = [snapshot.tree]
        while waiting:
            tree = waiting.pop()
            if tree in self._seen:
                continue
            self._seen.add(tree)
            self._look_up(BlobKind.TREE, tree)
            if tree in self._missing:
                continue
            try:
                nodes = self._repository.load_tree(tree).nodes
            except VaultDamaged as error:
                text = f"A directory ({tree.hex()[:8]}) cannot be read: {error.facts['reason']}"
                self._report.add("tree-unreadable", "", text, blobs=frozenset({tree}))
                continue
            for node in nodes:
                if node.subtree is not None:
                    waiting.append(node.subtree)
                if node.type not in TYPES:
                    text = f"A directory ({tree.hex()[:8]}) holds `{node.name}` of unknown type {node.type}"
                    self._report.add("tree-unreadable", "", text, blobs=frozenset({tree}))
                content = node.content or b""
                for at in range(0, len(content), ID):
                    self._look_up(BlobKind.DATA, content[at : at + ID])

    def conclude(self, snapshots: list[Snapshot]) -> None:
        """The findings that need the whole picture, and for each what it touches."""
        if self._missing:
            text = f"{len(self._missing)} pieces that snapshots need are in no sound pack of this vault"
            self._report.add("blob-missing", "", text, blobs=frozenset(self._missing))
        self._report.findings = [one for one in self._report.findings if not self._is_reported(one)]
        for finding in self._report.findings:
            name = finding.file.rpartition("/")[2]
            needed = self._unindexed.get(bytes.fromhex(name)) if finding.code == "pack-unreferenced" else None
            if needed:
                finding.code, finding.severity, finding.blobs = "pack-not-indexed", DAMAGE, frozenset(needed)
                finding.what = (
                    f"Pack {name[:8]} is in no index, but snapshots need {len(needed)} pieces in it; "
                    "they can be restored, but the index must be rebuilt"
                )
        self._trace([item for item in self._report.findings if item.severity == DAMAGE], snapshots)

    def _is_reported(self, finding: Defect) -> bool:
        """Whether it is a directory that cannot be read because of a damaged pack, which is a finding too."""
        return finding.code == "tree-unreadable" and any(
            other.code == "blob-damaged" and finding.blobs <= other.blobs for other in self._report.findings
        )

    def _look_up(self, kind: BlobKind, blob: bytes) -> None:
        if self._repository.index.has(kind, blob) or blob in self._missing:
            return
        places = self._repository.locations(kind, blob)
        try:
            if places:
                self._repository.load_blob(kind, blob)  # there is a piece of that name; is it sound?
                self._unindexed[places[0].pack].add(blob)
                return
        except VaultDamaged:
            pass
        self._missing.add(blob)

    def _trace(self, findings: list[Defect], snapshots: list[Snapshot]) -> None:
        causes: dict[bytes, list[Defect]] = defaultdict(list)
        for finding in findings:
            for blob in finding.blobs:
                causes[blob].append(finding)
        # A blob that another, sound pack holds as well is not lost.
        for blob in [blob for blob in causes if self._sound_elsewhere(blob, causes[blob])]:
            del causes[blob]
        if not causes:
            return
        clean: set[bytes] = set()
        for snapshot in snapshots:
            paths: dict[int, list[str]] = defaultdict(list)
            for path, blob in self._needing(snapshot.tree, causes, clean):
                for finding in causes[blob]:
                    if not paths[id(finding)] or paths[id(finding)][-1] != path:
                        paths[id(finding)].append(path)
            for finding in findings:
                if found := paths.get(id(finding)):
                    touched = Touched(public_id(snapshot), tuple(found[:_SHOWN]), len(found))
                    finding.touches = (*finding.touches, touched)

    def _sound_elsewhere(self, blob: bytes, causes: list[Defect]) -> bool:
        damaged = {finding.file for finding in causes}
        if "" in damaged or any(finding.code == "pack-not-indexed" for finding in causes):
            return False
        return any(
            stored_name(FileKind.PACK, place.pack.hex()) not in damaged
            for kind in BlobKind
            for place in self._repository.index.lookup_all(kind, blob)
        )

    def _needing(
        self, tree: bytes, causes: dict[bytes, list[Defect]], clean: set[bytes]
    ) -> Iterator[tuple[str, bytes]]:
        """Every path below a tree that needs a blob with a cause; trees that need none go to `clean`."""
        if tree in causes:
            yield "/", tree
        stack = [_Level(tree, "", iter(self._nodes(tree)))]
        while stack:
            level = stack[-1]
            node = next(level.nodes, None)
            if node is None:
                stack.pop()
                if not level.touched:
                    clean.add(level.tree)
                elif stack:
                    stack[-1].touched = True
                continue
            hits = [blob for blob in node.blobs() if blob in causes]
            if node.subtree is not None:
                path = f"{level.path}{node.name}/"
                if node.subtree in causes:
                    level.touched = True
                    yield path, node.subtree
                if node.subtree not in clean:
                    stack.append(_Level(node.subtree, path, iter(self._nodes(node.subtree))))
            for blob in hits:
                level.touched = True
                yield level.path + node.name, blob

    def _nodes(self, tree: bytes) -> list[Node]:
        try:
            found: Tree = self._repository.load_tree(tree)
        except VaultDamaged:
            return []
        return found.nodes


@dataclass(slots=True)
class _Level:
    tree: bytes
    path: str
    nodes: Iterator[Node]
    touched: bool = False
