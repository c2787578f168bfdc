"""A prune deletes what nobody needs and nothing else; any doubt stops it with everything kept."""

from __future__ import annotations

import os

import pytest

from safekept.core.files import NoRoom
from safekept.vault.care import repack as prune_packs
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget, pin
from safekept.vault.care.prune import GRACE, PruneRefused, carry_out, plan_prune
from safekept.vault.errors import VaultLocked, VaultReadOnly
from safekept.vault.format import pack as pack_module
from safekept.vault.format.blobs import BlobKind, blob_id
from safekept.vault.format.crypto import OVERHEAD
from safekept.vault.format.pack import PackBuilder
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.format.tree import BadTree, Node, encode_tree
from safekept.vault.marks import Mark, write_mark
from safekept.vault.read.trees import references
from safekept.vault.repo import index as index_file
from safekept.vault.repo.index import encode_index
from safekept.vault.repo.repository import Repository
from safekept.vault.repo.sealed_files import save_file
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import LocalStorage
from safekept.vault.storage.base import FileKind
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import (
    SECRET,
    new_vault,
    read_all,
    read_files,
    save_directory,
    save_files,
    save_tree,
    some_files,
)

NOW = 1_794_000_000 * 10**9


@pytest.fixture
def small_packs(monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 40_000)


@pytest.fixture
def gathers_soon(monkeypatch):
    """Ten small packs of a kind are enough to be gathered."""
    monkeypatch.setattr(prune_packs, "FEW", 10)


def fill(vault, count=4):
    return [save_files(vault, some_files(number), time_ns=NOW + number) for number in range(count)]


def away(vault, snapshots, now_ns=NOW):
    with vault.lock(exclusive=True) as lock:
        return forget(vault, snapshots, lock, now_ns=now_ns)


def prune(vault, **options):
    with vault.lock(exclusive=True) as lock:
        plan = plan_prune(vault, now_ns=options.pop("now_ns", NOW + 1), **{"grace": 0, **options})
        result = carry_out(vault, plan, lock)
    return plan, result


def names(vault, kind):
    return {name for name, _ in vault.storage.list(kind)}


def size_of(vault):
    return sum(size for _, size in vault.storage.list(FileKind.PACK))


def test_what_is_forgotten_goes_and_the_rest_stays_exact(vault):
    made = fill(vault)
    away(vault, made[:2])
    before = size_of(vault)
    plan, result = prune(vault)
    assert result.snapshots == 2
    assert result.bytes_freed == before - size_of(vault)
    assert abs(result.bytes_freed - plan.bytes_freed) < 2000
    assert result.bytes_freed > 100_000
    assert read_all(vault) == [some_files(2), some_files(3)]
    assert check(vault, read_data=1.0).findings == []
    with Repository.open(vault.storage, SECRET) as again:
        assert read_all(again) == [some_files(2), some_files(3)]


def test_a_second_prune_has_nothing_to_do(vault):
    made = fill(vault, 14)
    away(vault, made[:3])
    prune(vault)
    files = dict(vault.storage.files)
    plan, result = prune(vault)
    assert plan.empty
    assert result.packs_deleted == result.packs_repacked == result.snapshots == 0
    assert vault.storage.files == files


def test_a_plan_changes_nothing(vault):
    made = fill(vault, 12)
    away(vault, made[:3])
    files = dict(vault.storage.files)
    plan = plan_prune(vault, now_ns=NOW, grace=0)
    assert not plan.empty
    assert plan.as_dict()["snapshots"] == [one.id for one in made[:3]]
    assert vault.storage.files == files


def test_a_plan_can_be_made_for_what_is_about_to_be_forgotten(vault):
    made = fill(vault)
    with vault.lock(exclusive=True) as lock:
        pin(vault, made[1:2], lock)
    seen = plan_prune(vault, now_ns=NOW, leaving=[made[0].id, made[1].id])
    assert [one.id for one in seen.snapshots] == [made[0].id]
    away(vault, made[:1])
    assert plan_prune(vault, now_ns=NOW, grace=0).bytes_freed == seen.bytes_freed > 10_000


