"""Taking under bad luck: killed anywhere, many at once, no room, damage in the store."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from safekept.checkpoints.project import project_id
from safekept.checkpoints.store.repository import StoreUnusable
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings, take
from support.projects.checkpoints import (
    contents_in_store,
    fsck,
    killed_at,
    put,
    run_plain_git,
    settle,
    tree_in_store,
    tree_on_disk,
)
from support.vault.closed import open_below

QUICK = TakeSettings(durable=False)


def make_project(place: str, files: int = 12) -> str:
    for number in range(files):
        put(f"{place}/d{number % 3}/f{number}", f"{number}\n" * 20)
    put(f"{place}/.gitignore", "*.tmp\n")
    put(f"{place}/x.tmp", "ignored")
    return place


def take_once(directory: str, project: str, **options: object) -> None:
    with Store.open(directory) as store:
        take(store, project, **options)  # type: ignore[arg-type]


def visit_kill_points(tmp_path: object, choose: object) -> int:
    """Kill a first and a later take at chosen steps; after each the store must be whole and usable."""
    visited = 0
    for stage in ("first", "later", "named"):
        base = os.path.join(str(tmp_path), stage)
        project = make_project(os.path.join(base, "project"))
        template = os.path.join(base, "template")
        os.makedirs(template)
        if stage != "first":
            take_once(template, project)
            put(f"{project}/d1/f1", "changed")
            put(f"{project}/d2/new", "new")
            os.unlink(f"{project}/d0/f0")
        options = {"named": ["d1/f1", "d2/new", "d0/f0"]} if stage == "named" else {}
        trial = os.path.join(base, "count")
        shutil.copytree(template, trial)
        steps = killed_at(0, lambda: take_once(trial, project, **options))
        assert steps > 8
        for step in choose(steps):  # type: ignore[operator]
            data = os.path.join(base, f"killed-{step}")
            shutil.copytree(template, data)
            known = {}
            if stage != "first":
                with Store.open(data) as before:
                    known = {point: tree_in_store(before, point) for point in before.checkpoints(project)}
            assert killed_at(step, lambda: take_once(data, project, **options)) == -1
            visited += 1
            if os.path.isdir(os.path.join(data, "store", "objects")) and os.path.exists(
                os.path.join(data, "store", "HEAD")
            ):
                fsck(os.path.join(data, "store"))
            with Store.open(data) as store:
                for point, tree in known.items():
                    assert tree_in_store(store, point) == tree
                latest = take(store, project, always=True).checkpoint
                on_disk = tree_on_disk(project)
                del on_disk["x.tmp"]
                assert tree_in_store(store, latest) == on_disk
                fsck(store)
            left = [name for name in os.listdir(store.project_directory(project)) if "tmp" in name]
            assert left == [], "what a killed take left behind is swept by the next"
            shutil.rmtree(open_below(data))
    return visited


def test_killed_take_loses_nothing_that_was_reported_and_wedges_nothing(tmp_path):
    seed = random.Random(4)
    assert visit_kill_points(tmp_path, lambda steps: sorted(seed.sample(range(1, steps + 1), 5))) == 15


@pytest.mark.soak("checkpoints")
def test_killed_take_at_every_step(tmp_path):
    visit_kill_points(tmp_path, lambda steps: range(1, steps + 1))


_WRITER = """
import os, sys, random
sys.path[:0] = {paths!r}
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take, TakeSettings
directory, project, number, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
chance = random.Random(number)
for turn in range(rounds):
    name = f"{{project}}/w{{number % 4}}/{{number}}-{{turn % 3}}"
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w") as file:
        file.write(f"{{number}} {{turn}}" * chance.randrange(1, 50))
    with Store.open(directory) as store:
        named = [name] if chance.random() < 0.5 else None
        done = take(store, project, reason=f"{{number}}/{{turn}}", named=named,
                    settings=TakeSettings(durable=False, lock_wait=600))
        point = done.checkpoint or done.latest
        with open(name, "rb") as file:
            assert store.read(store.state(point)[os.path.relpath(name, project)].oid) == file.read()
        if done.checkpoint:
            print(done.checkpoint.id, flush=True)
