"""Taking over what Hermes kept: its checkpoints become ours, its older repositories are archived.

Copies only: nothing of Hermes's is changed or removed, and no program runs in its store. Each
checkpoint keeps its time, its reason and its files, to the byte as Hermes stored them. What Hermes left
out it did not write down, so an adopted checkpoint never counts as proof that a file was not there.
Adopting twice adds nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import field

from safekept.core.events import Event, Listener, silent
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint, derived_checkpoint_id
from ..project import project_id
from ..store import metadata as meta_blob
from ..store.metadata import Meta, about, message, short_reason
from ..store.object_store import ObjectStore
from ..store.objects import (
    DIRECTORY,
    EXECUTABLE,
    FILE,
    LINK,
    META,
    BadObject,
    decode_tree,
    encode_commit,
    encode_tree,
    meta_name,
    stored_name,
)
from ..store.pack_writer import PackWriter
from ..store.refs import Refs
from ..store.repository import writing
from ..store.store import Store
from .store import Foreign, ForeignCommit, ForeignProject, is_repository, projects_of

_GITLINK = b"160000"
_DEEPEST = 512


@dataclass(slots=True)
class AdoptedProject:
    """What became of one project of Hermes's."""

    name: str
    project: str
    taken: int = 0
    known: int = 0  # were adopted before
    lost: list[str] = field(default_factory=list)  # commits that could not be read, and why

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "project": self.project,
            "taken": self.taken,
            "known": self.known,
            "lost": self.lost,
        }


def adopt_store(store: Store, hermes_checkpoints: str, listener: Listener = silent) -> list[AdoptedProject]:
    """Copy every checkpoint of a version 2 store that is not here yet."""
    repository = os.path.join(hermes_checkpoints, "store")
    if not is_repository(repository):
        return []
    foreign = Foreign(repository)
    try:
        found = []
        for entry in projects_of(foreign):
            with writing(store.directory):
                store.belt.open_all()
                found.append(_adopt_project(store, foreign, entry, listener))
        return found
    finally:
        foreign.close()


def _adopt_project(
    store: Store, foreign: Foreign, entry: ForeignProject, listener: Listener
) -> AdoptedProject:
    result = AdoptedProject(entry.name, entry.workdir)
    if not entry.workdir:
        result.lost.append("nothing says which directory it was kept for")
        return result
    chain = list(foreign.chain(entry.tip))[::-1]
    if chain and chain[0].parent is not None:
        result.lost.append(f"the history before {chain[0].oid.hex()[:8]} cannot be read")
    identity = project_id(entry.workdir)
    refs = Refs(store.repository)
    known = refs.of(identity)
    store.project_directory(entry.workdir)
    mine = ObjectStore(os.path.join(store.repository, "objects"))
    copier = _Copier(foreign.objects, mine, entry.workdir)
    same_second = 0
    try:
        for number, commit in enumerate(chain):
            listener(Event("adopt", number, len(chain), unit="files", path=entry.workdir))
            before = chain[number - 1].seconds if number else -1
            same_second = same_second + 1 if commit.seconds == before else 0
            # The chain is the order; Hermes's times have seconds only.
            time_ns = commit.seconds * 1_000_000_000 + same_second * 1_000_000
            name = derived_checkpoint_id(time_ns, commit.oid)
            copier.seconds = commit.seconds
            if name in known:
                copier.learn(commit.tree)
                result.known += 1
                continue
            try:
                _adopt_commit(store, refs, copier, entry.workdir, commit, name, time_ns)
                result.taken += 1
            except (BadObject, RecursionError) as error:
                result.lost.append(f"{commit.oid.hex()[:8]} ({commit.reason}): {error}")
    finally:
        mine.close()
    return result


def _adopt_commit(
    store: Store,
    refs: Refs,
    copier: _Copier,
    project: str,
    commit: ForeignCommit,
    name: str,
    time_ns: int,
) -> None:
    scratch = store.project_directory(project)
    with PackWriter(os.path.join(store.repository, "objects", "pack"), scratch) as writer:
        copier.start(writer)
        tree, meta = copier.directory(commit.tree, "", 0)
        kind = "undo" if commit.reason.startswith("pre-rollback") else "before"
        point = Checkpoint(
            id=name,
            project=project,
            time_ns=time_ns,
            kind=kind,
            reason=short_reason(commit.reason),
            session="",
            turn="",
            commit="",
            full=True,
            files=copier.files,
            skipped=len(copier.skipped),
        )
        described = about(
            point,
            adopted_from={"tool": "hermes", "commit": commit.oid.hex()},
            skipped=copier.skipped,
            skipped_complete=False,
        )
        entries = [(DIRECTORY, b"meta", meta), (FILE, b"about.json", writer.add(b"blob", described))]
        if tree is not None:
            entries.append((DIRECTORY, b"files", tree))
        root = writer.add(b"tree", encode_tree(entries))
        made = writer.add(b"commit", encode_commit(root, commit.seconds, message(point)))
        writer.finish()
    refs.create(project_id(project), name, made.hex(), scratch)
    copier.finished()