def test_grace_keeps_what_was_forgotten_lately(vault):
    made = fill(vault)
    away(vault, made[:1], NOW)
    away(vault, made[1:2], NOW + 10**9)
    plan = plan_prune(vault, now_ns=NOW + int(GRACE * 1e9))
    assert [one.id for one in plan.snapshots] == [made[0].id]
    assert [one.id for one in plan.waiting] == [made[1].id]
    prune(vault, now_ns=NOW + int(GRACE * 1e9), grace=GRACE)
    assert len(list_snapshots(vault)[0]) == 3
    assert read_all(vault) == [some_files(1), some_files(2), some_files(3)]


def test_forgotten_in_the_future_is_within_its_grace_and_a_pin_outlasts_forgetting(vault):
    made = fill(vault)
    away(vault, made[:1], NOW + 10**18)
    plan = plan_prune(vault, now_ns=NOW)
    assert plan.snapshots == []
    assert len(plan.waiting) == 1
    write_mark(vault, Mark(made[0].id, "pin", "", NOW))
    assert plan_prune(vault, now_ns=NOW, grace=0).snapshots == []


def test_there_is_no_grace_when_the_disk_is_nearly_full(vault, monkeypatch):
    away(vault, fill(vault)[:2])
    for free, waived in ((1 << 30, False), ((1 << 30) - 1, True)):
        monkeypatch.setattr(type(vault.storage), "room", lambda self, free=free: (free, 1 << 40))
        plan = plan_prune(vault, now_ns=NOW)
        assert (plan.grace_waived, len(plan.snapshots)) == (waived, 2 * waived)
    # Of a small disk a share counts: 1 GiB free would be half of it.
    monkeypatch.setattr(type(vault.storage), "room", lambda self: (200 << 20, 2 << 30))
    assert not plan_prune(vault, now_ns=NOW).grace_waived


def test_small_packs_and_small_index_files_become_few(vault, gathers_soon):
    contents = [{"a": os.urandom(500), "b": b"same"} for _ in range(30)]
    for number, files in enumerate(contents):
        save_files(vault, files, time_ns=NOW + number)
    assert len(names(vault, FileKind.PACK)) == 60
    assert len(names(vault, FileKind.INDEX)) == 30
    _, result = prune(vault)
    assert len(names(vault, FileKind.PACK)) == 2
    assert len(names(vault, FileKind.INDEX)) == 1
    assert (result.index_files_before, result.index_files_after) == (30, 1)
    assert read_all(vault) == contents
    assert check(vault, read_data=1.0).findings == []


def test_a_few_small_packs_are_left_alone(vault):
    fill(vault, 4)
    assert plan_prune(vault, now_ns=NOW).empty


def test_blobs_are_copied_as_they_are(vault, gathers_soon):
    """Neither compressed nor sealed a second time: the very same bytes lie in the new pack."""
    snapshot = fill(vault, 12)[0]
    blob = vault.load_tree(snapshot.tree).find("noise-0").blobs()[0]
    place = vault.index.lookup(BlobKind.DATA, blob)
    before = vault.storage.read(FileKind.PACK, place.pack.hex(), place.offset, place.length)
    prune(vault)
    new = vault.index.lookup(BlobKind.DATA, blob)
    assert new.pack != place.pack
    assert vault.storage.read(FileKind.PACK, new.pack.hex(), new.offset, new.length) == before


def test_a_pack_stays_until_half_of_it_is_unused(vault, small_packs):
    """What a prune writes anew is sent anew by the next push: not to save a little."""
    stay = {f"keep-{number}": os.urandom(12_000) for number in range(12)}
    goes = {f"gone-{number}": os.urandom(7_000) for number in range(8)}
    mixed = dict(sorted((stay | goes).items(), key=lambda item: item[0][-1]))
    first = save_files(vault, mixed, time_ns=NOW)
    save_files(vault, stay, time_ns=NOW + 1)
    away(vault, [first])
    data = names(vault, FileKind.PACK)
    plan = plan_prune(vault, now_ns=NOW + 9, grace=0)
    unused = {pack: sum(entry.length for entry in entries) for pack, entries in plan.repack.items()}
    for pack, used in unused.items():
        size = len(vault.storage.files[f"data/{pack.hex()[:2]}/{pack.hex()}"])
        assert used <= size / 2, "only a pack of which half or more is unused is written anew"
    assert len(plan.repack) < len(data) / 2
    prune(vault)
    assert read_all(vault) == [stay]
    assert check(vault, read_data=1.0).findings == []


