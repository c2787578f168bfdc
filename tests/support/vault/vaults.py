"""Small vaults for tests: quick to make, with files given as a dictionary."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Mapping

from safekept.core.entries import EntryLost, Kind
from safekept.vault.format.blobs import BlobKind
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.format.tree import Node, encode_tree
from safekept.vault.read.homes import HomeSource, snapshot_source
from safekept.vault.repo.keys import Cost, Secret
from safekept.vault.repo.locks import Lock
from safekept.vault.repo.repository import Repository
from safekept.vault.repo.saver import BlobSaver
from safekept.vault.snapshots import list_snapshots, pick
from safekept.vault.storage.base import Storage

SECRET = Secret("only-for-tests", generated=True)
CHEAP = Cost(2, 8, 1)
MTIME = 1_700_000_000_123_456_789


def new_vault(storage: Storage) -> Repository:
    return Repository.init(storage, SECRET, cost=CHEAP)


def save_tree(saver: BlobSaver, nodes: list[Node]) -> bytes:
    """Store one directory; its id."""
    return saver.save(BlobKind.TREE, encode_tree(nodes))


def stored(repository: Repository, snapshot: Snapshot, under: str = "") -> HomeSource:
    """What a snapshot holds below a path in it, as a restore reads it."""
    return snapshot_source(repository, snapshot, home=under)[0]


def find_snapshot(repository: Repository, word: str, *, forgotten: bool = False) -> Snapshot:
    return pick(list_snapshots(repository)[0], word, forgotten=forgotten)


def save_directory(saver: BlobSaver, files: Mapping[str, bytes], block: int = 16384) -> bytes:
    """Store files by path, in blocks of a fixed size; the id of the root tree."""
    nodes, below = [], {}
    for path, data in sorted(files.items()):
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, {})[rest] = data
            continue
        ids = [saver.save(BlobKind.DATA, data[at : at + block]) for at in range(0, len(data), block)]
        nodes.append(Node(name, "file", 0o600, MTIME, size=len(data), links=1, content=b"".join(ids)))
    for name, inner in below.items():
        tree = save_directory(saver, inner, block)
        nodes.append(Node(name, "dir", 0o700, MTIME, subtree=tree))
    return save_tree(saver, nodes)


def save_files(
    repository: Repository,
    files: Mapping[str, bytes],
    *,
    tags: tuple[str, ...] = (),
    lock: Lock | None = None,
    time_ns: int = 0,
) -> Snapshot:
    with repository.saver(lock) as saver:
        tree = save_directory(saver, files)
        return saver.finish(
            Snapshot(time_ns or time.time_ns(), tree, ("/home/u/.hermes",), "host", "u", tags=tags)
        )


def read_files(repository: Repository, snapshot: Snapshot) -> tuple[dict[str, bytes], list[str]]:
    """Every file that can be read, and the paths of those that cannot."""
    found, lost = {}, []
    source = stored(repository, snapshot)
    for entry in source:
        if entry.kind is Kind.FILE:
            try:
                with entry.open() as content:
                    data = b"".join(content.chunks())
                    assert len(data) == content.size
                found[entry.path] = data
            except EntryLost as error:
                assert error.remark.incomplete
                lost.append(entry.path)
    return found, lost + [remark.path for remark in source.remarks if remark.incomplete]


def read_all(repository: Repository) -> list[dict[str, bytes]]:
    """The files of every snapshot, oldest first; nothing may be lost."""
    snapshots, damaged = list_snapshots(repository)
    assert not damaged
    result = []
    for snapshot in snapshots:
        found, lost = read_files(repository, snapshot)
        assert not lost, lost
        result.append(found)
    return result


def some_files(seed: int, count: int = 6) -> dict[str, bytes]:
    """Text, noise, an empty file and a large one."""
    return dict(_some_files(seed, count))


@functools.cache
def _some_files(seed: int, count: int) -> dict[str, bytes]:
    source = random.Random(seed)
    files = {"empty": b"", "SOUL.md": b"be kind\n" * 20, f"noise-{seed}": source.randbytes(70_000)}
    for number in range(count):
        words = (f"word{source.randrange(500)} " for _ in range(source.randrange(10, 3000)))
        files[f"memories/{number % 3}/note-{number}.md"] = "".join(words).encode()
    return files
