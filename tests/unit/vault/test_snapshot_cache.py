"""What is remembered beside the vault saves work and decides nothing: deleted, stale, foreign or broken,
the snapshot is the same.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from safekept.core.entries import Entry
from safekept.home.scan import opener
from safekept.home.scan.opener import Opener
from safekept.vault.storage import FileKind
from safekept.vault.write import memory as memory_module
from safekept.vault.write.memory import RACY_NS
from support.home.scanned import plant, plant_database
from support.platforms.needs import where_the_disk_can
from support.users.contexts import throwaway
from support.vault.snapshots import (
    cache_files,
    drop_cache,
    home_tree,
    is_whole,
    opened,
    rows,
    stored_files,
    take,
)


@pytest.fixture
def home(tmp_path):
    """A small home whose files are old enough to be trusted at once."""
    path = os.path.join(tmp_path, "user", ".hermes")
    plant(
        path,
        {
            "SOUL.md": "be kind\n",
            "config.yaml": "model: x\nagent:\n  name: y\n",
            "memories/MEMORY.md": "one\n§\ntwo\n",
            "skills/a/SKILL.md": "a skill\n",
            "skills/a/scripts/run.py": "print()\n",
            "skills/b/SKILL.md": "another\n",
            "sessions/big.jsonl": random.Random(1).randbytes(2 << 20),
            "empty-directory": None,
        },
    )
    with where_the_disk_can():
        os.symlink("SOUL.md", os.path.join(path, "link"))
    plant_database(os.path.join(path, "state.db"), rows=50, journal="wal")
    return path


@pytest.fixture
def trusting(monkeypatch):
    """Trust a status of any age, so that a test need not wait two seconds for each file it makes."""
    monkeypatch.setattr(memory_module, "RACY_NS", 0)
    import safekept.vault.write.intake as intake

    monkeypatch.setattr(intake, "RACY_NS", 0)


def opens(monkeypatch) -> list[str]:
    """What is opened from here on."""
    opened_paths: list[str] = []
    for name in ("plain", "noticed", "database"):
        real = getattr(Opener, name)

        def watched(self, path, *rest, real=real):
            opened_paths.append(path)
            return real(self, path, *rest)

        monkeypatch.setattr(Opener, name, watched)
    return opened_paths


def test_an_unchanged_home_is_not_read_but_for_what_the_census_counts(here, home, trusting, monkeypatch):
    first = take(here, home)
    seen = opens(monkeypatch)
    second = take(here, home)
    assert sorted(seen) == ["config.yaml", "memories/MEMORY.md"]
    assert home_tree(here, first.snapshot) == home_tree(here, second.snapshot)
    assert second.added == 0 or second.added < 3000, "at most the directories above the home changed"
    assert (second.census, second.files, second.bytes) == (first.census, first.files, first.bytes)
    assert second.databases == first.databases
    assert second.reused == first.files - 2
    assert first.census["default"]["messages"] == 100
    assert first.census["default"]["skills"] == 2


def test_nothing_young_is_trusted(here, home, monkeypatch):
    take(here, home)
    seen = opens(monkeypatch)
    take(here, home)
    assert "SOUL.md" in seen
    assert "state.db" in seen
    assert RACY_NS >= 2_000_000_000


def damage(path: str, how: str) -> None:
    if how == "deleted":
        os.unlink(path)
    elif how == "empty":
        os.truncate(path, 0)
    elif how == "cut":
        os.truncate(path, os.path.getsize(path) * 2 // 3)
    elif how == "foreign text":
        with open(path, "wb") as file:
            file.write(b"safekept cache 1\n" + b"x" * 500)
    else:
        with open(path, "r+b") as file:
            at = int(how) % os.path.getsize(path)
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("how", ["deleted", "empty", "cut", "foreign text", "0", "20", "60", "400", "-1"])
def test_a_broken_cache_gives_the_same_tree(here, home, trusting, how):
    first = take(here, home)
    for path in cache_files(here):
        damage(path, how)
    second = take(here, home)
    assert home_tree(here, first.snapshot) == home_tree(here, second.snapshot)
    assert second.census == first.census
    third = take(here, home)
    assert third.reused == third.files - 2, "it was built anew"


def test_a_cache_of_another_vault_or_home_is_not_used(here, home, trusting, tmp_path):
    first = take(here, home)
    other = throwaway(os.path.join(tmp_path, "other"))
    take(other, home)
    for mine, theirs in zip(cache_files(here), cache_files(other), strict=True):
        assert os.path.basename(mine) == os.path.basename(theirs), "only the vault tells them apart"
        shutil.copyfile(mine, theirs)
    again = take(other, home)
    assert again.reused == 0
    assert home_tree(other, again.snapshot) == home_tree(here, first.snapshot)
    is_whole(other)


def test_a_stale_cache_stores_what_changed_since(here, home, trusting, tmp_path):
    take(here, home)
    kept = os.path.join(tmp_path, "kept")
    shutil.copytree(here.places.cache_directory, kept)
    plant(home, {"SOUL.md": "be bold\n", "skills/a/new.md": "new\n"})
    os.unlink(os.path.join(home, "skills/b/SKILL.md"))
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection, connection:
        connection.execute("insert into messages(text) values ('later')")
    now = take(here, home)
    drop_cache(here)
    shutil.copytree(kept, here.places.cache_directory)
    again = take(here, home)
    assert home_tree(here, now.snapshot) == home_tree(here, again.snapshot)
    found = stored_files(here, again.snapshot)
    assert found["SOUL.md"] == b"be bold\n"
    assert "skills/b/SKILL.md" not in found
    assert rows(found["state.db"], str(tmp_path)) == 101


def test_blobs_that_were_pruned_meanwhile_are_stored_again(here, home, trusting):
    before = home_tree(here, take(here, home).snapshot)
    with opened(here) as repository:
        for kind in (FileKind.SNAPSHOT, FileKind.INDEX, FileKind.PACK):
            for name, _ in list(repository.storage.list(kind)):
                repository.storage.delete(kind, name)
    second = take(here, home)
    assert home_tree(here, second.snapshot) == before
    is_whole(here)
    assert stored_files(here, second.snapshot)["SOUL.md"] == b"be kind\n"


def test_index_files_rewritten_by_maintenance_do_not_cost_a_reading(here, home, trusting, monkeypatch):
    take(here, home)
    with opened(here) as repository:
        from safekept.vault.repo.index import encode_index
        from safekept.vault.repo.sealed_files import save_file

        names = [name for name, _ in repository.storage.list(FileKind.INDEX)]
        packs = [(pack, entries) for pack, entries in repository.index.by_pack()]
        for pack in packs:
            save_file(repository.storage, repository.key, FileKind.INDEX, encode_index([pack]))
        for name in names:
            repository.storage.delete(FileKind.INDEX, name)
    seen = opens(monkeypatch)
    take(here, home)
    assert sorted(seen) == ["config.yaml", "memories/MEMORY.md"]
    is_whole(here)


def test_a_lost_index_file_makes_what_it_named_be_stored_again(here, home, trusting):
    """A pack that no index names is as good as gone for a new snapshot."""
    first = take(here, home)
    plant(home, {"later.md": "x" * 3000})
    with opened(here) as repository:
        older = {name for name, _ in repository.storage.list(FileKind.INDEX)}
    take(here, home)
    with opened(here) as repository:
        for name in older:
            repository.storage.delete(FileKind.INDEX, name)
    drop_index_cache(here)
    again = take(here, home)
    with opened(here) as repository:
        assert all_indexed(repository, again.snapshot.tree)
    assert stored_files(here, again.snapshot)["SOUL.md"] == stored_files(here, first.snapshot)["SOUL.md"]


def drop_index_cache(here) -> None:
    for name in os.listdir(here.places.cache_directory):
        if name.startswith("index-"):
            os.unlink(os.path.join(here.places.cache_directory, name))


def all_indexed(repository, tree: bytes) -> bool:
    from safekept.vault.format.blobs import BlobKind
    from safekept.vault.read.reader import walk

    remarks: list = []
    for _, node in walk(repository, tree, remarks):
        for blob in node.blobs():
            if not repository.index.has(BlobKind.DATA, blob):
                return False
        if node.subtree is not None and not repository.index.has(BlobKind.TREE, node.subtree):
            return False
    return not remarks


@pytest.mark.parametrize("pause", [0.0, 2.2])
@pytest.mark.needs("change-times", "a time that is put back hides a change", only={"2.2"})
def test_a_change_of_the_same_size_with_its_time_put_back_is_stored(here, home, pause):
    """What `touch -r` hides, or a clock that ticks too slowly: the content is what counts."""
    path = os.path.join(home, "SOUL.md")
    before = os.stat(path)
    time.sleep(pause)
    take(here, home)
    with open(path, "r+b") as file:
        file.write(b"BE KIND\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = take(here, home)
    assert stored_files(here, second.snapshot)["SOUL.md"] == b"BE KIND\n"


def test_a_change_between_the_look_and_the_read_is_seen_by_the_next_snapshot(
    here, home, trusting, monkeypatch
):
    real = opener.open_plain

    def late(base, relative, *rest):
        if relative == "SOUL.md":
            plant(home, {"SOUL.md": "be fast\n"})
        return real(base, relative, *rest)

    monkeypatch.setattr(opener, "open_plain", late)
    take(here, home)
    monkeypatch.undo()
    assert stored_files(here, take(here, home).snapshot)["SOUL.md"] == b"be fast\n"


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_metadata_alone_changes_the_tree_without_reading(here, home, trusting, monkeypatch):
    first = take(here, home)
    os.chmod(os.path.join(home, "SOUL.md"), 0o600)
    os.unlink(os.path.join(home, "link"))
    os.symlink("config.yaml", os.path.join(home, "link"))
    second = take(here, home)
    assert home_tree(here, first.snapshot) != home_tree(here, second.snapshot)
    with opened(here) as repository:
        from safekept.vault.read.homes import snapshot_source

        source, _ = snapshot_source(repository, second.snapshot)
        found = {entry.path: entry for entry in source}
    assert found["SOUL.md"].mode == 0o600
    assert found["link"].target == "config.yaml"
    drop_cache(here)
    assert home_tree(here, take(here, home).snapshot) == home_tree(here, second.snapshot)


def test_random_changes_with_and_without_a_cache_give_one_tree(here, home, trusting, tmp_path):
    """A storm in small: what the cache makes of a home is what a snapshot without one makes."""
    source = random.Random(11)
    bare = throwaway(os.path.join(tmp_path, "bare"), cache_directory="")
    names = [f"skills/{letter}/file-{number}" for letter in "abc" for number in range(5)]
    for step in range(12):
        for _ in range(source.randrange(4)):
            path = os.path.join(home, source.choice(names))
            if os.path.lexists(path) and source.random() < 0.3:
                os.unlink(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "ab") as file:
                    file.write(source.randbytes(source.choice([1, 100, 600_000])))
        if source.random() < 0.3:
            os.makedirs(os.path.join(home, f"skills/d{step}/inner"), exist_ok=True)
        if source.random() < 0.4:
            with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection, connection:
                connection.execute("insert into messages(text) values (hex(randomblob(3000)))")
        quick = source.random() < 0.3
        from safekept.home.scan.scanning import Selection

        options = {"selection": Selection(quick=quick), "kind": "quick" if quick else "manual"}
        with_cache, without = take(here, home, **options), take(bare, home, **options)
        assert home_tree(here, with_cache.snapshot) == home_tree(bare, without.snapshot), step
        assert with_cache.census == without.census
    is_whole(here)


def test_entries_stay_cheap():
    """Twenty thousand of them are made at every snapshot."""
    assert not hasattr(Entry("a", "file", 0, 0), "__dict__")
