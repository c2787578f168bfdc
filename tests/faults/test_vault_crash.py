"""Stop at every change to the storage: what was reported stored is there, and the vault goes on."""

from __future__ import annotations

import pytest

from faulty_storage import MODES, FaultyStorage, Stopped
from holdfast.core.files import NoRoom
from holdfast.vault import pack as pack_module
from holdfast.vault import packer as packer_module
from holdfast.vault.check import check
from holdfast.vault.errors import NoSuchVault, VaultHalfMade, VaultLocked, WrongKey
from holdfast.vault.keys import Secret
from holdfast.vault.locks import unlock
from holdfast.vault.repo import Repository
from holdfast.vault.snapshots import list_snapshots
from holdfast.vault.storage import MemoryStorage
from vaults import CHEAP, SECRET, new_vault, read_all, read_files, save_directory, save_files, some_files

OTHER = Secret("the new one", generated=True)


@pytest.fixture(autouse=True)
def small_packs(monkeypatch):
    """Many packs and several index files out of little data."""
    monkeypatch.setattr(pack_module, "TARGET", 30_000)
    monkeypatch.setattr(packer_module, "MOST_BLOBS", 5)


@pytest.fixture(scope="module")
def made():
    """A vault with one snapshot: its files as a dictionary that is copied for each try."""
    storage = MemoryStorage()
    with new_vault(storage) as vault:
        save_files(vault, some_files(1), time_ns=1)
    return storage.files


def changes_of(files, work):
    """How many changes the work makes when nothing stops it."""
    storage = FaultyStorage(MemoryStorage(dict(files)))
    work(storage)
    return storage.changes


def stopped(files, work, at, mode):
    """Run the work until it is stopped; what the next process finds, and what was reported done."""
    below = MemoryStorage(dict(files))
    reported = []
    with pytest.raises((Stopped, NoRoom)):
        work(FaultyStorage(below, at, mode), reported.append)
    return below, reported


def init(storage, report=lambda _: None):
    Repository.init(storage, SECRET, cost=CHEAP)
    report("made")


def two_snapshots(storage, report=lambda _: None):
    with Repository.open(storage, SECRET) as vault:
        for seed in (2, 3):
            with vault.lock() as lock:
                files = some_files(seed)
                save_files(vault, files, lock=lock, time_ns=seed)
                report(files)


def key_change(storage, report=lambda _: None):
    with Repository.open(storage, SECRET) as vault:
        vault.change_key(OTHER, cost=CHEAP)
        report("changed")


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_init_is_finished_by_the_next(mode):
    total = changes_of({}, init)
    assert total == 2
    for at in range(1, total + 1):
        below, reported = stopped({}, init, at, mode)
        assert not reported
        if "config" in below.files:
            Repository.open(below, SECRET)
            continue
        with pytest.raises((NoSuchVault, VaultHalfMade)):
            Repository.open(below, SECRET)
        init(below)
        with Repository.open(below, SECRET) as vault:
            save_files(vault, {"a": b"x"})
            assert check(vault, read_data=1.0).findings == []


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_snapshot_loses_nothing_that_was_reported(made, mode):
    total = changes_of(made, two_snapshots)
    assert total > 15
    for at in range(1, total + 1):
        if mode == "full" and at >= total - 1:
            continue  # the last changes are deletions of locks; a full disk allows them
        below, reported = stopped(made, two_snapshots, at, mode)
        with Repository.open(below, SECRET) as vault:
            report = check(vault, read_data=1.0)
            assert report.damage == [], (at, report.damage)
            stored = read_all(vault)
            assert stored[0] == some_files(1)
            for files in reported:
                assert files in stored
            # It goes on, whatever lock was left (our own process lives, so it must be told).
            try:
                lock = vault.lock(exclusive=True)
            except VaultLocked:
                unlock(below, vault.key, everything=True)
                lock = vault.lock(exclusive=True)
            with lock:
                again = save_files(vault, some_files(4), lock=lock, time_ns=99)
            assert read_files(vault, again) == (some_files(4), [])
            assert check(vault).damage == []


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_snapshot_is_built_upon(made, mode):
    """What an index file names when the work stops is not stored a second time."""
    total = changes_of(made, two_snapshots)
    saved = []
    for at in range(1, total // 2):
        below, _ = stopped(made, two_snapshots, at, mode)
        with Repository.open(below, SECRET) as vault, vault.saver(None) as saver:
            save_directory(saver, some_files(2))
            saver.flush()
            saved.append(saver.saved.data_blobs + saver.saved.tree_blobs)
    assert saved[0] == max(saved)
    assert saved[-1] < saved[0]


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_key_change_never_locks_anybody_out(made, mode):
    total = changes_of(made, key_change)
    assert total == 2
    for at in range(1, total + 1):
        if mode == "full" and at == 2:
            continue
        below, _ = stopped(made, key_change, at, mode)
        opened = 0
        for secret in (SECRET, OTHER):
            try:
                with Repository.open(below, secret) as vault:
                    assert read_all(vault) == [some_files(1)]
                    opened += 1
            except WrongKey:
                continue
        assert opened >= 1


def test_nothing_of_the_first_snapshot_changes_whatever_happens(made):
    below, _ = stopped(made, two_snapshots, 7, "before")
    assert {name: below.files.get(name) for name in made} == made
    with Repository.open(below, SECRET) as vault:
        assert len(list_snapshots(vault)[0]) == 1
