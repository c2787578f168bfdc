"""A damaged vault is mended: index from packs, sound pieces from damaged ones, the rest by a snapshot."""

from __future__ import annotations

import pytest

from safekept.vault.care.checking import check
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.care.repair import carry_out_repair, plan_repair
from safekept.vault.errors import VaultReadOnly
from safekept.vault.format.blobs import BlobKind
from safekept.vault.repo.locks import unlock
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage.base import FileKind
from support.vault.faulty_storage import FaultyStorage, Stopped
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import SECRET, new_vault, read_all, read_files, save_files, some_files

NOW = 1_794_000_000 * 10**9


@pytest.fixture
def vault():
    with new_vault(MemoryStorage()) as made:
        for number in range(3):
            save_files(made, some_files(number), time_ns=NOW + number)
        yield made


def path_of(pack):
    return f"data/{pack.hex()[:2]}/{pack.hex()}"


def place_of(vault, number):
    """Where the noise of one snapshot lies: pack, offset, length."""
    snapshot = list_snapshots(vault)[0][number]
    blob = vault.load_tree(snapshot.tree).find(f"noise-{number}").blobs()[0]
    return vault.index.lookup(BlobKind.DATA, blob)


def flip(vault, place):
    data = bytearray(vault.storage.files[path_of(place.pack)])
    data[place.offset + 40] ^= 1
    vault.storage.files[path_of(place.pack)] = bytes(data)


def repair(vault, report=None):
    with vault.lock(exclusive=True) as lock:
        return carry_out_repair(vault, plan_repair(vault, report), lock)


def prune(vault):
    with vault.lock(exclusive=True) as lock:
        carry_out(vault, plan_prune(vault, now_ns=NOW + 99, grace=0), lock)


def test_a_sound_vault_needs_nothing(vault):
    files = dict(vault.storage.files)
    assert plan_repair(vault, check(vault, read_data=1.0)).empty
    repair(vault)
    assert vault.storage.files == files


@pytest.mark.parametrize("harm", ["lost", "torn"])
def test_a_lost_or_damaged_index_file_is_made_anew_from_the_packs(vault, harm):
    for name, _ in list(vault.storage.list(FileKind.INDEX)):
        if harm == "lost":
            del vault.storage.files[f"index/{name}"]
        else:
            vault.storage.files[f"index/{name}"] = b"torn"
    result = repair(vault)
    assert result.packs_indexed == 6
    assert result.lost == 0
    assert check(vault, read_data=1.0).findings == []
    assert read_all(vault) == [some_files(number) for number in range(3)]
    prune(vault)


def test_what_is_damaged_is_stored_again_by_the_next_snapshot_and_old_ones_are_whole_again(vault):
    place = place_of(vault, 1)
    flip(vault, place)
    report = check(vault, read_data=1.0)
    assert report.damage
    result = repair(vault, report)
    assert result.lost == 1
    assert result.saved > 3
    (_, second, _), _ = list_snapshots(vault)
    assert read_files(vault, second)[1] == ["noise-1"]  # nothing else
    with vault.lock() as lock:
        save_files(vault, some_files(1), lock=lock, time_ns=NOW + 7)
    assert read_all(vault) == [some_files(0), some_files(1), some_files(2), some_files(1)]
    assert check(vault, read_data=1.0).damage == []
    prune(vault)
    assert check(vault, read_data=1.0).findings == []


def test_without_a_repair_a_damaged_piece_would_be_taken_for_stored(vault):
    """Why there is a repair: the index still names it."""
    flip(vault, place_of(vault, 1))
    save_files(vault, some_files(1), time_ns=NOW + 7)
    assert check(vault, read_data=1.0).damage


@pytest.mark.parametrize("left", [0, 60_000])
def test_what_lies_before_the_cut_of_a_truncated_pack_is_saved(vault, left):
    place = place_of(vault, 2)
    path = path_of(place.pack)
    if left:
        vault.storage.files[path] = vault.storage.files[path][:left]
    else:
        del vault.storage.files[path]
    result = repair(vault)
    assert bool(result.saved) is bool(left)
    assert result.lost
    assert {finding.code for finding in check(vault).damage} == {"blob-missing"}
    save_files(vault, some_files(2), time_ns=NOW + 7)
    assert read_all(vault) == [some_files(0), some_files(1), some_files(2), some_files(2)]
    prune(vault)
    assert check(vault, read_data=1.0).findings == []


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_stopped_repair_makes_nothing_worse(vault, mode):
    place = place_of(vault, 1)
    flip(vault, place)
    indexes = [name for name, _ in vault.storage.list(FileKind.INDEX)]
    others = [name for name in indexes if place.pack not in dict(vault.load_index_file(name))]
    vault.storage.files[f"index/{others[0]}"] = b"torn"
    files = dict(vault.storage.files)

    def work(storage):
        with Repository.open(storage, SECRET) as again:
            report = check(again, read_data=1.0)
            with again.lock(exclusive=True) as lock:
                carry_out_repair(again, plan_repair(again, report), lock)

    whole = FaultyStorage(MemoryStorage(dict(files)))
    work(whole)
    assert whole.changes > 6
    for at in range(1, whole.changes + 1):
        below = MemoryStorage(dict(files))
        with pytest.raises(Stopped):
            work(FaultyStorage(below, at, mode))
        for _ in range(2):
            with Repository.open(below, SECRET) as again:
                unlock(below, again.key, everything=True)
                for number, snapshot in enumerate(list_snapshots(again)[0]):
                    assert read_files(again, snapshot)[1] == (["noise-1"] if number == 1 else [])
            work(below)


def test_a_repair_needs_the_vault_for_itself(vault):
    with vault.lock() as lock, pytest.raises(ValueError, match="exclusive"):
        carry_out_repair(vault, plan_repair(vault), lock)
    vault.config = type(vault.config)(1, vault.config.id, vault.config.polynomial)
    with pytest.raises(VaultReadOnly):
        plan_repair(vault)