def test_a_month_of_nights_is_not_gathered_again_and_again(vault):
    """A night makes a small pack of each kind: rewriting them saves nothing, and a push sends them again."""
    fill(vault, 30)
    assert plan_prune(vault, now_ns=NOW + 99).repack == {}


def test_unused_bytes_within_the_tolerance_stay(vault, small_packs):
    stay = {f"keep-{number}": os.urandom(30_000) for number in range(30)}
    first = save_files(vault, stay | {"gone": os.urandom(9_000)}, time_ns=NOW)
    save_files(vault, stay, time_ns=NOW + 1)
    away(vault, [first])
    plan = plan_prune(vault, now_ns=NOW + 9, grace=0)
    data_packs = [pack for pack, entries in plan.repack.items() if entries[0].kind is BlobKind.DATA]
    assert data_packs == []
    eager = plan_prune(vault, now_ns=NOW + 9, grace=0, max_unused=0)
    assert len([pack for pack, entries in eager.repack.items() if entries[0].kind is BlobKind.DATA]) == 1
    prune(vault, max_unused=0)
    assert plan_prune(vault, now_ns=NOW + 9, grace=0, max_unused=0).repack == {}
    assert read_all(vault) == [stay]


def test_packs_that_no_index_names_go(vault):
    fill(vault, 1)
    builder = PackBuilder(BlobKind.DATA)
    builder.append(b"i" * 32, vault.key.seal(b"orphan"), 0)
    orphan = builder.finish(vault.key)
    vault.storage.write(FileKind.PACK, orphan, builder.data)
    plan, _ = prune(vault)
    assert [pack.hex() for pack in plan.unindexed] == [orphan]
    assert orphan not in names(vault, FileKind.PACK)
    assert check(vault, read_data=1.0).findings == []


def test_a_blob_in_two_packs_is_kept_once(vault):
    made = fill(vault, 2)
    # A second process stored the same files at the same time: its index did not know of ours.
    kept = {name: data for name, data in vault.storage.files.items() if name[:4] in ("conf", "keys")}
    copy = MemoryStorage(kept)
    with Repository.open(copy, SECRET) as other:
        save_files(other, some_files(0), time_ns=NOW + 7)
    vault.storage.files.update(copy.files)
    vault.reload_index()
    before = size_of(vault)
    plan, result = prune(vault, max_unused=0)
    assert len(plan.duplicates) > 5
    assert plan.as_dict()["duplicate_blobs"] == len(plan.duplicates)
    assert result.bytes_freed > 0.3 * before / 2
    assert vault.index.duplicates() == set()
    assert read_all(vault) == [some_files(0), some_files(1), some_files(0)]
    assert check(vault, read_data=1.0).findings == []
    assert made[0].id in names(vault, FileKind.SNAPSHOT)


