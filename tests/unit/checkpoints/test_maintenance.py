"""Keeping the store small: what is held stays readable, what nobody holds goes, and never too soon."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from safekept.checkpoints.store.git import find_git
from safekept.checkpoints.store.quarantine import Quarantine
from safekept.checkpoints.store.refs import pack_refs
from safekept.checkpoints.store.repository import no_writer_now, writing
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from safekept.checkpoints.upkeep import tidy as tidy_module
from safekept.checkpoints.upkeep.dropping import drop_checkpoints, held_by_grace
from safekept.checkpoints.upkeep.inventory import take_inventory
from safekept.checkpoints.upkeep.maintenance import (
    GitMissing,
    MaintenanceSettings,
    read_upkeep,
    run_maintenance,
    start_if_due,
)
from safekept.checkpoints.upkeep.retention import Drop, Limits, RetentionPlan
from safekept.checkpoints.upkeep.size import add_written, measure
from safekept.checkpoints.upkeep.surveying import make_plan, survey
from safekept.checkpoints.upkeep.tidy import Tidy
from safekept.core.locks import AlreadyRunning, process_lock
from support.commands.children import children
from support.commands.waiting import wait_until
from support.projects.checkpoints import contents_in_store, fsck, put, run_plain_git

NOW = MaintenanceSettings(grace_seconds=0, min_interval_seconds=0)


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    for number in range(20):
        put(os.path.join(place, f"d{number % 4}", f"f{number}.py"), f"print({number})\n" * 30)
    return place


def turns(store: Store, project: str, count: int, start: int = 0) -> list[dict[str, bytes]]:
    """So many checkpoints, each with one more change; what each holds."""
    held = []
    for number in range(start, start + count):
        put(os.path.join(project, "d0", "f0.py"), f"turn {number}\n" * 40)
        point = take(store, project, reason=f"turn {number}", turn=str(number)).checkpoint
        assert point is not None
        held.append(contents_in_store(store, point))
    return held


def held_now(store: Store, project: str) -> list[dict[str, bytes]]:
    return [contents_in_store(store, point) for point in reversed(store.checkpoints(project))]


def age(store: Store, seconds: float) -> None:
    """Make everything in the object store older."""
    for directory, _, names in os.walk(os.path.join(store.repository, "objects")):
        for name in names:
            path = os.path.join(directory, name)
            then = os.stat(path).st_mtime - seconds
            os.utime(path, (then, then))


def test_many_packs_become_one_and_every_checkpoint_reads_as_before(store, project):
    held = turns(store, project, 12)
    assert measure(store.directory, store.repository).packs == 12
    run_maintenance(store.directory, NOW)
    assert measure(store.directory, store.repository).packs == 1
    assert held_now(store, project) == held
    fsck(store)


def test_a_store_that_is_open_elsewhere_reads_on_through_a_repack(store, project):
    held = turns(store, project, 12)
    with Store.open(store.directory) as other:
        assert held_now(other, project) == held
        run_maintenance(store.directory, NOW)
        other.objects.close()
        assert held_now(other, project) == held
        turns(other, project, 1, start=99)


def test_what_only_dropped_checkpoints_held_goes_after_its_grace_and_not_before(store, project):
    noise = os.urandom(300_000)
    put(os.path.join(project, "noise.bin"), noise)
    turns(store, project, 1)
    os.unlink(os.path.join(project, "noise.bin"))
    held = turns(store, project, 3, start=1)
    before = measure(store.directory, store.repository).pack_bytes
    assert before > len(noise)
    limits = Limits(max_snapshots=3)
    upkeep = run_maintenance(store.directory, MaintenanceSettings(limits, min_interval_seconds=0))
    assert upkeep.dropped == 1
    age(store, 7200)
    run_maintenance(store.directory, MaintenanceSettings(limits, min_interval_seconds=0))
    assert measure(store.directory, store.repository).pack_bytes > len(noise), "gone before its grace"
    record = os.path.join(store.directory, "dropped.jsonl")
    with open(record) as file:
        entries = [json.loads(line) for line in file if line.strip()]
    put(record, "".join(json.dumps({**entry, "time_ns": 1}) + "\n" for entry in entries))
    upkeep = run_maintenance(store.directory, MaintenanceSettings(limits, min_interval_seconds=0))
    assert measure(store.directory, store.repository).pack_bytes < before - len(noise) + 50_000
    assert upkeep.freed >= len(noise)
    assert held_now(store, project) == held
    fsck(store)


def test_65349_objects_of_a_take_in_flight_are_never_deleted(store, project):
    """A loose object that no ref holds yet, and is young: the next moment may bring its ref."""
    turns(store, project, 2)
    written = run_plain_git(store, "hash-object", "-w", "--stdin")
    name = written.stdout.decode().strip()
    run_maintenance(store.directory, MaintenanceSettings(min_interval_seconds=0), thorough=True)
    assert run_plain_git(store, "cat-file", "-e", name).returncode == 0
    age(store, 7200)
    run_maintenance(store.directory, MaintenanceSettings(min_interval_seconds=0), thorough=True)
    assert run_plain_git(store, "cat-file", "-e", name).returncode != 0, "garbage is kept for ever"


def test_62_a_checkpoint_that_is_made_while_garbage_is_set_aside_gets_its_objects_back(
    store, project, monkeypatch
):
    """The wedge of the field: a writer relies on an old object that was condemned (peers, row 62)."""
    turns(store, project, 1)
    dropped = store.checkpoints(project)[0]
    turns(store, project, 1, start=1)
    content = contents_in_store(store, dropped)
    store.drop([dropped])
    age(store, 7200)
    resurrected = []

    def quiet(tidy: Tidy) -> bool:
        # A writer that looked before the objects were set aside makes its ref now.
        assert tidy.quarantine.occupied
        identity = os.path.basename(store.project_directory(project))
        store.refs.create(identity, dropped.id, dropped.commit, store.project_directory(project))
        resurrected.append(dropped.id)
        return no_writer_now(tidy.directory)

    monkeypatch.setattr(Tidy, "_no_writer_within", quiet)
    upkeep = run_maintenance(store.directory, NOW, thorough=True)
    assert resurrected and upkeep.failures == 0
    store.objects.close()
    assert contents_in_store(store, store.find(project, dropped.id)) == content
    fsck(store)


def test_while_somebody_writes_nothing_is_deleted_and_all_is_put_back(store, project, monkeypatch):
    turns(store, project, 3)
    store.drop(store.checkpoints(project)[1:])
    age(store, 7200)
    monkeypatch.setattr(tidy_module, "_PATIENCE", 0.05)
    before = {name for pack in take_inventory(store.repository).packs for name in pack.objects}
    with writing(store.directory):
        run_maintenance(store.directory, NOW, thorough=True)
    after = {name for pack in take_inventory(store.repository).packs for name in pack.objects}
    assert after == before
    assert not Quarantine(store.directory, store.repository).occupied
    run_maintenance(store.directory, NOW, thorough=True)
    left = {name for pack in take_inventory(store.repository).packs for name in pack.objects}
    assert left < before


def test_under_constant_writers_refs_are_dropped_and_packs_joined_all_the_same(store, project, monkeypatch):
    turns(store, project, 30)
    age(store, 7200)
    monkeypatch.setattr(tidy_module, "_PATIENCE", 0.05)
    limits = MaintenanceSettings(grace_seconds=0, min_interval_seconds=0, limits=Limits(max_snapshots=25))
    with writing(store.directory):
        for _ in range(2):
            run_maintenance(store.directory, limits)
    assert len(store.checkpoints(project)) == 25
    assert len(take_inventory(store.repository).packs) <= 10
    for point in store.checkpoints(project):
        assert len(contents_in_store(store, point)) == 20
    fsck(store)


def test_damage_that_a_run_finds_makes_the_next_take_look_again(store, project):
    turns(store, project, 2)
    for pack in take_inventory(store.repository).packs:
        os.chmod(pack.stem + ".pack", 0o600)
        facts = os.stat(pack.stem + ".pack")
        os.truncate(pack.stem + ".pack", facts.st_size // 2)
        os.utime(pack.stem + ".pack", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    run_maintenance(store.directory, NOW)
    with Store.open(store.directory) as fresh:
        put(f"{project}/new", "1")
        done = take(fresh, project)
        assert len(contents_in_store(fresh, done.checkpoint)) == 21


def test_writers_do_not_wait_for_a_run(store, project):
    turns(store, project, 1)
    with process_lock(os.path.join(store.directory, "locks", "maintenance"), "a long run"):
        turns(store, project, 1, start=5)  # a wait would be for ever: it is ours


def test_a_killed_run_is_mended_when_the_store_is_opened_again(store, project):
    held = turns(store, project, 5)
    waiting = Quarantine(store.directory, store.repository)
    for pack in take_inventory(store.repository).packs:
        waiting.hold_pack(pack.path)
    store.close()
    events = []
    with Store.open(store.directory, listener=events.append) as again:
        assert held_now(again, project) == held
        assert not waiting.occupied
    assert any("set aside" in event.text for event in events)


@pytest.mark.needs("blocks", "it looks at the room that small files take")
def test_109074_a_dangling_ref_and_a_damaged_project_stop_nothing_elsewhere(store, project, tmp_path):
    other = str(tmp_path / "other")
    put(os.path.join(other, "a.txt"), "a\n")
    take(store, other)
    identity = os.path.basename(store.project_directory(other))
    store.refs.create(identity, "000000000aaa", "1" * 40, store.project_directory(other))
    held = turns(store, project, 12)
    store.drop(store.checkpoints(project)[6:])
    age(store, 7200)
    first = run_maintenance(store.directory, NOW)
    assert first.failures == 0 and first.damage, "damage is noted"
    assert any("new" in remark for remark in first.remarks), "and nothing is deleted around it at first"
    path = os.path.join(store.directory, "maintenance.json")
    with open(path) as file:
        fields = json.load(file)
    fields["damage"] = {name: since - 90_000 for name, since in fields["damage"].items()}
    put(path, json.dumps(fields))
    age(store, 7200)
    before = measure(store.directory, store.repository).pack_bytes
    second = run_maintenance(store.directory, NOW, thorough=True)
    assert second.failures == 0 and second.freed > 0
    assert measure(store.directory, store.repository).pack_bytes < before
    assert held_now(store, project) == held[6:]


def test_83036_leftover_temporary_packs_are_swept_by_age(store, project):
    turns(store, project, 1)
    packs = os.path.join(store.repository, "objects", "pack")
    for name, hours in (("tmp_pack_old", 5), ("tmp_idx_old", 5), ("tmp_pack_young", 0)):
        path = put(os.path.join(packs, name), b"x" * 100_000)
        then = time.time() - hours * 3600
        os.utime(path, (then, then))
    run_maintenance(store.directory, NOW)
    assert sorted(name for name in os.listdir(packs) if name.startswith("tmp_")) == ["tmp_pack_young"]


def test_a_temporary_pack_is_not_swept_under_a_living_writer(store, project):
    turns(store, project, 1)
    path = put(os.path.join(store.repository, "objects", "pack", "tmp_pack_long"), b"x")
    os.utime(path, (1, 1))
    with writing(store.directory):
        run_maintenance(store.directory, NOW)
    assert os.path.exists(path)


def test_refs_are_gathered_and_found_dropped_and_made_again(store, project):
    turns(store, project, 40)
    points = store.checkpoints(project)
    assert pack_refs(store.refs) == 40
    assert store.checkpoints(project) == points
    fsck(store)
    store.drop(points[:2])
    assert store.checkpoints(project) == points[2:]
    turns(store, project, 1, start=80)
    assert len(store.checkpoints(project)) == 39
    assert pack_refs(store.refs, at_least=1) == 1
    assert len(store.checkpoints(project)) == 39
    listed = run_plain_git(store, "for-each-ref", "refs/safekept").stdout.splitlines()
    assert len(listed) == 39


def test_a_foreign_lock_on_packed_refs_only_delays_gathering(store, project):
    turns(store, project, 3)
    put(os.path.join(store.repository, "packed-refs.lock"))
    assert pack_refs(store.refs, at_least=1) == 0
    assert len(store.checkpoints(project)) == 3


def test_two_runs_never_work_at_once(store, project):
    turns(store, project, 1)
    with (
        process_lock(os.path.join(store.directory, "locks", "maintenance"), "a long run"),
        pytest.raises(AlreadyRunning),
    ):
        run_maintenance(store.directory, NOW)


def test_repeated_failures_are_counted_and_the_next_success_clears_them(store, project, monkeypatch):
    turns(store, project, 1)
    monkeypatch.setattr("safekept.checkpoints.store.git.find_git", lambda: None)
    for count in (1, 2):
        with pytest.raises(GitMissing):
            run_maintenance(store.directory, NOW)
        assert read_upkeep(store.directory).failures == count
    assert "git is not installed" in read_upkeep(store.directory).error
    monkeypatch.undo()
    assert find_git()
    run_maintenance(store.directory, NOW)
    assert (read_upkeep(store.directory).failures, read_upkeep(store.directory).error) == (0, "")


def test_a_run_that_is_out_of_time_changes_nothing_and_says_so(store, project):
    held = turns(store, project, 12)
    upkeep = run_maintenance(
        store.directory, MaintenanceSettings(grace_seconds=0, min_interval_seconds=0, bound_seconds=-1)
    )
    assert any("ended after" in remark for remark in upkeep.remarks)
    assert held_now(store, project) == held
    fsck(store)


def test_a_damaged_pack_is_left_alone_and_the_others_are_joined(store, project):
    turns(store, project, 10)
    broken = take_inventory(store.repository).packs[0].path
    os.chmod(broken, 0o600)
    with open(broken, "r+b") as file:
        file.seek(40)
        file.write(b"\0" * 60)
    upkeep = run_maintenance(store.directory, NOW, thorough=True)
    assert os.path.exists(broken), "what cannot be copied is never removed"
    assert os.path.basename(broken) in upkeep.damage or upkeep.damage, "and it is said"
    assert upkeep.failures == 0
    assert measure(store.directory, store.repository).packs < 10, "one bad pack stops the others"


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_damaged_loose_object_stops_nothing(store, project, content):
    turns(store, project, 10)
    commit = store.checkpoints(project)[0].commit
    blob = run_plain_git(store, "rev-parse", f"{commit}:files/d0/f0.py").stdout.decode().strip()
    put(os.path.join(store.repository, "objects", blob[:2], blob[2:]), content)
    upkeep = run_maintenance(store.directory, NOW, thorough=True)
    assert upkeep.failures == 0
    assert measure(store.directory, store.repository).packs == 1


# ── when ──────────────────────────────────────────────────────────────────────────────────────────


def started(directory: str, settings: MaintenanceSettings, monkeypatch, **options) -> bool:
    runs = []
    monkeypatch.setattr(
        "safekept.checkpoints.upkeep.maintenance.start_detached", lambda *words: runs.append(words)
    )
    start_if_due(directory, settings, **options)
    return bool(runs)


def test_maintenance_is_started_at_most_every_interval(store, monkeypatch):
    settings = MaintenanceSettings(min_interval_seconds=3600)
    assert not started(store.directory, settings, monkeypatch), "a new store has nothing to maintain"
    stamp = os.path.join(store.directory, "maintenance-started")
    os.utime(stamp, (time.time() - 3601,) * 2)
    assert started(store.directory, settings, monkeypatch)
    assert not started(store.directory, settings, monkeypatch)


@pytest.mark.parametrize(
    ("packs", "written", "expected"), [(10, 1, False), (200, 1, True), (10, 10_000, True)]
)
def test_it_comes_sooner_only_for_many_packs_or_a_store_over_its_limit(
    store, monkeypatch, packs, written, expected
):
    settings = MaintenanceSettings(Limits(max_total_bytes=5000), min_interval_seconds=1e6)
    started(store.directory, settings, monkeypatch)
    os.utime(os.path.join(store.directory, "maintenance-started"), (time.time() - 400,) * 2)
    assert started(store.directory, settings, monkeypatch, packs=packs, written=written) is expected
    assert not started(store.directory, settings, monkeypatch, packs=packs, written=written), "twice at once"


def test_a_clock_that_was_put_back_does_not_stop_maintenance(store, monkeypatch):
    settings = MaintenanceSettings(min_interval_seconds=3600)
    started(store.directory, settings, monkeypatch)
    os.utime(os.path.join(store.directory, "maintenance-started"), (time.time() + 1e6,) * 2)
    assert started(store.directory, settings, monkeypatch)


def test_a_detached_run_does_its_work_and_leaves_no_child_behind(store, project):
    turns(store, project, 12)
    settings = MaintenanceSettings(grace_seconds=0, min_interval_seconds=0)
    before = children()
    start_if_due(store.directory, settings)
    assert start_if_due(store.directory, settings)
    assert children() <= before
    wait_until(lambda: read_upkeep(store.directory).succeeded, "the end of the run")
    assert measure(store.directory, store.repository).packs == 1


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_running_total_adds_up_and_survives_a_torn_file(tmp_path):
    assert add_written(str(tmp_path), 100).total == 100
    assert add_written(str(tmp_path), 50) == add_written(str(tmp_path), 0).__class__(150, 2)
    put(str(tmp_path / "size"), b"garb")
    assert add_written(str(tmp_path), 7).total == 7


def test_measuring_again_lists_only_what_changed(store, project, monkeypatch):
    turns(store, project, 1)
    for number in range(40):
        run_plain_git(store, "hash-object", "-w", "--stdin", "--literally", "-t", f"k{number}")
    objects = os.path.join(store.repository, "objects")
    for name in os.listdir(objects):
        os.utime(os.path.join(objects, name), (time.time() - 100,) * 2)
    first = measure(store.directory, store.repository)
    listed = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or real(path))
    second = measure(store.directory, store.repository)
    assert (second.loose, second.loose_bytes) == (first.loose, first.loose_bytes)
    assert first.loose == 40
    assert not [path for path in listed if len(os.path.basename(path)) == 2], (
        "loose objects were walked again"
    )


def test_the_measure_counts_blocks_and_leftovers(store, project):
    turns(store, project, 1)
    put(os.path.join(store.repository, "objects", "pack", "tmp_pack_x"), b"x" * 50_000)
    found = measure(store.directory, store.repository)
    assert found.temporary_bytes >= 50_000
    assert found.total >= found.pack_bytes + found.temporary_bytes


def test_the_record_of_drops_passes_over_torn_lines(store, project):
    turns(store, project, 2)
    put(os.path.join(store.directory, "dropped.jsonl"), b'{"time_ns": 1, "comm')
    point = store.checkpoints(project)[1]
    drop_checkpoints(store, [point], time.time_ns())
    assert held_by_grace(store.directory, time.time_ns(), 10**9 * 3600) == {point.commit}


def test_what_is_kept_beside_dropped_checkpoints_goes_with_them(store, project, tmp_path):
    turns(store, project, 60)
    gone = str(tmp_path / "gone")
    put(os.path.join(gone, "a.txt"), "a")
    take(store, gone)
    place = store.project_directory(gone)
    plan = make_plan(store, survey(store), Limits(max_snapshots=5), time.time_ns(), drop_orphans=True)
    shutil.rmtree(gone)
    plan = make_plan(store, survey(store), Limits(max_snapshots=5), time.time_ns(), drop_orphans=True)
    assert plan.orphans == (gone,)
    run_maintenance(store.directory, NOW, plan=plan)
    assert not os.path.exists(place)
    assert len(store.checkpoints(project)) == 5
    with open(os.path.join(store.project_directory(project), "ledger")) as file:
        assert sum(1 for line in file if line.strip()) < 20
    turns(store, project, 1, start=99)
    assert len(store.checkpoints(project)) == 6


def test_after_everything_was_cleared_the_next_checkpoint_is_whole_again(store, project):
    turns(store, project, 3)
    drops = [Drop(point, "clear") for point in store.checkpoints(project)]
    run_maintenance(store.directory, NOW, plan=RetentionPlan(tuple(drops), (), 0, 0, 0), thorough=True)
    assert store.checkpoints(project) == []
    (held,) = turns(store, project, 1, start=7)
    assert len(held) == 20
    age(store, 7200)
    run_maintenance(store.directory, NOW, thorough=True)
    assert held_now(store, project) == [held]
    fsck(store)


def test_the_first_point_of_a_long_session_outlives_the_limit_until_the_session_ends(store, project):
    from safekept.checkpoints.checkpoints import Checkpoints

    put(os.path.join(project, "package.json"), "{}")
    door = Checkpoints(store.directory)
    first = ""
    for number in range(8):
        put(os.path.join(project, "a"), f"{number}")
        taken = door.before([project], "", "long", f"{number}", shell=True, directory=project).taken
        first = first or taken[0].checkpoint.id
    limits = Limits(max_snapshots=3)

    def dropped():
        return {drop.checkpoint.id for drop in make_plan(store, survey(store), limits, time.time_ns()).drop}

    assert len(dropped()) == 4 and first not in dropped()
    door.after("long", "7", wait=True)
    assert first in dropped()
