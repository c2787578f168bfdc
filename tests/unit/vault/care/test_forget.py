"""Forgetting hides and deletes nothing; what is said of a snapshot lies beside it, and its file stays."""

from __future__ import annotations

import dataclasses

import pytest

from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import (
    SnapshotPinned,
    forget,
    forget_by_policy,
    pin,
    unforget,
    unpin,
)
from safekept.vault.care.policy import Policy
from safekept.vault.care.retention import plan_forget, states_in
from safekept.vault.errors import NoSuchSnapshot, VaultLocked
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id, shown
from safekept.vault.tags import forgotten_at, is_pinned
from support.vault.vaults import (
    SECRET,
    find_snapshot,
    read_all,
    read_files,
    save_files,
    some_files,
)

NOW = 1_794_000_000 * 10**9


def snapshot_files(vault):
    return [name for name in vault.storage.files if name.startswith("snapshots/")]


def test_a_forgotten_snapshot_is_hidden_and_comes_back_exact(vault):
    made = save_files(vault, some_files(1), tags=("kind:quick", "label:x"), time_ns=NOW)
    with vault.lock(exclusive=True) as lock:
        (away,) = forget(vault, [made], lock, now_ns=NOW)
    assert forgotten_at(away) == NOW
    assert (public_id(away), away.id) == (made.id, made.id)
    assert shown(list_snapshots(vault)[0]) == []
    with pytest.raises(NoSuchSnapshot, match="was forgotten"):
        find_snapshot(vault, made.short_id)
    assert find_snapshot(vault, made.short_id, forgotten=True) == away
    assert read_files(vault, away) == (some_files(1), [])
    with vault.lock(exclusive=True) as lock:
        (back,) = unforget(vault, [away], lock)
    assert (back.tags, back.tree, back.time_ns, back.id) == (made.tags, made.tree, NOW, made.id)
    assert find_snapshot(vault, made.id) == back
    assert len(snapshot_files(vault)) == 1
    assert check(vault, read_data=1.0).findings == []


def test_forgetting_again_does_not_start_the_grace_again(vault):
    made = save_files(vault, {"a": b"x"})
    with vault.lock(exclusive=True) as lock:
        (first,) = forget(vault, [made], lock, now_ns=NOW)
        (second,) = forget(vault, [made], lock, now_ns=NOW + 10**15)
    assert second == first


def test_a_pinned_snapshot_is_not_forgotten_before_its_pin_is_gone_or_over(vault):
    one, two = (save_files(vault, {"a": b"x"}, time_ns=NOW + number) for number in range(2))
    with vault.lock(exclusive=True) as lock:
        pin(vault, [two], lock, until="2027-01-31")
        with pytest.raises(SnapshotPinned, match=f"{two.short_id} is pinned until 2027-01-31") as caught:
            forget(vault, [one, two], lock, now_ns=NOW)
        assert caught.value.kept == "No snapshot was forgotten"
        assert len(shown(list_snapshots(vault)[0])) == 2
        assert is_pinned(find_snapshot(vault, two.id), NOW)
        unpin(vault, [two], lock)
        forget(vault, [one, two], lock, now_ns=NOW)
    assert shown(list_snapshots(vault)[0]) == []


def test_pinning_brings_a_forgotten_one_back(vault):
    made = save_files(vault, {"a": b"x"})
    with vault.lock(exclusive=True) as lock:
        forget(vault, [made], lock, now_ns=NOW)
        (kept,) = pin(vault, [made], lock)
    assert is_pinned(kept, NOW)
    assert shown(list_snapshots(vault)[0]) == [kept]
    with vault.lock(exclusive=True) as lock, pytest.raises(ValueError, match="not a day"):
        pin(vault, [made], lock, until="soon")


def test_what_others_wrote_into_a_snapshot_is_not_touched_by_a_pin(vault):
    made = save_files(vault, {"a": b"x"}, tags=("nightly",))
    rich = dataclasses.replace(
        made,
        summary={"files_new": 3},
        program_version="rustic 0.9",
        extra={"description": "theirs", "safekept": {"version": 1, "databases": {"state.db": "sound"}}},
        excludes=("*.tmp",),
        offset=19800,
    )
    stored = vault.save_snapshot(rich)
    vault.delete_snapshot(made.id)
    with vault.lock(exclusive=True) as lock:
        (kept,) = pin(vault, [stored], lock)
    assert kept.id == stored.id
    assert vault.load_snapshot(kept.id) == stored