"""


def storm(tmp_path: object, processes: int, rounds: int, projects: int, maintain: bool) -> None:
    data = os.path.join(str(tmp_path), "data")
    paths = [make_project(os.path.join(str(tmp_path), f"p{number}"), 6) for number in range(projects)]
    with Store.open(data):
        pass
    script = _WRITER.format(paths=[path for path in sys.path if path])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, data, paths[number % projects], str(number), str(rounds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    repository = os.path.join(data, "store")
    while maintain and any(process.poll() is None for process in running):
        # What plain git may do to a store while others write: gather packs and refs.
        run_plain_git(repository, "repack", "--geometric=2", "-d", "-q")
        run_plain_git(repository, "pack-refs", "--all")
        time.sleep(0.05)
    reported: dict[str, list[str]] = {}
    for number, process in enumerate(running):
        out, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
        reported.setdefault(paths[number % projects], []).extend(out.split())
    fsck(repository)
    with Store.open(data) as store:
        assert sorted(store.projects()) == sorted(reported)
        for project, ids in reported.items():
            points = store.checkpoints(project)
            assert sorted(point.id for point in points) == sorted(ids)
            for point in points:
                store.state(point)
            final = take(store, project, always=True)
            on_disk = tree_on_disk(project)
            del on_disk["x.tmp"]
            assert tree_in_store(store, final.checkpoint or final.latest) == on_disk


def test_sixteen_processes_on_one_project_lose_nothing(tmp_path):
    storm(tmp_path, 16, 2, 1, False)


def test_many_processes_on_many_projects_while_git_packs_the_store(tmp_path):
    storm(tmp_path, 8, 3, 4, True)


@pytest.mark.soak("checkpoints")
def test_storm_of_takers_with_packing_for_long(tmp_path):
    for number in range(6):
        place = tmp_path / str(number)
        place.mkdir()
        storm(place, 16, 12, 1 if number % 2 else 8, True)


def test_a_full_disk_is_a_value_with_words_and_leaves_the_store_whole(tmp_path, small_filesystem):
    place = small_filesystem(600)
    project = make_project(str(tmp_path / "project"))
    with Store.open(f"{place}/data") as store:
        first = take(store, project).checkpoint
        put(f"{project}/d1/big", os.urandom(2 << 20))
        with pytest.raises(StoreUnusable) as caught:
            take(store, project)
        assert "No space left" in caught.value.what
        assert "not touched" in caught.value.kept
        assert caught.value.advice() == ("Make room: `safekept checkpoint prune`",)
        fsck(store)
        os.unlink(f"{project}/d1/big")
        put(f"{project}/d1/f1", "small")
        later = take(store, project).checkpoint
        assert contents_in_store(store, later)["d1/f1"] == b"small"
        assert store.checkpoints(project) == [later, first]
        fsck(store)


def test_a_read_only_store_is_a_value_with_words(tmp_path, small_filesystem):
    place = small_filesystem(2048)
    project = make_project(str(tmp_path / "project"))
    with Store.open(f"{place}/data") as store:
        take(store, project)
        put(f"{project}/d1/f1", "changed")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        with pytest.raises(StoreUnusable) as caught:
            take(store, project)
        assert "Read-only file system" in caught.value.what
        assert caught.value.advice() == ("Make the place writable; the next turn tries again",)
        assert len(store.checkpoints(project)) == 1


@pytest.mark.parametrize(
    "missing",
    ["refs/heads", "refs", "HEAD", "config", "info", "objects/info", "objects/pack", "refs/safekept"],
)
def test_missing_pieces_are_made_again_and_the_next_take_is_whole(tmp_path, missing):
    """#94257: `refs/heads` missing made every project "not a git repository", for ever."""
    project = make_project(str(tmp_path / "project"))
    data = str(tmp_path / "data")
    take_once(data, project)
    path = os.path.join(data, "store", missing)
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    said = []
    with Store.open(data, listener=said.append) as store:
        assert any(missing in event.text for event in said)
        done = take(store, project)
        on_disk = tree_on_disk(project)
        del on_disk["x.tmp"]
        assert tree_in_store(store, done.checkpoint or done.latest) == on_disk
        if missing != "objects/pack":  # there the first checkpoint itself is gone, and git says so
            fsck(store)


@pytest.mark.parametrize("name", ["packed-refs.lock", "HEAD.lock", "config.lock"])
def test_a_stale_lock_of_a_killed_git_wedges_nothing(tmp_path, name):
    """#107149: one killed git left a lock, and every checkpoint failed from then on."""
    project = make_project(str(tmp_path / "project"))
    data = str(tmp_path / "data")
    take_once(data, project)
    lock = put(os.path.join(data, "store", name), "")
    put(f"{project}/d1/f1", "changed")
    with Store.open(data) as store:
        assert os.path.exists(lock), "a lock that may be held is left alone"
        assert take(store, project).checkpoint is not None, "and is in nobody's way"
    os.utime(lock, (time.time() - 4000,) * 2)
    with Store.open(data):
        assert not os.path.exists(lock)


