"""Maintenance under fire: killed at any step, and beside many writers, it loses nothing that was taken."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from safekept.checkpoints.upkeep.dropping import drop_checkpoints
from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings, read_upkeep, run_maintenance
from support.faults.kill_points import count_steps, run_killed
from support.places import TESTS
from support.projects.checkpoint_worker import KEPT
from support.projects.checkpoints import contents_in_store, fsck, put, run_plain_git
from support.vault.closed import open_below

WORKER = os.path.join(TESTS, "support", "projects", "checkpoint_worker.py")
TWO_HOURS = 7200


@pytest.fixture
def template(tmp_path):
    """A store with packs to join, refs to gather, and garbage that is past its grace; and what must stay."""
    base = str(tmp_path / "template")
    project = str(tmp_path / "project")
    data = os.path.join(base, "data", "safekept", "checkpoints")
    with Store.open(data) as store:
        for number in range(44):
            put(os.path.join(project, "src", "main.py"), f"turn {number}\n" * 50)
            put(os.path.join(project, f"f{number}.bin"), random.Random(number).randbytes(2000))
            if number > 3:
                os.unlink(os.path.join(project, f"f{number - 3}.bin"))
            take(store, project, reason=f"turn {number}")
        drop_checkpoints(store, store.checkpoints(project)[38:], time.time_ns() - TWO_HOURS * 10**9)
        held = {point.id: contents_in_store(store, point) for point in store.checkpoints(project)}
        for directory, _, names in os.walk(os.path.join(store.repository, "objects")):
            for name in names:
                os.utime(os.path.join(directory, name), (time.time() - TWO_HOURS,) * 2)
    return base, project, held


def environment_of(base: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **keep,
        "HOME": base,
        "HERMES_HOME": os.path.join(base, ".hermes"),
        "XDG_DATA_HOME": os.path.join(base, "data"),
        "SAFEKEPT_CHECKPOINTS_MAX_SNAPSHOTS": "36",
        "PYTHONUTF8": "1",
    }


def check_everything(base: str, project: str, held: dict[str, dict[str, bytes]]) -> None:
    """Every checkpoint that has not been dropped by the limit reads as it did; plain git agrees."""
    with Store.open(os.path.join(base, "data", "safekept", "checkpoints")) as store:
        points = store.checkpoints(project)
        assert len(points) >= 36
        newest = sorted(held)[-36:]
        assert {point.id for point in points} >= set(newest)
        for point in points:
            assert contents_in_store(store, point) == held[point.id], point.id
        fsck(store)


def kill_at(template, tmp_path, point: int) -> int:
    base, project, held = template
    copy = str(tmp_path / f"killed-{point}")
    shutil.copytree(base, copy, symlinks=True)
    command = ["checkpoint", "prune", "--yes"]
    killed = run_killed(command, environment_of(copy), point)
    check_everything(copy, project, held)
    data = os.path.join(copy, "data", "safekept", "checkpoints")
    done = run_killed(command, environment_of(copy), 0)
    assert done.returncode == 0, done.stderr
    check_everything(copy, project, held)
    assert not os.path.exists(os.path.join(data, "quarantine"))
    shutil.rmtree(open_below(copy))
    return killed.returncode


def steps_of(template, tmp_path) -> int:
    """How many steps there are in any case: two runs differ by a few, and every kill must be one."""
    copy = str(tmp_path / "counted")
    shutil.copytree(template[0], copy, symlinks=True)
    steps = count_steps(["checkpoint", "prune", "--yes"], environment_of(copy), str(tmp_path / "steps"))
    return steps - 12


def test_killed_at_any_step_maintenance_loses_no_checkpoint_and_the_next_run_finishes(template, tmp_path):
    steps = steps_of(template, tmp_path)
    assert steps > 60, "there is too little to kill"
    for point in random.Random(4).sample(range(1, steps), 8):
        assert kill_at(template, tmp_path, point) == -9


@pytest.mark.soak("checkpoints")
def test_killed_at_every_step_maintenance_loses_no_checkpoint(template, tmp_path):
    steps = steps_of(template, tmp_path)
    points = range(1, steps) if steps <= 160 else sorted(random.Random(4).sample(range(1, steps), 160))
    for point in points:
        assert kill_at(template, tmp_path, point) == -9, point


def test_a_git_that_is_killed_while_it_packs_leaves_nothing_that_stays(template, tmp_path):
    """#115410: the leftover of a killed pack-objects is swept, and the run after it succeeds."""
    base, project, held = template
    data = os.path.join(base, "data", "safekept", "checkpoints")
    left = put(os.path.join(data, "store", "objects", "pack", "tmp_pack_killed"), b"PACK" + b"\0" * 5000)
    os.utime(left, (time.time() - TWO_HOURS,) * 2)
    run_maintenance(data, MaintenanceSettings(grace_seconds=0, min_interval_seconds=0))
    assert not os.path.exists(left)
    with Store.open(data) as store:
        for point in store.checkpoints(project):
            assert contents_in_store(store, point) == held[point.id]


