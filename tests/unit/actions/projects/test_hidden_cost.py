"""What keeping a changed secret costs: what it changed, and not what lies beside it."""

from __future__ import annotations

import os
import shutil

import pytest

from safekept.actions.projects.hidden.repository import open_hidden
from safekept.actions.projects.hidden.source import LookSource
from safekept.home.scan import directory as listing
from safekept.vault.care import check
from safekept.vault.snapshots import list_snapshots
from safekept.vault.write import intake
from support.projects.checkpoints import tree_on_disk
from support.projects.hidden_halves import HiddenWorld


@pytest.fixture
def world(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> HiddenWorld:
    """A hidden tree of three levels, of which every file counts as old."""
    monkeypatch.setattr(intake, "RACY_NS", 0)
    found = HiddenWorld(tmp_path)
    found.put(".env", "first\n", 0o600)
    for place in ("data", "data/one", "data/one/deep", "data/two"):
        for number in range(3):
            found.put(f"{place}/{number}.txt", f"{place} {number}\n")
    os.makedirs(found.path("data/empty"))
    return found


class Listed:
    """The directories that a keep lists, and those of which it looks at nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[str] = []
        self.unchanged: set[bytes] = set()
        entries, groups = listing.DirectoryScan.entries, LookSource.groups

        def noticed(scan: object, stack: object) -> object:
            self.places.append(stack[-1].path.rstrip("/"))  # type: ignore[index]
            return entries(scan, stack)  # type: ignore[arg-type]

        def remembered(source: LookSource) -> object:
            yield from groups(source)
            self.unchanged = set(source.unchanged)

        monkeypatch.setattr(listing.DirectoryScan, "entries", noticed)
        monkeypatch.setattr(LookSource, "groups", remembered)


def kept(world: HiddenWorld) -> str:
    taken = world.take()
    assert taken.hidden_error is None and taken.taken.checkpoint is not None
    return taken.taken.checkpoint.id


def sound(world: HiddenWorld) -> None:
    """Every byte is there, and no directory of any snapshot has a name twice."""
    with open_hidden(world.context) as repository:
        assert check(repository, read_data=1.0).damage == []
        trees = [one.tree for one in list_snapshots(repository)[0]]
        while trees:
            nodes = repository.load_tree(trees.pop()).nodes
            names = [node.name for node in nodes]
            assert sorted(set(names)) == sorted(names)
            trees += [node.subtree for node in nodes if node.subtree]


def test_only_the_directory_that_changed_is_listed(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(world)
    world.put(".env", "second\n")
    before, listed = tree_on_disk(world.project), Listed(monkeypatch)
    point = kept(world)
    assert listed.places == [""]
    assert listed.unchanged == {b"data", b"data/one", b"data/one/deep", b"data/two"}
    shutil.rmtree(world.path("data"))
    world.put(".env", "ruined\n")
    assert world.rollback(point).complete
    assert tree_on_disk(world.project) == before
    sound(world)


CHANGES = ("change data/one/deep/1.txt", "change data/one/new.txt", "remove data/two/0.txt")


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_below_is_kept_and_what_lies_above_it_comes_from_the_tree_before(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first = kept(world)
    original = tree_on_disk(world.project)
    how, name = change.split()
    world.put(name, "changed\n")
    if how == "remove":
        os.unlink(world.path(name))
    changed, listed = tree_on_disk(world.project), Listed(monkeypatch)
    second = kept(world)
    assert b"data" in listed.unchanged and os.fsencode(os.path.dirname(name)) not in listed.unchanged
    assert "data/two" not in listed.places or name.startswith("data/two")
    shutil.rmtree(world.path("data"))
    assert world.rollback(second).complete and tree_on_disk(world.project) == changed
    assert world.rollback(first).complete and tree_on_disk(world.project) == original
    sound(world)


def test_a_file_that_was_young_when_it_was_stored_is_looked_at_again(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "RACY_NS", 2_000_000_000)
    kept(world)
    world.put(".env", "second\n")
    listed = Listed(monkeypatch)
    kept(world)
    assert not listed.unchanged and "data/one/deep" in listed.places


def test_one_changed_secret_waits_ten_times_for_the_disk(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of two packs, their index and the snapshot; up to five names; the line of the look."""
    kept(world)
    world.put(".env", "second\n")
    real, synced = os.fsync, list[str]()

    def counted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    kept(world)
    hidden = [path for path in synced if "/checkpoints/hidden/" in path or path.endswith("hidden.jsonl")]
    assert 0 < len(hidden) <= 10, hidden
