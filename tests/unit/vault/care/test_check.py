"""A check names what is damaged, and the files of the snapshots that it touches, and nothing else."""

from __future__ import annotations

import os

import pytest

from safekept.vault.care.checking import check
from safekept.vault.errors import VaultDamaged
from safekept.vault.format.blobs import BlobKind, blob_id
from safekept.vault.repo.index import encode_index
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.repo.sealed_files import save_file
from safekept.vault.storage import FileKind
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import CHEAP, SECRET, new_vault, read_files, save_files

FILES = {"a.md": b"alpha " * 500, "sub/b.md": b"beta " * 500, "sub/deep/c.md": os.urandom(3000)}


@pytest.fixture
def vault():
    with new_vault(MemoryStorage()) as made:
        made.first = save_files(made, FILES, time_ns=1)
        made.second = save_files(made, FILES | {"new": b"new"}, time_ns=2)
        yield made


def reopened(vault):
    return Repository.open(vault.storage, SECRET)


def place(vault, path):
    """Where the only blob of a file lies: stored name of its pack, and its location."""
    location = vault.index.lookup(BlobKind.DATA, blob_id(FILES[path]))
    name = location.pack.hex()
    return f"data/{name[:2]}/{name}", location


def test_a_sound_vault_has_no_findings(vault):
    report = check(reopened(vault), read_data=1.0)
    assert report.findings == []
    assert report.sound
    assert (report.snapshots, report.packs) == (2, 4)
    assert report.packs_read == 4
    assert report.bytes_read == sum(size for _, size in vault.storage.list(FileKind.PACK))


def test_a_flipped_bit_costs_one_file_and_is_found_by_reading(vault):
    path, location = place(vault, "sub/b.md")
    data = bytearray(vault.storage.files[path])
    data[location.offset + 40] ^= 8
    vault.storage.files[path] = bytes(data)
    assert check(reopened(vault)).sound  # the structure alone cannot know
    report = check(reopened(vault), read_data=1.0)
    (finding,) = [finding for finding in report.damage if finding.blobs]
    assert (finding.code, finding.file) == ("blob-damaged", path)
    assert "1 of 3 pieces" in finding.what
    assert {(item.snapshot, item.paths, item.count) for item in finding.touches} == {
        (vault.first.id, ("sub/b.md",), 1),
        (vault.second.id, ("sub/b.md",), 1),
    }
    found, lost = read_files(reopened(vault), vault.second)
    assert lost == ["sub/b.md"]
    assert found == {name: data for name, data in FILES.items() if name != "sub/b.md"} | {"new": b"new"}


def test_a_missing_pack_names_every_file_that_needed_it(vault):
    path, _ = place(vault, "a.md")
    del vault.storage.files[path]
    report = check(reopened(vault))
    (finding,) = report.damage
    assert (finding.code, finding.file) == ("pack-missing", path)
    assert [item.paths for item in finding.touches] == [("a.md", "sub/b.md", "sub/deep/c.md")] * 2


def test_a_truncated_pack_keeps_what_lies_before_the_cut(vault):
    path, _ = place(vault, "a.md")
    entries = next(entries for pack, entries in vault.index.by_pack() if pack.hex() == path[-64:])
    vault.storage.files[path] = vault.storage.files[path][: entries[0].length + 5]
    (finding,) = check(reopened(vault)).damage
    assert finding.code == "pack-truncated"
    assert finding.touches[0].count == 2
    found, lost = read_files(reopened(vault), vault.first)
    assert len(found) == 1
    assert len(lost) == 2


def test_a_lost_directory_is_named_with_its_path(vault):
    tree = vault.load_tree(vault.load_tree(vault.first.tree).find("sub").subtree).find("deep").subtree
    location = vault.index.lookup(BlobKind.TREE, tree)
    name = location.pack.hex()
    data = bytearray(vault.storage.files[f"data/{name[:2]}/{name}"])
    data[location.offset + 20] ^= 1
    vault.storage.files[f"data/{name[:2]}/{name}"] = bytes(data)
    report = check(reopened(vault))
    (finding,) = report.damage
    assert finding.code == "tree-unreadable"
    assert [item.paths for item in finding.touches] == [("sub/deep/",)] * 2
    found, lost = read_files(reopened(vault), vault.first)
    assert lost == ["sub/deep"]
    assert set(found) == {"a.md", "sub/b.md"}