# ── the storm ─────────────────────────────────────────────────────────────────────────────────────


def storm(tmp_path, workers: int, projects: int, seconds: float) -> None:
    store = str(tmp_path / "storm")
    places = [str(tmp_path / f"project-{number}") for number in range(projects)]
    for place in places:
        for number in range(20):
            put(os.path.join(place, f"d{number % 3}", f"f{number}.txt"), f"{place} {number}\n" * 20)
    Store.open(store).close()
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in range(workers + 2):
        role = "taker" if number < workers else "keeper"
        place = places[number % projects]
        log = str(tmp_path / f"log-{number}")
        words = [sys.executable, WORKER, role, store, place, str(number), str(seconds), log]
        running.append(subprocess.Popen(words, env=environment, stderr=subprocess.PIPE))
    for number, process in enumerate(running):
        _, said = process.communicate(timeout=seconds + 600)
        assert process.returncode in (0, -9), (number, said.decode()[-2000:])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(store, "maintenance-started"))
    judge(tmp_path, store, places, workers)


def lost_of(reported: set[str], left: set[str]) -> list[str]:
    """Reported points that are gone although the limit cannot have taken them.

    The limit keeps the newest KEPT at any time, so whatever is among the newest of all that were ever seen
    must be there. Two less than KEPT: ids of one millisecond do not sort by time.
    """
    newest = sorted(reported | left)[-(KEPT - 2) :]
    return [name for name in newest if name in reported and name not in left]


def test_the_judge_of_the_storm_sees_a_single_loss():
    names = {f"{number:012d}" for number in range(100)}
    kept = set(sorted(names)[-KEPT:])
    assert lost_of(names, kept) == []
    for gone in sorted(kept)[2:]:
        assert lost_of(names, kept - {gone}) == [gone]


def judge(tmp_path, store: str, places: list[str], workers: int) -> None:
    reported: dict[str, tuple[str, str]] = {}
    of_place: dict[str, set[str]] = {place: set() for place in places}
    for number in range(workers):
        with open(tmp_path / f"log-{number}", encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                reported[entry["id"]] = (entry["file"], entry["text"])
                of_place[places[number % len(places)]].add(entry["id"])
    assert len(reported) > workers, "the storm took nothing"
    with Store.open(store) as opened:
        for place in places:
            points = opened.checkpoints(place)
            lost = lost_of(of_place[place], {point.id for point in points})
            assert lost == [], f"{len(lost)} that were reported and within the limit are gone"
            for point in points:
                content = contents_in_store(opened, point)
                if point.id in reported:
                    name, text = reported[point.id]
                    assert content[name].decode() == text, point.id
        refs = run_plain_git(opened, "for-each-ref", "refs/safekept").stdout.splitlines()
        assert len(refs) == sum(len(opened.checkpoints(place)) for place in places), "a ref leads nowhere"
        fsck(opened)
        upkeep = run_maintenance(store, MaintenanceSettings(grace_seconds=0, min_interval_seconds=0))
        assert (upkeep.failures, upkeep.damage) == (0, {})
        opened.objects.close()
        for place in places:
            for point in opened.checkpoints(place):
                contents_in_store(opened, point)
        fsck(opened)
    assert read_upkeep(store).failures == 0


def test_many_writers_and_two_maintainers_lose_nothing_that_was_reported(tmp_path):
    storm(tmp_path, workers=4, projects=2, seconds=3)


@pytest.mark.soak("checkpoints")
def test_sixteen_writers_and_maintenance_for_two_minutes(tmp_path):
    storm(tmp_path, workers=16, projects=5, seconds=120)


@pytest.mark.soak("checkpoints")
def test_sixteen_writers_in_one_project(tmp_path):
    storm(tmp_path, workers=16, projects=1, seconds=30)