def test_a_snapshot_that_was_changed_meanwhile_is_changed_as_it_is_now(vault):
    """What a face listed before it had the lock may be old: no mark of somebody else may be lost."""
    made = save_files(vault, {"a": b"x"})
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock)
        unpin(vault, [made], lock)
        (kept,) = pin(vault, [made], lock, until="2027-01-01")
        with pytest.raises(SnapshotPinned):
            forget(vault, [made], lock, now_ns=NOW)
        vault.delete_snapshot(kept.id)
        with pytest.raises(NoSuchSnapshot, match="no longer in the vault"):
            unpin(vault, [made], lock)


def test_marks_are_written_under_an_exclusive_lock_only(vault):
    made = save_files(vault, {"a": b"x"})
    with vault.lock() as lock:
        for change in (pin, unpin, unforget):
            with pytest.raises(ValueError, match="exclusive"):
                change(vault, [made], lock)


def test_two_files_of_one_snapshot_are_shown_once_and_the_next_change_clears_up(vault):
    """An earlier version, killed between the write of a file with other tags and the end of the old one."""
    made, other = (save_files(vault, {"a": b"x"}, time_ns=NOW + number) for number in range(2))
    hidden = ("forgotten:2026-11-15T09:30:01Z",)
    vault.save_snapshot(dataclasses.replace(made, id="", original=made.id, tags=hidden))
    assert len(snapshot_files(vault)) == 3
    assert [public_id(item) for item in shown(list_snapshots(vault)[0])] == [other.id, made.id]
    with vault.lock(exclusive=True) as lock:
        pin(vault, [other], lock)
    assert len(snapshot_files(vault)) == 2
    assert find_snapshot(vault, made.id).tags == ()
    assert check(vault).findings == []


def test_retention_after_a_snapshot_forgets_by_kind_and_says_what(vault):
    made = [save_files(vault, {"a": b"x"}, tags=("kind:quick",), time_ns=NOW + n) for n in range(23)]
    plan = forget_by_policy(vault, now_ns=NOW + 100)
    assert [item.snapshot.id for item in plan.forget] == [item.id for item in made[2::-1]]
    assert [public_id(item) for item in shown(list_snapshots(vault)[0])] == [one.id for one in made[:2:-1]]
    assert forget_by_policy(vault, now_ns=NOW + 100).forget == []


def test_retention_leaves_a_vault_alone_that_somebody_works_on(vault):
    for number in range(21):
        save_files(vault, {"a": b"x"}, tags=("kind:quick",), time_ns=NOW + number)
    files = dict(vault.storage.files)
    with vault.lock(), Repository.open(vault.storage, SECRET) as other:
        assert forget_by_policy(other, now_ns=NOW + 100) is None
        with pytest.raises(VaultLocked):
            other.lock(exclusive=True)
    assert vault.storage.files == files
    assert len(forget_by_policy(vault, now_ns=NOW + 100).forget) == 1


def test_retention_of_one_home_leaves_others_alone(vault):
    for number in range(4):
        save_files(vault, {"a": b"x"}, tags=("kind:quick",), time_ns=NOW + number)
    policies = {"quick": Policy(last=1)}
    assert forget_by_policy(vault, policies, now_ns=NOW + 100, chosen=lambda one: False).forget == []
    assert len(forget_by_policy(vault, policies, now_ns=NOW + 100).forget) == 3


def test_the_state_of_databases_comes_from_the_manifest_where_restic_rewrote_the_snapshot(vault):
    manifest = b'{"format": "safekept-snapshot", "version": 1, "databases": {"state.db": {"state": "sound"}}}'
    files = {"state.db": b"x", ".safekept/manifest.json": manifest}
    old = save_files(vault, files, tags=("kind:quick",), time_ns=NOW)
    for number in range(1, 30):
        save_files(vault, {"state.db": b"x"}, tags=("kind:quick",), time_ns=NOW + number)
    plan = plan_forget(list_snapshots(vault)[0], now_ns=NOW + 99, facts=states_in(vault))
    assert plan.keep[-1] == (old, ("the newest verified generation of `state.db`",))
    assert len(plan.forget) == 9


def test_nothing_is_lost_by_any_number_of_changes(vault):
    made = [save_files(vault, some_files(number), time_ns=NOW + number) for number in range(3)]
    with vault.lock(exclusive=True) as lock:
        for turn in range(4):
            pin(vault, made, lock, until=f"2027-01-0{turn + 1}")
            unpin(vault, made, lock)
            forget(vault, made, lock, now_ns=NOW)
            unforget(vault, made, lock)
    assert [public_id(item) for item in list_snapshots(vault)[0]] == [item.id for item in made]
    assert read_all(vault) == [some_files(number) for number in range(3)]
