"""Stop at every change to the storage: what was reported stored is there, and the vault goes on."""

from __future__ import annotations

import pytest

from safekept.core.files import NoRoom
from safekept.vault.care import repack as prune_packs
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget, pin, unforget
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.errors import NoSuchVault, VaultHalfMade, VaultLocked, WrongKey
from safekept.vault.format import pack as pack_module
from safekept.vault.repo import index as index_file
from safekept.vault.repo import packer as packer_module
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.locks import unlock
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id, shown
from safekept.vault.storage.base import FileKind
from safekept.vault.tags import forgotten_at, is_pinned
from support.vault.faulty_storage import MODES, FaultyStorage, Stopped
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import (
    CHEAP,
    SECRET,
    new_vault,
    read_all,
    read_files,
    save_directory,
    save_files,
    some_files,
)

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
        old = vault.key_id
        vault.add_key(OTHER, cost=CHEAP)
    with Repository.open(storage, OTHER) as vault:
        vault.remove_key(old)
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


# Forgetting, pinning, pruning, packing anew

SEEDS = range(6)
GONE = (0, 2, 5)
PINNED = 1
DAY = 86400 * 10**9


def shared(seed):
    """Files of which a part is in every snapshot, so that packs are used in part."""
    return some_files(seed, 4) | {"always": b"page %d " % (seed // 3) * 3000}


@pytest.fixture(scope="module")
def history():
    """Snapshots in many packs, three of them forgotten long ago; files, and ids by seed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack_module, "TARGET", 30_000)
        patch.setattr(packer_module, "MOST_BLOBS", 5)
        storage = MemoryStorage()
        with new_vault(storage) as vault:
            made = [save_files(vault, shared(seed), time_ns=seed + 1) for seed in SEEDS]
            with vault.lock(exclusive=True) as lock:
                forget(vault, [made[seed] for seed in GONE], lock, now_ns=DAY)
    return storage.files, [snapshot.id for snapshot in made]


@pytest.fixture
def few_small_packs(monkeypatch):
    """Compaction starts early, and index files are full early."""
    monkeypatch.setattr(prune_packs, "FEW", 3)
    monkeypatch.setattr(index_file, "MOST_BLOBS", 12)


def mark_snapshots(storage, report=lambda _: None):
    with Repository.open(storage, SECRET) as vault, vault.lock(exclusive=True) as lock:
        found, _ = list_snapshots(vault)
        forget(vault, found[3:5], lock, now_ns=2 * DAY)
        report("forgotten")
        pin(vault, [found[PINNED]], lock)
        report("pinned")
        unforget(vault, [found[GONE[0]]], lock)
        report("brought back")


def prune(storage, report=lambda _: None, max_unused=0.05):
    with Repository.open(storage, SECRET) as vault, vault.lock(exclusive=True) as lock:
        plan = plan_prune(vault, now_ns=9 * DAY, max_unused=max_unused)
        result = carry_out(vault, plan, lock)
        report(result)
        return result


def until_it_stops(files, work, at, mode):
    """As `stopped`; work that can go on without room may also come to its end."""
    below, reported = MemoryStorage(dict(files)), []
    storage = FaultyStorage(below, at, mode)
    try:
        work(storage, reported.append)
    except (Stopped, NoRoom):
        assert storage.stopped or mode == "full"
    else:
        assert mode == "full"
    return below, reported


@pytest.mark.parametrize("mode", MODES)
def test_a_stopped_mark_loses_no_snapshot_and_shows_each_once(history, mode):
    files, ids = history
    total = changes_of(files, mark_snapshots)
    assert total == 2 + 4
    for at in range(1, total + 1):
        below, reported = until_it_stops(files, mark_snapshots, at, mode)
        with Repository.open(below, SECRET) as vault:
            found, damaged = list_snapshots(vault)
            assert not damaged
            assert [public_id(snapshot) for snapshot in found] == ids
            assert read_all(vault) == [shared(seed) for seed in SEEDS]
            if "forgotten" in reported:
                assert forgotten_at(found[3]) is not None
                assert forgotten_at(found[4]) is not None
            if "pinned" in reported:
                assert is_pinned(found[PINNED], 9 * DAY)
            if "brought back" in reported:
                assert forgotten_at(found[GONE[0]]) is None
            # The next one comes to the end that was meant, and clears up.
            unlock(below, vault.key, everything=True)
        mark_snapshots(below)
        with Repository.open(below, SECRET) as vault:
            assert len(list(below.list(FileKind.SNAPSHOT))) == len(ids)
            left = [public_id(snapshot) for snapshot in shown(list_snapshots(vault)[0])]
            assert left == [ids[seed] for seed in (1, 0)]
            assert check(vault, read_data=1.0).findings == []


@pytest.mark.parametrize(
    ("mode", "max_unused", "few"),
    [*((mode, 0.0, 3) for mode in MODES), ("before", 0.05, 1000), ("after", 0.05, 1000)],
)
def test_a_stopped_prune_loses_nothing_and_the_next_one_finishes_it(
    history, few_small_packs, monkeypatch, mode, max_unused, few
):
    monkeypatch.setattr(prune_packs, "FEW", few)
    files, ids = history

    def work(storage, report=lambda _: None):
        return prune(storage, report, max_unused)

    total = changes_of(files, work)
    assert total > 20  # names are random, and with them the order of blobs in the packs
    kept = [seed for seed in SEEDS if seed not in GONE]
    whole = MemoryStorage(dict(files))
    result = work(whole)
    assert result.packs_repacked >= 1
    assert result.snapshots == len(GONE)
    for at in range(1, total + 1):
        below, reported = until_it_stops(files, work, at, mode)
        with Repository.open(below, SECRET) as vault:
            report = check(vault)
            assert report.damage == [], (at, report.damage)
            found = {public_id(one): read_files(vault, one) for one in list_snapshots(vault)[0]}
            for seed in kept:
                assert found[ids[seed]] == (shared(seed), []), at
            for seed in GONE:  # gone, or whole: a snapshot that is still listed can be restored
                assert found.get(ids[seed], (shared(seed), [])) == (shared(seed), []), at
            if reported:
                assert len(found) == len(kept)
            unlock(below, vault.key, everything=True)
        if at % 2 == MODES.index(mode) % 2:
            continue  # another mode goes on from here
        work(below)
        with Repository.open(below, SECRET) as vault:
            assert check(vault, read_data=1.0 if at % 8 == 0 else None).findings == [], at
            assert read_all(vault) == [shared(seed) for seed in kept]
            assert vault.index.duplicates() == set()
            if max_unused == 0:
                plan = plan_prune(vault, now_ns=9 * DAY, max_unused=0)
                assert not plan.delete
                assert not plan.unindexed
                assert sum(size for _, size in below.list(FileKind.PACK)) < 1.02 * sum(
                    size for _, size in whole.list(FileKind.PACK)
                )


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_snapshot_goes_on_where_a_prune_was_stopped(history, few_small_packs, mode):
    files, _ = history
    total = changes_of(files, prune)
    for at in range(1, total + 1, 6):
        below, _ = until_it_stops(files, prune, at, mode)
        with Repository.open(below, SECRET) as vault:
            unlock(below, vault.key, everything=True)
            with vault.lock() as lock:
                new = save_files(vault, shared(2), lock=lock, time_ns=99)
            assert read_files(vault, new) == (shared(2), [])
        prune(below)
        with Repository.open(below, SECRET) as vault:
            assert read_files(vault, vault.load_snapshot(new.id)) == (shared(2), [])
            assert check(vault, read_data=1.0).findings == []