def test_the_only_sound_copy_of_a_blob_is_never_given_up(vault):
    """The copy that would stay is damaged: the pack with the other one must stay, too."""
    save_files(vault, {"a": os.urandom(9_000)}, time_ns=NOW)
    (pack,) = [pack for pack, entries in vault.index.by_pack() if entries[0].kind is BlobKind.DATA]
    (entries,) = [entries for name, entries in vault.index.by_pack() if name == pack]
    sealed = vault.storage.read(FileKind.PACK, pack.hex(), 0, entries[0].length)
    for filler in (b"x" * 100, b"y" * 9_000):
        builder = PackBuilder(BlobKind.DATA)
        builder.append(entries[0].id, sealed, entries[0].plain)
        builder.append(b"u" * 32, vault.key.seal(filler), 0)
        name = builder.finish(vault.key)
        vault.storage.write(FileKind.PACK, name, builder.data)
        save_file(
            vault.storage, vault.key, FileKind.INDEX, encode_index([(bytes.fromhex(name), builder.entries)])
        )
    chosen = plan_prune(vault, now_ns=NOW, grace=0).duplicates[0][1]
    path = f"data/{chosen.hex()[:2]}/{chosen.hex()}"
    data = bytearray(vault.storage.files[path])
    data[entries[0].length // 2] ^= 1
    vault.storage.files[path] = bytes(data)
    content = read_all(vault)
    prune(vault)
    assert read_all(vault) == content
    with Repository.open(vault.storage, SECRET) as again:
        assert read_all(again) == content


def test_mixed_packs_and_uncompressed_directories_are_packed_anew(vault):
    """Both are legal in version 1 and by other writers; restic would rewrite them at every prune."""
    data = b"some content"
    builder = PackBuilder(BlobKind.DATA)
    identity = _blob(builder, vault, data)
    tree = encode_tree([Node("f", "file", 0o600, 1, size=len(data), links=1, content=identity)])
    builder.kind = BlobKind.TREE
    root = _blob(builder, vault, tree)
    name = builder.finish(vault.key)
    vault.storage.write(FileKind.PACK, name, builder.data)
    save_file(
        vault.storage, vault.key, FileKind.INDEX, encode_index([(bytes.fromhex(name), builder.entries)])
    )
    vault.save_snapshot(Snapshot(NOW, root, ("/h",)))
    vault.reload_index()
    assert [finding.code for finding in check(vault).findings] == ["pack-mixed"]
    prune(vault)
    assert check(vault, read_data=1.0).findings == []
    assert vault.index.lookup(BlobKind.TREE, root).plain == len(tree)
    assert read_all(vault) == [{"f": data}]


def _blob(builder, vault, plain):
    builder.append(blob_id(plain), vault.key.seal(plain), 0)
    return blob_id(plain)


def test_one_pack_in_two_index_files_is_named_once_afterwards(vault):
    fill(vault, 2)
    entries = list(vault.index.by_pack())
    save_file(vault.storage, vault.key, FileKind.INDEX, encode_index(entries[:2]))
    vault.reload_index()
    assert {finding.code for finding in check(vault).findings} == {"pack-indexed-twice"}
    away(vault, list_snapshots(vault)[0][:1])
    prune(vault)
    assert check(vault, read_data=1.0).findings == []
    assert read_all(vault) == [some_files(1)]


def test_full_index_files_that_name_nothing_that_goes_are_not_written_anew(vault, monkeypatch):
    monkeypatch.setattr(index_file, "MOST_BLOBS", 8)
    made = fill(vault, 3)
    before = names(vault, FileKind.INDEX)
    away(vault, made[2:])
    prune(vault, max_unused=0.9)
    assert len(names(vault, FileKind.INDEX) & before) == 2
    assert read_all(vault) == [some_files(0), some_files(1)]


def test_an_index_is_split_when_it_is_full(vault, monkeypatch):
    contents = [{"a": os.urandom(100)} for _ in range(24)]
    for number, files in enumerate(contents):
        save_files(vault, files, time_ns=NOW + number)
    monkeypatch.setattr(index_file, "MOST_BLOBS", 20)
    monkeypatch.setattr(prune_packs, "FEW", 1000)
    prune(vault)
    assert len(names(vault, FileKind.INDEX)) == 3
    assert read_all(vault) == contents
    assert check(vault, read_data=1.0).findings == []


# Doubt keeps everything


def refused(vault, match):
    files = dict(vault.storage.files)
    with vault.lock(exclusive=True):
        with pytest.raises(PruneRefused, match=match) as caught:
            plan_prune(vault, now_ns=NOW + 1, grace=0)
    assert {
        name: data for name, data in vault.storage.files.items() if not name.startswith("locks/")
    } == files
    assert caught.value.what.startswith("Nothing was pruned: ")
    assert caught.value.kept == "Every snapshot and every byte of the vault is as it was"
    assert caught.value.advice()[0] == "See what is damaged: `safekept vault check --read-data`"
    return caught.value


def path_of(pack):
    return f"data/{pack.hex()[:2]}/{pack.hex()}"


def test_a_snapshot_that_cannot_be_read_stops_it(vault):
    made = fill(vault)
    away(vault, made[:1])
    vault.storage.files[f"snapshots/{made[2].id}"] += b"x"
    error = refused(vault, f"snapshots/{made[2].id}` cannot be read, so what it needs is unknown")
    assert "if there is none, delete that file" in error.advice()[1]


def test_an_index_file_that_cannot_be_read_stops_it(vault):
    away(vault, fill(vault)[:1])
    name = min(names(vault, FileKind.INDEX))
    vault.storage.files[f"index/{name}"] = b"torn"
    refused(vault, f"index/{name}` cannot be read")


def test_a_directory_that_is_damaged_stops_it(vault):
    made = fill(vault)
    away(vault, made[:1])
    place = vault.index.lookup(BlobKind.TREE, made[2].tree)
    data = bytearray(vault.storage.files[path_of(place.pack)])
    data[place.offset + 20] ^= 1
    vault.storage.files[path_of(place.pack)] = bytes(data)
    refused(vault, "stored directory")


def test_a_lost_index_file_stops_it(vault):
    """Packs of a lost index look unreferenced; the snapshots that need them say otherwise."""
    away(vault, fill(vault)[:1])
    del vault.storage.files[f"index/{min(names(vault, FileKind.INDEX))}"]
    refused(vault, "in no sound pack|cannot be read")


@pytest.mark.parametrize("harm", ["missing", "truncated"])
def test_a_missing_or_truncated_pack_that_is_needed_stops_it(vault, harm):
    made = fill(vault)
    away(vault, made[:1])
    blob = vault.load_tree(made[3].tree).find("noise-3").blobs()[0]
    path = path_of(vault.index.lookup(BlobKind.DATA, blob).pack)
    if harm == "missing":
        del vault.storage.files[path]
    else:
        vault.storage.files[path] = vault.storage.files[path][:-5]
    error = refused(vault, "in no sound pack")
    assert error.facts["missing"] >= 1
    # Once what needs it is given up, the prune goes on, and the index forgets the lost pack.
    away(vault, made[3:])
    prune(vault)
    assert check(vault, read_data=1.0).findings == []
    assert read_all(vault) == [some_files(1), some_files(2)]


def test_a_damaged_blob_keeps_its_pack_and_nothing_else_is_held_up(vault, gathers_soon):
    made = fill(vault, 12)
    away(vault, made[:1])
    blob = vault.load_tree(made[5].tree).find("noise-5").blobs()[0]
    place = vault.index.lookup(BlobKind.DATA, blob)
    data = bytearray(vault.storage.files[path_of(place.pack)])
    data[place.offset + OVERHEAD] ^= 1
    vault.storage.files[path_of(place.pack)] = bytes(data)
    _, result = prune(vault)
    assert list(result.damaged) == [place.pack.hex()]
    assert result.packs_repacked > 10
    assert bytes(data) == vault.storage.files[path_of(place.pack)]
    for number, snapshot in list(enumerate(made))[1:]:
        found, lost = read_files(vault, snapshot)
        assert lost == (["noise-5"] if number == 5 else [])
        assert found == {path: text for path, text in some_files(number).items() if path not in lost}


def test_a_blob_that_is_not_what_its_id_says_is_never_copied(vault, gathers_soon):
    """Sealed with our key, but another content than its name: a bug or bad memory of whoever wrote it."""
    fill(vault, 12)
    builder = PackBuilder(BlobKind.DATA)
    builder.append(b"w" * 32, vault.key.seal(b"another"), 0)
    name = builder.finish(vault.key)
    vault.storage.write(FileKind.PACK, name, builder.data)
    packs = [(bytes.fromhex(name), builder.entries)]
    save_file(vault.storage, vault.key, FileKind.INDEX, encode_index(packs))
    vault.reload_index()
    with vault.saver(None) as saver:
        tree = save_tree(saver, [Node("f", "file", 0o600, 1, size=7, links=1, content=b"w" * 32)])
        saver.finish(Snapshot(NOW + 50, tree, ("/h",)))
    _, result = prune(vault)
    assert result.damaged.keys() == {name}
    assert "another hash" in result.damaged[name]
    assert name in names(vault, FileKind.PACK)


# Who else is there


def test_a_prune_waits_for_nobody_and_names_who_reads(vault):
    with vault.lock(), Repository.open(vault.storage, SECRET) as other:
        with pytest.raises(VaultLocked, match=f"pid {os.getpid()}"):
            other.lock(exclusive=True)
    with vault.lock() as lock:
        plan = plan_prune(vault, now_ns=NOW)
        with pytest.raises(ValueError, match="exclusive"):
            carry_out(vault, plan, lock)


def test_a_plan_that_is_out_of_date_is_made_anew(vault):
    """Between plan and deed somebody stored what the plan would have deleted."""
    made = fill(vault, 2)
    away(vault, made[:1])
    plan = plan_prune(vault, now_ns=NOW + 9, grace=0)
    assert plan.delete or plan.repack or plan.snapshots
    with Repository.open(vault.storage, SECRET) as other:
        save_files(other, some_files(0), time_ns=NOW + 5)
    with vault.lock(exclusive=True) as lock:
        carry_out(vault, plan, lock)
    assert read_all(vault) == [some_files(1), some_files(0)]
    assert check(vault, read_data=1.0).damage == []


def test_a_snapshot_after_a_prune_builds_on_what_is_there(vault):
    made = fill(vault, 12)
    away(vault, made[:6])
    with Repository.open(vault.storage, SECRET) as other:
        assert other.index.packs  # what it knows is out of date soon
        prune(vault)
        with other.lock() as lock:
            save_files(other, some_files(2), lock=lock, time_ns=NOW + 90)
            with other.saver(lock) as saver:
                save_directory(saver, some_files(9))
                assert saver.saved.data_blobs == 0  # what stayed is not stored again
    assert check(vault, read_data=1.0).findings == []
    assert read_all(vault)[-1] == some_files(2)


def test_a_cached_index_of_before_the_prune_is_not_used(tmp_path):
    place, cache = str(tmp_path / "vault"), str(tmp_path / "cache")
    new_vault(LocalStorage(place)).close()
    with Repository.open(LocalStorage(place), SECRET, cache=cache) as vault:
        made = fill(vault, 12)
        vault.reload_index()
    with Repository.open(LocalStorage(place), SECRET, cache=cache) as vault:
        away(vault, made[:6])
        prune(vault)
    with Repository.open(LocalStorage(place), SECRET, cache=cache) as vault:
        assert vault.index.packs
        assert read_all(vault) == [some_files(number) for number in range(6, 12)]
        with vault.lock() as lock:
            save_files(vault, some_files(1), lock=lock, time_ns=NOW + 50)
        assert check(vault, read_data=1.0).findings == []


def test_on_a_full_disk_what_is_unneeded_goes_and_nothing_is_packed_anew(vault, monkeypatch):
    made = fill(vault, 14)
    away(vault, made[:2])
    write = vault.storage.write

    def full(kind, name, data):
        if kind is FileKind.PACK:
            raise NoRoom("no room", kept="all", next_steps=("make room",))
        write(kind, name, data)

    monkeypatch.setattr(vault.storage, "write", full)
    before = size_of(vault)
    _, result = prune(vault)
    assert result.no_room
    assert result.packs_repacked == 0
    assert result.bytes_freed == before - size_of(vault) > 50_000
    assert read_all(vault) == [some_files(number) for number in range(2, 14)]
    assert check(vault, read_data=1.0).findings == []


def test_a_version_one_vault_is_never_pruned(vault):
    made = fill(vault, 1)
    vault.config = type(vault.config)(1, vault.config.id, vault.config.polynomial)
    with pytest.raises(VaultReadOnly):
        plan_prune(vault, now_ns=NOW)
    with vault.lock(exclusive=True) as lock, pytest.raises(VaultReadOnly):
        pin(vault, made, lock)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b'{"nodes":[{"type":"dir"}]}', b'{"nodes":[{"type":"dir","subtree":"ab"}]}',
        b'{"nodes":[{"type":"file","content":["abcd"]}]}', b'{"nodes":[{"type":"file","content":[1]}]}',
    ],
)  # fmt: skip
def test_a_directory_that_is_not_understood_never_means_that_it_needs_nothing(text):
    with pytest.raises(BadTree):
        references(text)
