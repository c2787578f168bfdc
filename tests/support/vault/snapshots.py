"""Snapshots of small homes through the action itself: taken, read back, and their trees looked at."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from safekept.actions.base.context import UserContext
from safekept.actions.snapshots.create import SnapshotRequest, SnapshotResult, create_snapshot
from safekept.actions.vault.opening import cache_of, open_vault
from safekept.core.entries import Kind
from safekept.vault.care.checking import check
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.read.homes import read_manifest, snapshot_source
from safekept.vault.read.reader import walk
from safekept.vault.repo.repository import Repository

#: Older than the two seconds in which a status is not trusted.
LONG_AGO = 1_700_000_000_123_456_789


def take(here: UserContext, home: str, **options: object) -> SnapshotResult:
    return create_snapshot(here, SnapshotRequest(here.locate(home), **options))  # type: ignore[arg-type]


@contextmanager
def opened(here: UserContext) -> Iterator[Repository]:
    with open_vault(here) as repository:
        yield repository


def cache_directory(here: UserContext) -> str:
    with opened(here) as repository:
        return cache_of(here, repository)


def cache_files(here: UserContext) -> list[str]:
    directory = cache_directory(here)
    return sorted(os.path.join(directory, name) for name in os.listdir(directory))


def drop_cache(here: UserContext) -> None:
    shutil.rmtree(here.places.cache_directory)


def home_tree(here: UserContext, snapshot: Snapshot) -> bytes:
    """The id of the tree of the home itself, which nothing outside of it can change."""
    with opened(here) as repository:
        tree = snapshot.tree
        for part in snapshot.paths[0].strip("/").split("/"):
            node = repository.load_tree(tree).find(part)
            assert node is not None
            assert node.subtree is not None
            tree = node.subtree
        return tree


def stored_files(here: UserContext, snapshot: Snapshot) -> dict[str, bytes]:
    """Every file of the home in a snapshot."""
    with opened(here) as repository:
        source, _ = snapshot_source(repository, snapshot)
        found = {}
        for entry in source:
            if entry.kind is Kind.FILE:
                with entry.open() as content:
                    found[entry.path] = b"".join(content.chunks())
        assert not source.remarks, source.remarks
        return found


def manifest_of(here: UserContext, snapshot: Snapshot) -> dict[str, object]:
    with opened(here) as repository:
        found = read_manifest(repository, snapshot)
    assert found is not None
    return found


def nodes_of(repository: Repository, tree: bytes) -> dict[str, object]:
    remarks: list[object] = []
    found = dict(walk(repository, tree, remarks))  # type: ignore[arg-type]
    assert not remarks
    return found


def is_whole(here: UserContext) -> None:
    """The vault passes its own check, every byte read."""
    with opened(here) as repository:
        report = check(repository, read_data=1.0)
        assert report.damage == []


def rows(database: bytes, place: str, table: str = "messages") -> int:
    """How many rows a stored database has; it must be sound."""
    path = os.path.join(place, "judged.db")
    with open(path, "wb") as file:
        file.write(database)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        count = int(connection.execute(f"select count(*) from {table}").fetchone()[0])
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.unlink(path + suffix)
    return count


def age(home: str, *paths: str) -> None:
    """Give files an old time; their status changes now, which only time makes old."""
    for path in paths:
        os.utime(os.path.join(home, path), ns=(LONG_AGO, LONG_AGO))
