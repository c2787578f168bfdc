"""A snapshot as the home that it was taken of: paths below the home, and `_external/…` for what lay outside.

What safekept stored says itself where the home was (`.safekept/manifest.json` at the root of the tree).
What restic or rustic stored says only which paths it was given; the caller finds the home in it by
its markers and names it. Damage stays local: a directory that cannot be read becomes a remark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from safekept.core.entries import CHUNK, BytesContent, Content, DatabaseFacts, Entry, Kind, Outcome, Remark
from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.snapshot import Snapshot
from ..format.tree import Node
from .reader import SmallFiles, StoredContent, has_bytes, holes_of, walk

if TYPE_CHECKING:
    from ..repo.repository import Repository

MANIFEST = (".safekept", "manifest.json")
FORMAT = "safekept-snapshot"
_KINDS = {"file": Kind.FILE, "dir": Kind.DIRECTORY, "symlink": Kind.SYMLINK}
_LARGEST_MANIFEST = 256 << 20


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """One directory of the snapshot and the name that its content has among the entries."""

    prefix: str  # "" for the home, `_external/.honcho` for a place outside it
    place: str  # the path in the snapshot, without a leading `/`


def read_manifest(repository: Repository, snapshot: Snapshot) -> dict[str, Any] | None:
    """What safekept wrote about the snapshot; None where another program made it.

    VaultDamaged where there is a manifest that cannot be read.
    """
    node = repository.find_node(snapshot.tree, MANIFEST[0])
    if node is None or node.subtree is None:
        return None
    node = repository.find_node(node.subtree, MANIFEST[1])
    if node is None or node.type != "file" or node.size > _LARGEST_MANIFEST:
        return None
    text = b"".join(repository.loader.stream(node.content or b""))
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def snapshot_source(
    repository: Repository, snapshot: Snapshot, home: str | None = None
) -> tuple[HomeSource, dict[str, Any] | None]:
    """The home in a snapshot as a Source, and its manifest where safekept made it.

    `home` is the path in the snapshot where the home lies, for those without a manifest; by default
    it is what the snapshot was made of.
    """
    remarks: list[Remark] = []
    manifest: dict[str, Any] | None = None
    try:
        manifest = read_manifest(repository, snapshot)
    except VaultDamaged as error:
        remarks.append(damaged_remark(".safekept/manifest.json", "the account of this snapshot", error))
    if home is None:
        home = str(manifest.get("home", "")) if manifest else ""
        home = home or (snapshot.paths[0] if snapshot.paths else "")
    roots = [StoredRoot("", home.strip("/"))]
    external = manifest.get("external") if manifest else None
    for prefix, place in external.items() if isinstance(external, Mapping) else ():
        roots.append(StoredRoot(str(prefix).strip("/"), str(place).strip("/")))
    return HomeSource(repository, snapshot, roots, manifest, remarks), manifest


def damaged_remark(path: str, what: str, error: VaultDamaged) -> Remark:
    reason = str(error.facts.get("reason", error.what))
    return Remark(path, Outcome.UNREADABLE, f"{what} is damaged in the vault: {reason}")


class HomeSource:
    """What a snapshot holds of one home. Iterated again, it gives the same entries at no cost."""

    ordered = False

    def __init__(
        self,
        repository: Repository,
        snapshot: Snapshot,
        roots: list[StoredRoot],
        manifest: Mapping[str, Any] | None,
        remarks: list[Remark],
    ) -> None:
        self.repository, self.snapshot, self.roots, self.manifest = repository, snapshot, roots, manifest
        self.remarks: list[Remark] = list(remarks)
        databases = manifest.get("databases") if manifest else None
        self._databases: Mapping[str, Any] = databases if isinstance(databases, Mapping) else {}
        self._entries: list[Entry] | None = None
        self.small = SmallFiles(repository)

    def __iter__(self) -> Iterator[Entry]:
        if self._entries is None:
            self.small = SmallFiles(self.repository)
            self._entries = [entry for root in self.roots for entry in self._below(root)]
        return iter(self._entries)

    def without_external(self) -> list[str]:
        """Leave out what lay outside the home; the places that this concerns."""
        left = ["/" + root.place for root in self.roots if root.prefix]
        self.roots = [root for root in self.roots if not root.prefix]
        self._entries = None
        return left

    def node(self, path: str) -> Node | None:
        """The node of one path of the home; None where the snapshot has none. Loads only what leads to it."""
        for root in reversed(self.roots):
            if not root.prefix or path == root.prefix or path.startswith(root.prefix + "/"):
                inner = path[len(root.prefix) :].strip("/") if root.prefix else path
                return self._find("/".join(filter(None, (root.place, inner))))
        return None

    def children(self, path: str) -> list[Node]:
        """What lies in one directory of the home, by name."""
        node = self.node(path)
        if node is None or node.subtree is None:
            return []
        return self.repository.load_tree(node.subtree).nodes

    def content(self, path: str, node: Node) -> Content:
        """The bytes of one file."""
        return StoredContent(self.repository, path, node, self.database(path))

    def database(self, path: str) -> DatabaseFacts | None:
        """What the snapshot knows of a database of the home."""
        found = self._databases.get(path)
        if not isinstance(found, Mapping):
            return None
        counts = found.get("counts")
        return DatabaseFacts(
            str(found.get("state", "unverified")),
            str(found.get("method", "")),
            str(found.get("detail", "")),
            int(found.get("page_size") or 0),
            dict(counts) if isinstance(counts, Mapping) else {},
            dict(lean) if isinstance(lean := found.get("lean"), Mapping) else None,
        )

    def _below(self, root: StoredRoot) -> Iterator[Entry]:
        try:
            node = self._find(root.place)
        except VaultDamaged as error:
            what = "the way to this place" if root.prefix else "the way to the home"
            self.remarks.append(damaged_remark(root.prefix, what, error))
            return
        if node is None:
            return
        if root.prefix:
            entry = self._entry(root.prefix, node)
            if entry is not None:
                yield entry
        if node.subtree is None:
            return
        prefix = root.prefix + "/" if root.prefix else ""
        for path, below in walk(self.repository, node.subtree, self.remarks, prefix):
            entry = self._entry(path, below)
            if entry is not None:
                yield entry

    def _entry(self, path: str, node: Node) -> Entry | None:
        kind = _KINDS.get(node.type)
        if kind is None:
            reason = f"a {node.type}: there are no bytes to restore"
            self.remarks.append(Remark(path, Outcome.PASSED_OVER, reason))
            return None
        if kind is not Kind.FILE:
            return Entry(path, kind, node.mode, node.mtime_ns, target=node.target)
        opener = _Opener(self, path, node, self.small.add(node.content or b""))
        facts = self.database(path) if path in self._databases else None
        return Entry(
            path,
            kind,
            node.mode,
            node.mtime_ns,
            node.size,
            database=facts is not None,
            open=opener,
            equals=opener.equals,
            left_out=facts.left_out if facts is not None else 0,
            holes=holes_of(node),
        )

    def _find(self, place: str) -> Node | None:
        """The node at a path of the snapshot; the root of the tree is a directory, too."""
        node = Node("root", "dir", 0o755, subtree=self.snapshot.tree)
        for part in filter(None, place.split("/")):
            if node.subtree is None:
                return None
            found = self.repository.find_node(node.subtree, part)
            if found is None:
                return None
            node = found
        return node


class _Opener:
    """Opens a file's content late; holds its ids, 32 bytes for each blob, and little else."""

    __slots__ = ("content", "mtime_ns", "path", "position", "size", "source")

    def __init__(self, source: HomeSource, path: str, node: Node, position: int) -> None:
        self.source, self.path, self.position = source, path, position
        self.content, self.mtime_ns, self.size = node.content, node.mtime_ns, node.size

    def equals(self, descriptor: int) -> bool | None:
        return has_bytes(self.source.repository, self.content or b"", descriptor)

    def __call__(self) -> Content:
        if self.size < CHUNK and (data := self.source.small.read(self.position)) is not None:
            content = BytesContent(data, self.mtime_ns)
            content.database = self.source.database(self.path)
            return content
        node = Node("", "file", mtime_ns=self.mtime_ns, size=self.size, content=self.content)
        return self.source.content(self.path, node)


def content_of(entry: Entry) -> bytes | None:
    """The ids of the blobs of an entry that came out of a vault; None for any other."""
    return entry.open.content if isinstance(entry.open, _Opener) else None


def shallow_paths(repository: Repository, snapshot: Snapshot, depth: int) -> Iterator[str]:
    """Paths near the root of a snapshot, directories with a `/` at the end: to find a home by its markers."""

    def below(tree: bytes, prefix: str, left: int) -> Iterator[str]:
        try:
            nodes = repository.load_tree(tree).nodes
        except VaultDamaged:
            return
        for node in nodes:
            path = prefix + node.name
            if node.subtree is None:
                yield path
                continue
            yield path + "/"
            if left > 1:
                yield from below(node.subtree, path + "/", left - 1)

    yield from below(snapshot.tree, "", depth)
