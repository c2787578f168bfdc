"""Blobs in, blobs out: order of writing, proof before storing, resuming, and reading around damage."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc

import pytest

from safekept.core.files import NoRoom
from safekept.vault.care.checking import check
from safekept.vault.errors import (
    AmbiguousSnapshot,
    LockLost,
    NoSuchSnapshot,
    NotProven,
    VaultDamaged,
    VaultReadOnly,
)
from safekept.vault.format import pack as pack_module
from safekept.vault.format.blobs import BlobKind, blob_id
from safekept.vault.format.crypto import Key
from safekept.vault.format.snapshot import BadSnapshot, Snapshot
from safekept.vault.repo import packer as packer_module
from safekept.vault.repo import saver as saver_module
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind
from support.vault.faulty_storage import FaultyStorage
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import (
    SECRET,
    find_snapshot,
    new_vault,
    read_all,
    read_files,
    save_directory,
    save_files,
    save_tree,
    some_files,
    stored,
)


def kinds_written(storage):
    order = []
    real = storage.write

    def write(kind, name, data):
        order.append(kind)
        real(kind, name, data)

    storage.write = write
    return order


def test_files_come_back_exactly(vault):
    files = some_files(1) | {"big": os.urandom(3_000_000) + b"z" * 2_000_000}
    snapshot = save_files(vault, files)
    with Repository.open(vault.storage, SECRET) as again:
        assert read_files(again, snapshot) == (files, [])
        assert check(again, read_data=1.0).findings == []


def test_packs_come_before_their_index_and_the_snapshot_last(vault, monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 20_000)
    order = kinds_written(vault.storage)
    save_files(vault, some_files(2))
    assert order[-2:] == [FileKind.INDEX, FileKind.SNAPSHOT]
    assert order.count(FileKind.PACK) > 2
    assert FileKind.SNAPSHOT not in order[:-1]


def test_what_is_known_is_not_stored_again(vault):
    files = some_files(3)
    save_files(vault, files)
    order = kinds_written(vault.storage)
    with vault.saver(None) as saver:
        tree = save_directory(saver, files)
        assert saver.finish(Snapshot(1, tree, ("/x",))).tree == tree
        assert (saver.saved.data_blobs, saver.saved.tree_blobs) == (0, 0)
    assert order == [FileKind.SNAPSHOT]


def test_trees_and_data_are_never_in_one_pack(vault):
    save_files(vault, some_files(4))
    for _, entries in vault.index.by_pack():
        assert len({entry.kind for entry in entries}) == 1


def test_what_does_not_compress_is_stored_as_it_is_and_trees_always_compressed(vault):
    noise, text = os.urandom(5000), b"a" * 5000
    with vault.saver(None) as saver:
        ids = [saver.save(BlobKind.DATA, noise), saver.save(BlobKind.DATA, text)]
        tree = save_tree(saver, [])
    assert [vault.index.lookup(BlobKind.DATA, blob).plain for blob in ids] == [0, 5000]
    assert vault.index.lookup(BlobKind.TREE, tree).plain == 13


def test_the_same_bytes_may_be_a_file_and_a_directory(vault):
    with vault.saver(None) as saver:
        tree = save_tree(saver, [])
        assert not saver.has(BlobKind.DATA, tree)
        assert saver.save(BlobKind.DATA, b'{"nodes":[]}\n') == tree
    assert vault.load_blob(BlobKind.DATA, tree) == vault.load_blob(BlobKind.TREE, tree)
    assert vault.index.lookup(BlobKind.DATA, tree).pack != vault.index.lookup(BlobKind.TREE, tree).pack


def test_bad_memory_never_becomes_a_backup(vault, monkeypatch):
    real = saver_module.compress_many

    def flipped(blobs, level):
        frames = [bytearray(frame) for frame in real(blobs, level)]
        frames[0][-1] ^= 1
        return frames

    monkeypatch.setattr(saver_module, "compress_many", flipped)
    before = dict(vault.storage.files)
    with pytest.raises(NotProven) as caught:
        save_files(vault, {"a": b"text " * 1000})
    assert "not stored" in caught.value.what
    assert vault.storage.files == before


def test_a_wrong_id_from_a_cache_is_noticed_before_anything_is_stored(vault):
    before = dict(vault.storage.files)
    with pytest.raises(NotProven), vault.saver(None) as saver:
        saver.save(BlobKind.DATA, b"one thing", known=blob_id(b"another"))
    assert vault.storage.files == before


def test_empty_blobs_and_unsaved_trees_are_refused(vault):
    with vault.saver(None) as saver:
        with pytest.raises(ValueError, match="0 bytes"):
            saver.save(BlobKind.DATA, b"")
        with pytest.raises(ValueError, match="never saved"):
            saver.finish(Snapshot(1, bytes(32), ("/x",)))
    assert list_snapshots(vault) == ([], {})


def test_a_failed_write_stops_the_saver_and_writes_no_snapshot():
    below = MemoryStorage()
    new_vault(below)
    storage = FaultyStorage(below, at=1, mode="full")
    with Repository.open(storage, SECRET) as vault:
        with pytest.raises(NoRoom):
            save_files(vault, some_files(5))
    assert list(below.list(FileKind.SNAPSHOT)) == []


def test_an_interrupted_first_snapshot_resumes(vault, monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 20_000)
    files = {f"file-{number}": os.urandom(30_000) for number in range(20)}
    with pytest.raises(KeyboardInterrupt):
        with vault.saver(None) as saver:
            save_directory(saver, dict(list(files.items())[:15]))
            saver.flush()
            saver.save(BlobKind.DATA, os.urandom(100))
            raise KeyboardInterrupt
    with Repository.open(vault.storage, SECRET) as again:
        with again.saver(None) as saver:
            tree = save_directory(saver, files)
            snapshot = saver.finish(Snapshot(1, tree, ("/x",)))
        assert 5 * 2 <= saver.saved.data_blobs <= 5 * 2 + 2
        assert read_files(again, snapshot) == (files, [])


def test_index_files_are_written_on_the_way(vault, monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 20_000)
    monkeypatch.setattr(packer_module, "MOST_BLOBS", 4)
    order = kinds_written(vault.storage)
    save_files(vault, {f"f{number}": os.urandom(16_000) for number in range(40)})
    assert order.count(FileKind.INDEX) >= 3
    assert order.index(FileKind.INDEX) < len(order) - 4
    assert not [finding for finding in check(vault).findings if finding.code == "pack-indexed-twice"]


def test_several_threads_may_save_at_once(vault):
    blobs = [os.urandom(3000) for _ in range(400)]
    with vault.saver(None) as saver:

        def save(part):
            for blob in part:
                saver.save(BlobKind.DATA, blob)

        threads = [threading.Thread(target=save, args=(blobs[at::2],)) for at in (0, 0, 1, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert saver.saved.data_blobs == 400
    assert all(vault.load_blob(BlobKind.DATA, blob_id(blob)) == blob for blob in blobs)


@pytest.mark.parametrize("size", [3, 200_000], ids=["by the caller itself", "by a worker"])
def test_an_interrupt_that_cost_a_batch_spoils_the_saver(vault, monkeypatch, size):
    saver = vault.saver(None)
    blob = saver.save(BlobKind.DATA, b"x" * size)
    with monkeypatch.context() as patched:

        def interrupted(*_):
            raise KeyboardInterrupt

        if size > 1000:
            patched.setattr(saver._workers, "submit", interrupted)
        else:
            patched.setattr(saver, "_prove", interrupted)
        with pytest.raises(KeyboardInterrupt):
            saver.flush()
    # The blob is gone; no snapshot may come to refer to it.
    assert saver.has(BlobKind.DATA, blob)
    with pytest.raises(KeyboardInterrupt):
        saver.finish(Snapshot(1, blob, ("/x",)))
    with pytest.raises(KeyboardInterrupt):
        saver.save(BlobKind.DATA, b"two")
    saver.close(failed=True)
    assert list(vault.storage.list(FileKind.SNAPSHOT)) == []


def test_a_lock_lost_at_the_last_moment_stops_the_snapshot(vault):
    lock = vault.lock()
    with pytest.raises(LockLost), vault.saver(lock) as saver:
        tree = save_tree(saver, [])
        saver.flush()
        vault.storage.delete(FileKind.LOCK, lock.name)
        lock.refresh()
        saver.finish(Snapshot(1, tree, ("/x",)))
    assert list(vault.storage.list(FileKind.SNAPSHOT)) == []
    lock.release()


def test_memory_stays_flat_whatever_is_stored(monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 2 << 20)

    class Sink(MemoryStorage):
        def write(self, kind, name, data):
            super().write(kind, name, b"" if kind is FileKind.PACK else data)

    vault = new_vault(Sink())

    tracemalloc.start()
    with vault.saver(None) as saver:
        for _ in range(1000):
            saver.save(BlobKind.DATA, os.urandom(60_000))
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # How many packs are on their way at one moment differs with the machine; there is a limit to it.
    assert top < 24 << 20, "of sixty megabytes"


def test_a_lost_index_costs_nobody_a_restore(vault):
    files = some_files(6)
    snapshot = save_files(vault, files)
    for name, _ in list(vault.storage.list(FileKind.INDEX)):
        vault.storage.delete(FileKind.INDEX, name)
    with Repository.open(vault.storage, SECRET) as again:
        assert read_files(again, snapshot) == (files, [])
        # But it does not count as stored: a new snapshot stores it again, and is whole for restic.
        assert not again.index.has(BlobKind.TREE, snapshot.tree)
        report = check(again)
        assert {finding.code for finding in report.damage} == {"pack-not-indexed"}
        save_files(again, files)
        assert check(again).damage == []


def test_a_damaged_index_is_named_and_the_rest_is_read(vault):
    first = some_files(7)
    save_files(vault, first)
    names = {name for name, _ in vault.storage.list(FileKind.INDEX)}
    save_files(vault, some_files(8))
    (new,) = {name for name, _ in vault.storage.list(FileKind.INDEX)} - names
    vault.storage.files[f"index/{new}"] = b"rubbish"
    with Repository.open(vault.storage, SECRET) as again:
        assert read_all(again) == [first, some_files(8)]
        assert list(again.damaged_indexes) == [new]


def test_a_damaged_copy_is_passed_by_where_another_is_sound(vault):
    data = os.urandom(1000)
    with vault.saver(None) as saver:
        blob = saver.save(BlobKind.DATA, data)
    pack = vault.index.lookup(BlobKind.DATA, blob).pack.hex()
    names = [name for name, _ in vault.storage.list(FileKind.INDEX)]
    hidden = {name: vault.storage.files.pop(f"index/{name}") for name in names}
    with Repository.open(vault.storage, SECRET) as other, other.saver(None) as saver:
        saver.save(BlobKind.DATA, data)
    for name, text in hidden.items():
        vault.storage.files[f"index/{name}"] = text
    path = f"data/{pack[:2]}/{pack}"
    vault.storage.files[path] = bytes(len(vault.storage.files[path]))
    with Repository.open(vault.storage, SECRET) as again:
        assert len(again.index.lookup_all(BlobKind.DATA, blob)) == 2
        assert again.load_blob(BlobKind.DATA, blob) == data
        assert b"".join(again.loader.stream(blob)) == data


def test_a_missing_pack_is_named(vault):
    snapshot = save_files(vault, {"a": b"hello" * 100, "b/c": b"other" * 100})
    with Repository.open(vault.storage, SECRET) as again:
        location = again.index.lookup(BlobKind.DATA, blob_id(b"hello" * 100))
        again.storage.delete(FileKind.PACK, location.pack.hex())
        with pytest.raises(VaultDamaged) as caught:
            again.load_blob(BlobKind.DATA, blob_id(b"hello" * 100))
        assert "is missing" in caught.value.what
        assert "can still be restored" in caught.value.kept
        assert "`safekept vault check --read-data`" in caught.value.advice()[0]
        assert read_files(again, snapshot) == ({}, ["a", "b/c"])


def test_entries_come_parents_first_with_their_metadata(vault):
    snapshot = save_files(vault, some_files(9))
    entries = list(stored(vault, snapshot))
    seen = set()
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        assert not parent or parent in seen
        seen.add(entry.path)
        assert entry.mode == (0o700 if entry.kind == "directory" else 0o600)
    assert stored(vault, snapshot).node("memories/1/note-1.md").type == "file"
    assert stored(vault, snapshot, under="memories").node("1").type == "dir"
    for path in ("memories/1/none", "none/x", "SOUL.md/x"):
        assert stored(vault, snapshot).node(path) is None
    inner = list(stored(vault, snapshot, under="memories/1"))
    assert inner
    assert all("/" not in entry.path for entry in inner)
    assert list(stored(vault, snapshot, under="memories/nowhere")) == []


def test_chunks_are_never_larger_than_promised(vault):
    snapshot = save_files(vault, {"big": os.urandom(5_000_000)})
    (entry,) = stored(vault, snapshot)
    with entry.open() as content:
        assert {len(chunk) <= 1 << 20 for chunk in content.chunks()} == {True}


def test_snapshots_are_found_by_the_start_of_their_id(vault):
    with pytest.raises(NoSuchSnapshot, match="no snapshots yet"):
        find_snapshot(vault, "latest")
    made = [save_files(vault, {"a": b"x"}, time_ns=number + 1) for number in range(40)]
    assert find_snapshot(vault, "latest").id == made[-1].id
    assert find_snapshot(vault, made[3].id[:20]).id == made[3].id
    first = [snapshot.id[0] for snapshot in made]
    twice = next(letter for letter in first if letter > "9" and first.count(letter) > 1)
    with pytest.raises(AmbiguousSnapshot):
        find_snapshot(vault, twice)
    for word in ("zz", "", "../x", "ffff" * 10):
        with pytest.raises(NoSuchSnapshot):
            find_snapshot(vault, word)


def test_a_snapshot_survives_with_what_others_added():
    text = json.dumps(
        {
            "time": "2024-02-03T04:05:06.7+05:30", "tree": "ab" * 32, "paths": ["/a<b"], "tags": ["x"],
            "label": "rustic's", "delete": {"After": "x"}, "program_version": "rustic 1",
            "summary": {"files_new": 3},
        }
    ).encode()  # fmt: skip
    snapshot = Snapshot.from_json("cd" * 32, text)
    assert snapshot.time == "2024-02-03T04:05:06.7+05:30"
    assert json.loads(snapshot.to_json()) == json.loads(text)
    assert b"\\u003c" in snapshot.to_json()
    for bad in (b"", b"{}", b"[]", text.replace(b"2024-", b"-"), text.replace(b"ab" * 32, b"ab")):
        with pytest.raises(BadSnapshot):
            Snapshot.from_json("cd" * 32, bad)


def test_snapshots_are_written_with_the_local_offset(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert b'"time":"2023-11-15T03:58:20+05:45"' in Snapshot(17 * 10**17, bytes(32), ("/x",)).to_json()
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_foreign_file_among_the_snapshots_is_named_and_the_rest_listed(vault):
    save_files(vault, {"a": b"x"})
    vault.storage.write(FileKind.SNAPSHOT, "0" * 64, b"not ours")
    vault.storage.write(FileKind.SNAPSHOT, "1" * 64, Key.generate().seal(b"{}"))
    found, damaged = list_snapshots(vault)
    assert len(found) == 1
    assert sorted(damaged) == ["0" * 64, "1" * 64]


def test_version_one_is_never_written(vault):
    storage = vault.storage
    config = json.loads(vault.config.to_json()) | {"version": 1}
    storage.files["config"] = vault.key.seal(json.dumps(config).encode())
    with Repository.open(storage, SECRET) as old:
        before = dict(storage.files)
        for call in (
            lambda: old.saver(None),
            lambda: old.add_key(SECRET),
            lambda: old.delete_snapshot("0" * 64),
        ):
            with pytest.raises(VaultReadOnly) as caught:
                call()
            assert "restic migrate upgrade_repo_v2" in caught.value.advice()[0]
        assert storage.files == before


def test_the_cache_saves_reading_the_index_and_is_never_trusted(tmp_path, monkeypatch):
    storage = MemoryStorage()
    with new_vault(storage) as vault:
        files = some_files(10)
        save_files(vault, files)
    cache = str(tmp_path / "cache")

    def open_counting():
        reads = []
        real = MemoryStorage.read
        monkeypatch.setattr(
            MemoryStorage, "read", lambda self, kind, *a: (reads.append(kind), real(self, kind, *a))[1]
        )
        with Repository.open(storage, SECRET, cache=cache) as vault:
            assert vault.index.has(BlobKind.DATA, blob_id(files["SOUL.md"]))
        monkeypatch.undo()
        return reads.count(FileKind.INDEX)

    assert open_counting() == 1
    assert open_counting() == 0
    with Repository.open(storage, SECRET, cache=cache) as vault:
        save_files(vault, some_files(11))
    assert open_counting() == 1
    (path,) = [os.path.join(cache, name) for name in os.listdir(cache)]
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"rubbish")
    assert open_counting() == 2
    for name, _ in list(storage.list(FileKind.INDEX)):
        storage.delete(FileKind.INDEX, name)
    with Repository.open(storage, SECRET, cache=cache) as vault:
        assert not vault.index.has(BlobKind.DATA, blob_id(files["SOUL.md"]))
