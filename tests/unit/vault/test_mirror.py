"""A mirror is the same vault in another place: whole at every moment, never rotten, never less."""

from __future__ import annotations

import threading

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.objects.errors import PlaceWrong, wrong
from safekept.core.objects.memory import MemoryObjects
from safekept.core.worker import Worker
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget, pin
from safekept.vault.care.prune import carry_out as carry_out_prune
from safekept.vault.care.prune import plan_prune
from safekept.vault.errors import VaultLocked
from safekept.vault.format import pack as pack_module
from safekept.vault.mirror import transfer
from safekept.vault.mirror.mirror import (
    CONFIG_LAST,
    MirrorRefused,
    carry_out,
    plan_mirror,
    refuse_other_vault,
)
from safekept.vault.mirror.prune import MirrorPruneRefused, plan_mirror_prune, prune_mirror
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage.base import FileKind
from safekept.vault.storage.objects import ObjectStorage
from safekept.vault.tags import is_pinned
from support.offsite.faulty_objects import FAULTS, AddingOnly, FaultyObjects
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import CHEAP, SECRET, new_vault, read_all, save_files, some_files

NOW = 1_794_000_000 * 10**9


@pytest.fixture(autouse=True)
def small_packs(monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 40_000)


@pytest.fixture
def vault():
    with new_vault(MemoryStorage()) as made:
        for number in range(3):
            save_files(made, some_files(number), time_ns=NOW + number)
        yield made


def mirror(vault, objects, *, prune=False, lanes=1, removed_keys=(), never_here=()):
    """What a push does with one vault and one place."""
    target = ObjectStorage(objects)
    plan = plan_mirror(vault.storage, target)
    refuse_other_vault(vault, plan, target)
    if prune:
        once_here = {name for name, _ in target.list(FileKind.SNAPSHOT)} - set(never_here)
        pruning = plan_mirror_prune(vault, plan, target, once_here=once_here, removed_keys=removed_keys)
    result = carry_out(plan, vault.storage, target, lanes=lanes)
    if prune and not result.problems:
        result.deleted = prune_mirror(pruning, target)
    return result


def reopened(objects):
    return Repository.open(ObjectStorage(objects), SECRET)


def away(vault, *snapshots):
    with vault.lock(exclusive=True) as lock:
        forget(vault, snapshots, lock, now_ns=NOW)
        plan = plan_prune(vault, now_ns=NOW + 10**15, grace=0)
        carry_out_prune(vault, plan, lock)


def stored(vault, kind):
    return {name for name, _ in vault.storage.list(kind)}


def prove_sound(objects, vault, *, everything=True):
    """The place holds a vault that opens, checks clean to the byte, and gives every snapshot back."""
    with reopened(objects) as copy:
        assert copy.id == vault.id
        report = check(copy, read_data=1.0)
        assert [finding.what for finding in report.damage] == []
        found = read_all(copy)
        if everything:
            assert found[-len(read_all(vault)) :] == read_all(vault)


def test_a_mirror_opens_with_the_same_key_and_holds_every_snapshot(vault):
    objects = MemoryObjects()
    result = mirror(vault, objects)
    assert result.snapshots == 3
    assert result.problems == []
    assert result.files == sum(1 for name in vault.storage.files if not name.startswith("locks/"))
    prove_sound(objects, vault)


def test_files_are_the_very_same_and_only_those_of_the_vault(vault):
    vault.storage.files["locks/" + "0" * 64] = b"a lock of somebody"
    vault.storage.files["data/ab/rubbish"] = b"not ours"
    objects = MemoryObjects()
    mirror(vault, objects)
    ours = {name: data for name, data in vault.storage.files.items() if "0" * 64 not in name}
    del ours["data/ab/rubbish"]
    assert objects.objects == ours


def test_the_order_makes_the_place_a_whole_vault_at_every_moment(vault):
    written = []

    class Watched(MemoryObjects):
        def write(self, name, content, *, replace=False):
            super().write(name, content, replace=replace)
            written.append(name.split("/")[0])

    mirror(vault, Watched())
    kinds = list(dict.fromkeys(written))
    assert kinds == ["keys", "config", "data", "index", "snapshots"]
    assert written == sorted(written, key=kinds.index)