def test_unreadable_files_of_every_kind_are_named(vault):
    other = Secret("other", generated=True)
    key = vault.add_key(other, cost=CHEAP)
    vault.storage.files[f"keys/{key}"] = b"{}"
    vault.storage.files[f"snapshots/{vault.first.id}"] = b"torn"
    index = next(iter(vault.storage.list(FileKind.INDEX)))[0]
    vault.storage.files[f"index/{index}"] += b"x"
    report = check(reopened(vault))
    assert {finding.code for finding in report.damage} >= {
        "key-unreadable",
        "snapshot-unreadable",
        "index-unreadable",
    }
    assert f"index/{index}" in {finding.file for finding in report.damage}
    assert all(finding.as_dict()["what"] for finding in report.findings)


def test_a_blob_that_nobody_has_is_one_finding(vault):
    for name, _ in list(vault.storage.list(FileKind.INDEX)):
        vault.storage.delete(FileKind.INDEX, name)
    for name, _ in list(vault.storage.list(FileKind.PACK)):
        vault.storage.delete(FileKind.PACK, name)
    (finding,) = check(reopened(vault)).damage
    assert finding.code == "blob-missing"
    assert [item.paths for item in finding.touches] == [("/",)] * 2


def test_leftovers_are_notes_and_not_damage(vault):
    with reopened(vault) as other, other.saver(None) as saver:
        saver.save(BlobKind.DATA, b"orphan")
    known = {name for name, _ in vault.storage.list(FileKind.INDEX)}
    packs = list(vault.index.by_pack())
    save_file(vault.storage, vault.key, FileKind.INDEX, encode_index(packs[:1]))
    for name in known:
        pack_names = {pack for pack, _ in vault.load_index_file(name)}
        if not pack_names & {pack for pack, _ in packs}:
            vault.storage.delete(FileKind.INDEX, name)
    report = check(reopened(vault), read_data=1.0)
    assert report.sound
    assert sorted(finding.code for finding in report.findings) == ["pack-indexed-twice", "pack-unreferenced"]


def test_index_files_that_disagree_are_damage(vault):
    pack, entries = next(item for item in vault.index.by_pack() if len(item[1]) > 1)
    save_file(vault.storage, vault.key, FileKind.INDEX, encode_index([(pack, entries[:1])]))
    assert [finding.code for finding in check(reopened(vault)).damage] == ["index-disagrees"]


def test_an_index_that_lies_about_a_pack_is_found_by_reading(vault):
    path, _ = place(vault, "a.md")
    pack, entries = next(item for item in vault.index.by_pack() if item[0].hex() == path[-64:])
    swapped = [entries[0], entries[1]._replace(id=entries[2].id), entries[2]._replace(id=entries[1].id)]
    for name, _ in list(vault.storage.list(FileKind.INDEX)):
        packs = vault.load_index_file(name)
        if pack in dict(packs):
            vault.storage.delete(FileKind.INDEX, name)
            changed = [(one, swapped if one == pack else found) for one, found in packs]
            save_file(vault.storage, vault.key, FileKind.INDEX, encode_index(changed))
    report = check(reopened(vault), read_data=1.0)
    (finding,) = report.damage
    assert finding.code == "blob-damaged"
    assert finding.what.endswith("pieces cannot be read; its header and the index say different things")


def test_a_share_of_the_packs_is_chosen_at_random_and_repeatable(vault):
    for number in range(20):
        save_files(vault, {"x": os.urandom(100)}, time_ns=number + 10)
    some = check(reopened(vault), read_data=0.25, seed=1)
    again = check(reopened(vault), read_data=0.25, seed=1)
    assert some.packs_read == again.packs_read == round(some.packs * 0.25)
    assert some.bytes_read == again.bytes_read
    assert check(reopened(vault), read_data=0.0001).packs_read == 1


def test_a_bad_sector_costs_what_lies_on_it(vault, monkeypatch):
    path, location = place(vault, "sub/b.md")

    def read(storage, kind, name="", offset=0, length=None):
        data = real(storage, kind, name, offset, length)
        if name == path[-64:] and offset <= location.offset + 50 < offset + len(data):
            raise VaultDamaged.file(path, "the disk cannot read it")
        return data

    real = MemoryStorage.read
    monkeypatch.setattr(MemoryStorage, "read", read)
    (finding,) = check(reopened(vault), read_data=1.0).damage
    assert (finding.code, finding.what) == ("blob-damaged", f"Pack {path[-64:-56]}: the disk cannot read it")
    assert [item.paths for item in finding.touches] == [("sub/b.md",)] * 2


def test_check_changes_nothing(vault):
    before = dict(vault.storage.files)
    check(reopened(vault), read_data=1.0)
    assert vault.storage.files == before