class _Copier:
    """Copies trees from one store into another, with the descriptions that ours have.

    A file's time is that of the first checkpoint in which it was what it is: Hermes kept no other. Nor
    did it keep modes beyond "executable"; what lies in the project now tells the rest, so that going
    back to an adopted checkpoint never opens a private file to others.
    """

    def __init__(self, source: ObjectStore, mine: ObjectStore, project: str) -> None:
        self._source, self._mine, self._project = source, mine, project
        self._seen: dict[str, tuple[bytes, int]] = {}  # path -> blob, first seen
        self._sizes: dict[bytes, int] = {}
        self.seconds = 0
        self.files = 0
        self.skipped: list[dict[str, object]] = []

    def start(self, writer: PackWriter) -> None:
        self._writer = writer
        self.files, self.skipped = 0, []

    def finished(self) -> None:
        """What was written is in the store now; look at it again."""
        self._mine.close()

    def learn(self, tree: bytes) -> None:
        """Take note of what a checkpoint that is here already held."""
        with contextlib.suppress(BadObject, RecursionError):
            self._learn(tree, "", 0)

    def _learn(self, tree: bytes, path: str, depth: int) -> None:
        for mode, name, oid in self._entries(tree, depth):
            below = path + os.fsdecode(name)
            if mode == DIRECTORY:
                self._learn(oid, below + "/", depth + 1)
            elif mode != _GITLINK:
                self._first_seen(below, oid)

    def directory(self, tree: bytes, path: str, depth: int) -> tuple[bytes | None, bytes]:
        """Copy one directory; returns its tree (None where nothing is in it) and its description."""
        entries: list[tuple[bytes, bytes, bytes]] = []
        metas: list[tuple[bytes, bytes, bytes]] = []
        # What Hermes left out it did not write down: only what is here is known of this directory.
        described = Meta(self._mode(path, 0o755, stat.S_IFDIR), self.seconds * 1_000_000_000, partial=True)
        newest = 0
        for mode, name, oid in self._entries(tree, depth):
            if name in (b"", b".", b"..") or b"/" in name or name.lower() == b".git":
                raise BadObject(tree.hex(), "holds a name that no project can have")
            below = path + os.fsdecode(name)
            if mode == DIRECTORY:
                inner, meta = self.directory(oid, below + "/", depth + 1)
                if inner is not None:
                    entries.append((DIRECTORY, stored_name(name), inner))
                metas.append((DIRECTORY, meta_name(name), meta))
            elif mode == _GITLINK:
                # Hermes stored of a nested repository only the name of a commit in it.
                self.skipped.append(
                    {"path": below, "reason": "git", "detail": "a nested repository", "size": 0}
                )
                described.skipped[name] = ("git", 0)
            else:
                stored = LINK if mode == LINK else EXECUTABLE if mode == EXECUTABLE else FILE
                size = self._blob(oid)
                seen = self._first_seen(below, oid)
                newest = max(newest, seen)
                usual = {LINK: 0o777, EXECUTABLE: 0o755}.get(stored, 0o644)
                bits = usual if stored == LINK else self._mode(below, usual, stat.S_IFREG)
                described.entries[name] = (bits, seen * 1_000_000_000, size)
                entries.append((stored, stored_name(name, stored == LINK), oid))
                self.files += 1
        described.mtime_ns = newest * 1_000_000_000
        blob = self._writer.add(b"blob", meta_blob.encode(described))
        meta = self._writer.add(b"tree", encode_tree([*metas, (FILE, META, blob)]))
        found = self._writer.add(b"tree", encode_tree(entries)) if entries else None
        return found, meta

    def _mode(self, path: str, usual: int, kind: int) -> int:
        """The mode of what lies in the project under that name now, if it is alike; else the usual one."""
        try:
            facts = os.lstat(os.path.join(self._project, path))
        except (OSError, ValueError):
            return usual
        mode = stat.S_IMODE(facts.st_mode) & 0o777
        alike = stat.S_IFMT(facts.st_mode) == kind and bool(mode & 0o100) == bool(usual & 0o100)
        return mode if alike else usual

    def _entries(self, tree: bytes, depth: int) -> list[tuple[bytes, bytes, bytes]]:
        if depth > _DEEPEST:
            raise BadObject(tree.hex(), "is nested too deeply")
        return list(decode_tree(self._source.read_as(b"tree", tree), tree.hex()))

    def _first_seen(self, path: str, oid: bytes) -> int:
        known = self._seen.get(path)
        if known is None or known[0] != oid:
            known = self._seen[path] = (oid, self.seconds)
        return known[1]

    def _blob(self, oid: bytes) -> int:
        size = self._sizes.get(oid)
        if size is not None and (oid in self._writer or oid in self._mine):
            return size
        size = self._sizes[oid] = self._source.size(oid)
        if oid not in self._writer and oid not in self._mine:
            if size > 1 << 24:
                made = self._writer.add_stream(size, self._source.stream(oid))
            else:
                made = self._writer.add(b"blob", self._source.read_as(b"blob", oid))
            if made != oid:
                raise BadObject(oid.hex(), "is not what its name says")
        return size