def test_a_second_push_sends_nothing_and_a_new_snapshot_only_its_own_files(vault):
    objects = MemoryObjects()
    first = mirror(vault, objects)
    second = mirror(vault, objects)
    assert (second.files, second.bytes, second.present) == (0, 0, first.files)
    before = set(vault.storage.files)
    save_files(vault, some_files(9), time_ns=NOW + 9)
    third = mirror(vault, objects)
    assert third.snapshots == 1
    assert third.files == len(set(vault.storage.files) - before)
    prove_sound(objects, vault)


def test_rot_is_never_mirrored_and_stops_nothing_else(vault):
    rotten = sorted(stored(vault, FileKind.PACK))[1]
    place = f"data/{rotten[:2]}/{rotten}"
    vault.storage.files[place] = b"\0" + vault.storage.files[place][1:]
    objects = MemoryObjects()
    result = mirror(vault, objects)
    assert [(problem.file, problem.reason, problem.here) for problem in result.problems] == [
        (place, "its content does not match its name", True)
    ]
    assert place not in objects.objects
    assert result.snapshots == 3
    assert len(objects.objects) == len(vault.storage.files) - 1


def test_what_was_mirrored_sound_stays_sound_when_it_rots_here(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    for name in list(vault.storage.files):
        if name.startswith("data/"):
            vault.storage.files[name] = b"x" * len(vault.storage.files[name])
    assert mirror(vault, objects).files == 0
    with reopened(objects) as copy:
        assert check(copy, read_data=1.0).sound


def test_a_file_of_the_wrong_size_there_is_replaced(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    victims = [
        next(name for name in objects.objects if name.startswith(f"{kind}/")) for kind in ("data", "index")
    ]
    for victim in victims:
        objects.objects[victim] = objects.objects[victim][:-7]
    plan = plan_mirror(vault.storage, ObjectStorage(objects))
    assert sorted(plan.wrong) == sorted(victims)
    assert mirror(vault, objects).files == 2
    prove_sound(objects, vault)


def test_where_it_may_not_be_replaced_it_is_said_and_the_rest_goes_on(vault):
    objects = AddingOnly()
    mirror(vault, objects)
    victim = next(name for name in objects.objects if name.startswith("data/"))
    objects.objects[victim] = b"cut"
    save_files(vault, some_files(8), time_ns=NOW + 8)
    result = mirror(vault, objects)
    assert [(problem.file, problem.here) for problem in result.problems] == [(victim, False)]
    assert "may not be replaced" in result.problems[0].reason
    assert result.snapshots == 1


def test_another_vault_is_refused_and_nothing_is_written(vault):
    objects = MemoryObjects()
    with new_vault(MemoryStorage()) as other:
        mirror(other, objects)
    before = dict(objects.objects)
    with pytest.raises(MirrorRefused) as raised:
        mirror(vault, objects)
    assert "another key" in raised.value.what
    assert "Nothing was written there" in raised.value.kept
    assert objects.objects == before


def test_a_config_that_restic_wrote_anew_with_the_same_key_is_the_same_vault(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    vault.storage.files["config"] = vault.key.seal(vault.config.to_json())
    assert mirror(vault, objects).files == 1
    prove_sound(objects, vault)


def test_a_credential_that_can_only_add_suffices_for_a_month_with_prunes(vault):
    objects = AddingOnly()
    for night in range(30):
        save_files(vault, some_files(100 + night, count=3), time_ns=NOW + night * 10**12)
        if night % 7 == 6:
            snapshots, _ = list_snapshots(vault)
            away(vault, *snapshots[:3])
        result = mirror(vault, objects)
        assert result.problems == []
    assert objects.refusals == []
    assert not [name for name in objects.objects if name.startswith("locks/")]
    with reopened(objects) as copy:
        report = check(copy, read_data=1.0)
        assert [finding.what for finding in report.damage] == []
        # What was forgotten here is all still there.
        assert len(list_snapshots(copy)[0]) == 33


def test_a_prune_here_between_two_pushes_leaves_every_snapshot_there(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    everything = read_all(vault)
    snapshots, _ = list_snapshots(vault)
    away(vault, snapshots[0], snapshots[1])
    assert len(read_all(vault)) == 1
    mirror(vault, objects)
    with reopened(objects) as copy:
        assert check(copy, read_data=1.0).sound
        found = read_all(copy)
        assert all(files in found for files in everything)


def test_tags_that_were_rewritten_here_do_not_double_a_snapshot_there(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    snapshots, _ = list_snapshots(vault)
    with vault.lock(exclusive=True) as lock:
        pin(vault, snapshots[:1], lock)
    mirror(vault, objects)
    with reopened(objects) as copy:
        assert len(list_snapshots(copy)[0]) == 3


def test_a_key_that_was_removed_here_is_named(vault):
    added = vault.add_key(Secret("a passphrase that leaked"), cost=CHEAP)
    objects = MemoryObjects()
    mirror(vault, objects)
    vault.remove_key(added)
    assert mirror(vault, objects).stray_keys == (added,)
    # A bad disk may have lost it: without a word that it was removed, it stays.
    assert mirror(vault, objects, prune=True).deleted == {}
    assert mirror(vault, objects, prune=True, removed_keys={added}).deleted == {"keys": 1}
    assert f"keys/{added}" not in objects.objects


def test_two_pushes_at_once_end_in_one_whole_copy(vault):
    objects = MemoryObjects()
    start = threading.Barrier(2)

    def work():
        start.wait()
        mirror(vault, objects, lanes=3)

    workers = [Worker(work, "push") for _ in range(2)]
    for worker in workers:
        assert worker.wait(300)
        assert worker.error is None
    prove_sound(objects, vault)


def test_a_pack_that_vanishes_meanwhile_is_said(vault):
    plan = plan_mirror(vault.storage, ObjectStorage(MemoryObjects()))
    gone = plan.files[FileKind.PACK][0]
    del vault.storage.files[gone.place]
    result = carry_out(plan, vault.storage, ObjectStorage(MemoryObjects()))
    assert [problem.file for problem in result.problems] == [gone.place]
    assert "vanished" in result.problems[0].reason


def test_a_snapshot_that_is_taken_meanwhile_never_arrives_without_its_packs(vault):
    """Whatever another process adds while files are listed, the copy has no snapshot with a gap."""

    class Busy(MemoryStorage):
        def list(self, kind):
            found = list(super().list(kind))
            if self.busy:
                self.busy = False
                save_files(vault, some_files(55), time_ns=NOW + 55)
                self.busy = True
            return iter(found)

    busy = Busy(vault.storage.files)
    busy.busy = True
    objects = MemoryObjects()
    plan = plan_mirror(busy, ObjectStorage(objects))
    busy.busy = False
    carry_out(plan, busy, ObjectStorage(objects))
    with reopened(objects) as copy:
        assert check(copy, read_data=1.0).sound


def test_bytes_on_their_way_are_bounded(vault, monkeypatch):
    monkeypatch.setattr(transfer, "BUDGET", 60_000)
    flying, most = 0, 0
    mutex = threading.Lock()

    class Counting(MemoryStorage):
        def read(self, kind, name="", offset=0, length=None):
            nonlocal flying, most
            data = super().read(kind, name, offset, length)
            with mutex:
                flying += len(data)
                most = max(most, flying)
            return data

    class Slow(MemoryObjects):
        def write(self, name, content, *, replace=False):
            nonlocal flying
            super().write(name, content, replace=replace)
            with mutex:
                flying -= len(content)

    source = Counting(vault.storage.files)
    plan = plan_mirror(source, ObjectStorage(MemoryObjects()))
    flying = most = 0
    largest = max(file.size for file in plan.files[FileKind.PACK])
    carry_out(plan, source, ObjectStorage(Slow()), lanes=8)
    assert most <= max(60_000, largest)


def test_ctrl_c_ends_the_copying_at_once_and_leaves_no_gap(vault, monkeypatch):
    class Impatient(Worker):
        def wait(self, timeout=None):
            raise KeyboardInterrupt

    objects = MemoryObjects()
    plan = plan_mirror(vault.storage, ObjectStorage(objects))
    monkeypatch.setattr(transfer, "Worker", Impatient)
    with pytest.raises(KeyboardInterrupt):
        carry_out(plan, vault.storage, ObjectStorage(objects))
    assert "config" not in objects.objects
    assert not any(name.startswith(("data/", "index/", "snapshots/")) for name in objects.objects)


# Deleting there


def test_a_prune_deletes_exactly_what_is_not_here_any_more(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    snapshots, _ = list_snapshots(vault)
    with vault.lock(exclusive=True) as lock:
        pin(vault, snapshots[2:], lock)
    away(vault, snapshots[0], snapshots[1])
    target = ObjectStorage(objects)
    once_here = {one.id for one in snapshots}
    planned = plan_mirror_prune(vault, plan_mirror(vault.storage, target), target, once_here=once_here)
    assert planned.staying == ()
    assert [one.id for one in planned.leaving] == [one.id for one in snapshots[:2]]
    mirror(vault, objects, prune=True)
    assert objects.objects == {
        name: data for name, data in vault.storage.files.items() if not name.startswith("locks/")
    }
    prove_sound(objects, vault)


def test_a_prune_that_is_cut_anywhere_leaves_a_whole_vault(vault):
    whole = MemoryObjects()
    mirror(vault, whole)
    snapshots, _ = list_snapshots(vault)
    away(vault, snapshots[0])
    for at in range(1, 200):
        objects = MemoryObjects(dict(whole.objects))
        faulty = FaultyObjects(objects, at, "down")
        try:
            mirror(vault, faulty, prune=True)
        except SafekeptError:
            prove_sound(objects, vault, everything=False)
            continue
        assert faulty.calls < at
        break
    else:
        raise AssertionError("it never came to an end")


def test_a_prune_is_refused_where_it_could_cost_a_snapshot(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    before = dict(objects.objects)

    def refusal():
        with pytest.raises(MirrorPruneRefused) as raised:
            mirror(vault, objects, prune=True)
        assert "Everything there stays" in raised.value.kept
        assert objects.objects.keys() >= before.keys()
        return raised.value.what

    victim = next(name for name in vault.storage.files if name.startswith("data/"))
    kept = vault.storage.files.pop(victim)
    assert "the vault here is damaged" in refusal()
    vault.storage.files[victim] = kept

    here = {name: vault.storage.files.pop(name) for name in list(vault.storage.files) if "snapshots/" in name}
    assert "has no snapshots at all" in refusal()
    vault.storage.files.update(here)


@pytest.mark.parametrize("forgotten_here", [False, True])
def test_a_prune_leaves_what_another_machine_sent_to_the_same_copy(vault, forgotten_here):
    """A machine that was rebuilt from the copy has the same vault, a key of its own, and pushes there too."""
    objects = MemoryObjects()
    mirror(vault, objects)
    with new_vault_like(vault) as rebuilt:
        theirs = save_files(rebuilt, some_files(7), time_ns=NOW + 7)
        with rebuilt.lock(exclusive=True) as lock:
            pin(rebuilt, [theirs], lock)
        key = rebuilt.add_key(Secret("of the rebuilt machine"), cost=CHEAP)
        mirror(rebuilt, objects)
        first, *_ = list_snapshots(vault)[0]
        if forgotten_here:
            away(vault, first)
        deleted = mirror(vault, objects, prune=True, never_here={theirs.id}).deleted
        assert deleted == ({"snapshots": 1} if forgotten_here else {})
        assert f"keys/{key}" in objects.objects
        prove_sound(objects, vault, everything=False)
        with reopened(objects) as copy:
            left, _ = list_snapshots(copy)
            assert theirs.id in {one.id for one in left}
            assert (first.id in {one.id for one in left}) is not forgotten_here
            assert is_pinned(next(one for one in left if one.id == theirs.id), NOW)
            found = read_all(copy)
            assert all(files in found for files in [*read_all(vault), some_files(7)])


def new_vault_like(vault):
    return Repository.open(MemoryStorage(dict(vault.storage.files)), SECRET)


def test_what_a_mark_in_the_copy_calls_forgotten_goes_whoever_had_it(vault):
    objects = MemoryObjects()
    snapshots, _ = list_snapshots(vault)
    with vault.lock(exclusive=True) as lock:
        forget(vault, snapshots[:1], lock, now_ns=NOW)
    mirror(vault, objects)
    away(vault, snapshots[0])
    mirror(vault, objects, prune=True, never_here={snapshots[0].id})
    assert f"snapshots/{snapshots[0].id}" not in objects.objects
    assert {name for name in objects.objects if name.startswith("data/")} == {
        name for name in vault.storage.files if name.startswith("data/")
    }


def test_a_prune_waits_for_whoever_works_there(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    with reopened(objects) as copy, copy.lock(), pytest.raises(VaultLocked):
        mirror(vault, objects, prune=True)


# Bad luck at every call


def once(vault, fault, at, before=()):
    """One push with one fault, then what the place is, then a push without faults. False after the last."""
    objects = MemoryObjects(dict(before))
    faulty = FaultyObjects(objects, at, fault)
    try:
        mirror(vault, faulty)
    except SafekeptError as error:
        assert error.kept
        assert error.advice()
    if "config" in objects.objects:
        prove_sound(objects, vault, everything=False)
    mirror(vault, objects)
    prove_sound(objects, vault)
    return faulty.calls >= at


def storm(vault, fault, before=(), step=1):
    at = 1
    while once(vault, fault, at, before):
        at += step
    assert at > 5


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_some_calls_ends_in_success_or_a_clear_error(vault, fault):
    storm(vault, fault, step=4)


@pytest.mark.soak("push")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_call_of_a_first_and_of_a_later_push(vault, fault):
    storm(vault, fault)
    objects = MemoryObjects()
    mirror(vault, objects)
    snapshots, _ = list_snapshots(vault)
    away(vault, snapshots[0])
    for number in range(3):
        save_files(vault, some_files(20 + number), time_ns=NOW + 20 + number)
    storm(vault, fault, before=objects.objects)


def test_a_place_that_takes_a_write_and_loses_the_answer_is_not_written_twice(vault):
    """With a credential that can only add, the second try of a write that had arrived is refused."""
    objects = AddingOnly()

    class Losing(AddingOnly):
        def write(self, name, content, *, replace=False):
            if name in objects.objects:
                raise SafekeptError("403", kept="k", next_steps=("n",))
            objects.write(name, content)
            raise SafekeptError("403 on the retry", kept="k", next_steps=("n",))

    losing = Losing()
    losing.objects = objects.objects
    mirror(vault, losing)
    prove_sound(objects, vault)


@pytest.mark.parametrize("times", [1, 2, 9])
def test_what_a_place_did_not_keep_as_it_was_sent_does_not_stay(vault, times):
    """The wrong bytes may have the right size, and the next push would take them for the file."""

    class Corrupting(MemoryObjects):
        left = times

        def write(self, name, content, *, replace=False):
            if name.startswith("data/") and self.left:
                self.left -= 1
                super().write(name, bytes(len(content)), replace=replace)
                raise wrong(self.location, name, "it reads back differently")
            super().write(name, content, replace=replace)

    objects = Corrupting()
    if times < 3:
        assert mirror(vault, objects).problems == []
    else:
        with pytest.raises(PlaceWrong):
            mirror(vault, objects)
    prove_sound(objects, vault, everything=times < 3)
    objects.left = 0
    mirror(vault, objects)
    prove_sound(objects, vault)


def test_where_it_can_be_neither_replaced_nor_deleted_a_person_is_told(vault):
    class Corrupting(AddingOnly):
        def write(self, name, content, *, replace=False):
            if name.startswith("data/") and name not in self.objects:
                super().write(name, bytes(len(content)))
                raise wrong(self.location, name, "it reads back differently")
            super().write(name, content, replace=replace)

    with pytest.raises(PlaceWrong) as raised:
        mirror(vault, Corrupting())
    assert "worthless and could not be deleted" in raised.value.what
    assert "data/" in raised.value.what


# The way back


def test_a_vault_that_is_fetched_is_none_before_its_last_file_is_here(vault):
    objects = MemoryObjects()
    mirror(vault, objects)
    source = ObjectStorage(objects)
    for at in range(1, 400):
        target = MemoryStorage()
        faulty = ObjectStorage(FaultyObjects(objects, at, "down"))
        try:
            carry_out(plan_mirror(faulty, target), faulty, target, order=CONFIG_LAST, lanes=1)
        except SafekeptError:
            assert "config" not in target.files
            if at % 5 == 0:
                carry_out(plan_mirror(source, target), source, target, order=CONFIG_LAST)
                assert target.files == objects.objects
            continue
        assert target.files == objects.objects
        return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("fault", ["torn", "flipped"])
def test_what_a_lying_place_gives_back_is_never_kept(vault, fault):
    objects = MemoryObjects()
    mirror(vault, objects)
    calls = FaultyObjects(objects)
    carry_out(
        plan_mirror(ObjectStorage(calls), MemoryStorage()), ObjectStorage(calls), MemoryStorage(), lanes=1
    )
    for at in range(1, calls.calls + 1):
        target = MemoryStorage()
        faulty = ObjectStorage(FaultyObjects(objects, at, fault))
        result = carry_out(plan_mirror(faulty, target), faulty, target, order=CONFIG_LAST, lanes=1)
        for name, data in target.files.items():
            assert data == objects.objects[name], (at, name, result.problems)