def test_a_taker_that_hangs_is_named_and_one_that_died_is_not_waited_for(tmp_path):
    from safekept.checkpoints.take.taking import project_lock
    from safekept.core.locks import AlreadyRunning

    project = make_project(str(tmp_path / "project"))
    with Store.open(str(tmp_path / "data")) as store:
        place = store.project_directory(project)
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            with project_lock(place, "taking a checkpoint", 0):
                os.write(tell, b"x")
                time.sleep(60)
            os._exit(0)
        os.read(ready, 1)
        try:
            with pytest.raises(AlreadyRunning, match=f"Process {pid}"):
                take(store, project, settings=TakeSettings(lock_wait=0.1))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ready)
            os.close(tell)
        assert take(store, project, settings=TakeSettings(lock_wait=0.1)).checkpoint is not None


@pytest.mark.parametrize("damage", ["torn", "flipped", "emptied", "foreign", "appended"])
def test_a_damaged_cache_costs_time_and_never_truth(tmp_path, damage):
    project = make_project(str(tmp_path / "project"))
    with Store.open(str(tmp_path / "data")) as store:
        take(store, project)
        put(f"{project}/d1/f1", "changed")
        take(store, project)
        path = os.path.join(store.project_directory(project), "cache")
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if damage == "torn":
            data = data[: len(data) * 2 // 3]
        elif damage == "flipped":
            data[len(data) // 2] ^= 0x10
        elif damage == "emptied":
            data = bytearray()
        elif damage == "foreign":
            data = bytearray(b"PK\3\4" + bytes(100))
        else:
            data += os.urandom(50)
        put(path, bytes(data))
        put(f"{project}/d2/f2", "later")
        done = take(store, project).checkpoint
        on_disk = tree_on_disk(project)
        del on_disk["x.tmp"]
        assert tree_in_store(store, done) == on_disk
        settle(project)
        take(store, project)
        assert take(store, project).read == 0
        fsck(store)


def test_lost_objects_are_read_anew_and_other_projects_are_not_touched(tmp_path):
    one = make_project(str(tmp_path / "one"))
    two = make_project(str(tmp_path / "two"))
    put(f"{two}/d1/own", "of two")
    with Store.open(str(tmp_path / "data")) as store:
        take(store, one)
        before = store.objects.pack_names()
        two_point = take(store, two).checkpoint
        put(f"{one}/d1/f1", "changed")
        take(store, one)
        (lost,) = before
        for suffix in (".pack", ".idx"):
            os.unlink(os.path.join(store.objects.pack_directory, lost + suffix))
    said = []
    with Store.open(str(tmp_path / "data")) as store:
        assert contents_in_store(store, two_point)["d1/own"] == b"of two"
        assert take(store, two).remarks == ()
        put(f"{one}/d2/f2", "again")
        done = take(store, one, listener=said.append)
        assert "are missing: everything is read again" in done.remarks[0]
        on_disk = tree_on_disk(one)
        del on_disk["x.tmp"]
        assert tree_in_store(store, done.checkpoint) == on_disk
        assert take(store, one).remarks == ()


def test_a_dropped_base_makes_the_next_take_stand_alone(tmp_path):
    """The cache is worth nothing once the checkpoint it describes is gone with its objects."""
    project = make_project(str(tmp_path / "project"))
    with Store.open(str(tmp_path / "data")) as store:
        point = take(store, project).checkpoint
        store.drop([point])
        assert store.checkpoints(project) == []
        assert run_plain_git(store, "repack", "-a", "-d").returncode == 0
        assert run_plain_git(store, "prune", "--expire=now").returncode == 0
        for name in os.listdir(store.objects.pack_directory):
            os.unlink(os.path.join(store.objects.pack_directory, name))
        store.objects.close()
        again = take(store, project).checkpoint
        assert tree_in_store(store, again).keys() == {*tree_on_disk(project)} - {"x.tmp"}
        fsck(store)


def test_a_broken_ref_of_one_project_hides_nothing_else(tmp_path):
    one, two = (make_project(str(tmp_path / name)) for name in ("one", "two"))
    with Store.open(str(tmp_path / "data")) as store:
        first, second = take(store, one).checkpoint, take(store, two).checkpoint
        refs = os.path.join(store.repository, "refs", "safekept", project_id(one))
        put(os.path.join(refs, "0" * 12), "not a commit\n")
        put(os.path.join(refs, "1" * 12), "a" * 40 + "\n")
        said = []
        with Store.open(store.directory, listener=said.append) as again:
            assert again.checkpoints(one) == [first]
            assert again.checkpoints(two) == [second]
            assert sorted(again.projects()) == sorted([one, two])
            assert any("111111111111 is damaged" in event.text for event in said)
