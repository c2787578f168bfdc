"""Marks of a snapshot (pinned, proven, forgotten) lie beside it, so that its id never changes."""

from __future__ import annotations

import dataclasses
import json

import pytest

from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget, mark_proven, pin, unforget, unpin
from safekept.vault.care.prune import carry_out as prune
from safekept.vault.care.prune_plan import PruneRefused, plan_prune
from safekept.vault.care.retention import plan_forget
from safekept.vault.marks import Mark, read_marks, write_mark
from safekept.vault.mirror.mirror import carry_out, plan_mirror
from safekept.vault.mirror.prune import plan_mirror_prune, prune_mirror
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id, shown
from safekept.vault.storage import FileKind
from safekept.vault.tags import forgotten_at, is_pinned, pinned_until, proven_at
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import SECRET, find_snapshot, new_vault, save_files, some_files

NOW = 1_794_000_000 * 10**9
DAY = 86_400 * 10**9


def files(vault, kind):
    return {name: data for name, data in vault.storage.files.items() if name.startswith(kind)}


def marks(vault):
    return [name for name, _ in vault.storage.list(FileKind.MARK)]


def one(vault):
    (found,) = list_snapshots(vault)[0]
    return found


def test_no_mark_changes_the_file_of_a_snapshot_or_its_id(vault):
    made = save_files(vault, some_files(1), time_ns=NOW)
    before = files(vault, "snapshots/")
    with vault.lock(exclusive=True) as lock:
        for change in (
            lambda: pin(vault, [made], lock),
            lambda: mark_proven(vault, [made], lock, now_ns=NOW),
            lambda: unpin(vault, [made], lock),
            lambda: forget(vault, [made], lock, now_ns=NOW),
            lambda: unforget(vault, [made], lock),
        ):
            (changed,) = change()
            assert (changed.id, public_id(changed)) == (made.id, made.id)
            assert files(vault, "snapshots/") == before
    assert check(vault, read_data=1.0).findings == []


def test_the_newest_mark_wins_whatever_the_clock_says(vault):
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    write_mark(vault, Mark(made.id, "pin", "2031-01-01", NOW + 900 * DAY))  # a clock that ran ahead
    with vault.lock(exclusive=True) as lock:
        unpin(vault, [made], lock)
    assert pinned_until(one(vault)) is None
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock, until="2030-02-03")
    assert pinned_until(one(vault)) == "2030-02-03"


def test_a_mark_is_worth_more_than_an_old_tag_and_old_tags_still_count(vault):
    pinned = save_files(vault, {"a": b"x"}, time_ns=NOW, tags=("pin", "proven:2026-11-01T00:00:00Z"))
    hidden = save_files(vault, {"b": b"x"}, time_ns=NOW + 1, tags=("forgotten:2026-11-01T00:00:00Z",))
    assert is_pinned(pinned, NOW)
    assert proven_at(pinned)
    assert [public_id(snapshot) for snapshot in shown(list_snapshots(vault)[0])] == [pinned.id]
    with vault.lock(exclusive=True) as lock:
        unpin(vault, [pinned], lock)
        unforget(vault, [hidden], lock)
    first, second = list_snapshots(vault)[0]
    assert (pinned_until(first), proven_at(first)) == (None, proven_at(pinned))
    assert forgotten_at(second) is None
    assert (first.id, second.id, first.tags, second.tags) == (pinned.id, hidden.id, pinned.tags, hidden.tags)


def test_what_an_earlier_version_rewrote_keeps_the_id_that_people_saw(vault):
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    moved = vault.save_snapshot(dataclasses.replace(made, id="", original=made.id, tags=("pin",)))
    vault.delete_snapshot(made.id)
    with vault.lock(exclusive=True) as lock:
        unpin(vault, [one(vault)], lock)
        mark_proven(vault, [one(vault)], lock, now_ns=NOW)
    found = find_snapshot(vault, made.id)
    assert (found.id, public_id(found), is_pinned(found, NOW), proven_at(found)) == (
        moved.id,
        made.id,
        False,
        NOW,
    )


def test_nothing_of_a_mark_can_be_read_without_the_key(vault):
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock, until="2030-02-03")
    (stored,) = files(vault, "safekept/marks/").values()
    for word in (made.id, "pin", "2030", "snapshot"):
        assert word.encode() not in stored
    with new_vault(MemoryStorage()) as other:
        other.storage.files.update(files(vault, "safekept/marks/"))
        assert len(read_marks(other).damaged) == 1


def test_saying_the_same_again_stores_nothing(vault):
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    with vault.lock(exclusive=True) as lock:
        for _ in range(3):
            pin(vault, [made], lock)
            unforget(vault, [made], lock)
    assert len(marks(vault)) == 1


def test_a_prune_takes_marks_that_are_over_and_no_other(vault):
    kept, gone = (save_files(vault, some_files(n), time_ns=NOW + n) for n in range(2))
    with vault.lock(exclusive=True) as lock:
        for day in range(3):
            mark_proven(vault, [kept], lock, now_ns=NOW + day * DAY)
        pin(vault, [kept], lock)
        pin(vault, [gone], lock)
        unpin(vault, [gone], lock)
        forget(vault, [gone], lock, now_ns=NOW)
        prune(vault, plan_prune(vault, now_ns=NOW + 90 * DAY, grace=1.0), lock)
    assert len(marks(vault)) == 2
    left = one(vault)
    assert (left.id, is_pinned(left, NOW), proven_at(left)) == (kept.id, True, NOW + 2 * DAY)


def test_a_prune_that_cannot_read_a_mark_deletes_nothing(vault):
    made, other = (save_files(vault, some_files(n), time_ns=NOW + n) for n in range(2))
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock)
        (torn,) = marks(vault)
        vault.storage.files[f"safekept/marks/{torn}"] = b"torn"
        forget(vault, [made, other], lock, now_ns=NOW)
        before = dict(vault.storage.files)
        with pytest.raises(PruneRefused, match="may keep a snapshot") as caught:
            plan_prune(vault, now_ns=NOW + 90 * DAY, grace=1.0)
    assert f"safekept/marks/{torn}" in str(caught.value.next_steps)
    assert {name for name in before if name.startswith("snapshots/")} <= vault.storage.files.keys()
    (found,) = check(vault).findings
    assert (found.code, found.file) == ("mark-unreadable", f"safekept/marks/{torn}")


def test_marks_of_a_later_version_are_left_alone(vault):
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    write_mark(vault, Mark(made.id, "starred", "gold", NOW))
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock)
        prune(vault, plan_prune(vault, now_ns=NOW), lock)
    assert len(marks(vault)) == 2
    assert check(vault).findings == []


def test_retention_honours_marks(vault):
    old, new = (save_files(vault, {"a": b"x"}, time_ns=NOW + n, tags=("kind:quick",)) for n in range(2))
    with vault.lock(exclusive=True) as lock:
        pin(vault, [old], lock)
    plan = plan_forget(list_snapshots(vault)[0], {}, now_ns=NOW)
    assert ["pinned" in item.reasons for item in plan.keep if item.snapshot.id == old.id] == [True]
    assert new.id


def test_a_mirror_carries_marks_and_the_newest_of_both_sides_wins(vault):
    made = save_files(vault, some_files(1), time_ns=NOW)
    there = MemoryStorage()
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock)
        carry_out(plan_mirror(vault.storage, there), vault.storage, there)
        with Repository.open(MemoryStorage(there.files), SECRET) as copy:
            assert is_pinned(one(copy), NOW)
        unpin(vault, [made], lock)
    plan = plan_mirror(vault.storage, there)
    assert (plan.count, plan.snapshots) == (1, 0)
    carry_out(plan, vault.storage, there)
    with Repository.open(MemoryStorage(there.files), SECRET) as copy:
        assert not is_pinned(one(copy), NOW)


def test_a_pruned_mirror_keeps_the_marks_that_only_it_has(vault):
    """Whoever loses the marks here must not lose them there by the next push."""
    made, gone = (save_files(vault, some_files(n), time_ns=NOW + n) for n in range(2))
    there = MemoryStorage()
    with vault.lock(exclusive=True) as lock:
        pin(vault, [made], lock)
        forget(vault, [gone], lock, now_ns=NOW)
        mark_proven(vault, [made], lock, now_ns=NOW)
        carry_out(plan_mirror(vault.storage, there), vault.storage, there)
        prune(vault, plan_prune(vault, now_ns=NOW + 90 * DAY, grace=1.0), lock)
    for name in marks(vault):
        vault.storage.delete(FileKind.MARK, name)
    prune_mirror(plan_mirror_prune(vault, plan_mirror(vault.storage, there), there), there)
    with Repository.open(there, SECRET) as copy:
        left = one(copy)
        assert (left.id, is_pinned(left, NOW), proven_at(left)) == (made.id, True, NOW)
        assert len(marks(copy)) == 2


def test_a_list_reads_marks_once(tmp_path):
    with new_vault(MemoryStorage()) as first:
        made = save_files(first, {"a": b"x"}, time_ns=NOW)
        with first.lock(exclusive=True) as lock:
            pin(first, [made], lock)
        shared = first.storage.files
    reads = []

    class Counting(MemoryStorage):
        def read(self, kind, name="", offset=0, length=None):
            reads.append(kind)
            return super().read(kind, name, offset, length)

    for _ in range(2):
        reads.clear()
        with Repository.open(Counting(shared), SECRET, cache=str(tmp_path / "cache")) as again:
            assert is_pinned(one(again), NOW)
    assert FileKind.MARK not in reads


def test_a_mark_that_goes_while_it_is_read_is_read_again(vault):
    """A prune may take a mark away that a newer one has replaced, between a listing and its reading."""
    made = save_files(vault, {"a": b"x"}, time_ns=NOW)
    write_mark(vault, Mark(made.id, "pin", "", NOW))
    (old,) = marks(vault)
    listed = vault.storage.list
    replaced = []

    def listing(kind):
        found = list(listed(kind))
        if kind is FileKind.MARK and not replaced:
            replaced.append(write_mark(vault, Mark(made.id, "pin", "2030-02-03", NOW + 1)))
            vault.storage.delete(kind, old)
        return iter(found)

    vault.storage.list = listing
    assert pinned_until(one(vault)) == "2030-02-03"


def test_a_mark_is_one_small_document():
    text = Mark("ab" * 32, "pin", None, NOW).to_json()
    assert json.loads(text) == {
        "version": 1,
        "snapshot": "ab" * 32,
        "mark": "pin",
        "value": None,
        "time": "2026-11-06T21:20:00Z",
    }
