"""Rows of facts/field-failures.md about size, pruning and the health of the store (H, and V-35, V-36).

Where a row can be run on Hermes 0.19.0, the same scenario runs there as a strict expected failure. Rows
without a run of their own here, and why:

- #79334, #112063, #51939: decisions without a disk; see tests/unit/checkpoints/test_checkpoint_retention.py.
- #65349, #65354, #62 of the peers: a race; reproduced in test_maintenance.py, and by the storm of
  tests/faults/projects/test_checkpoint_maintenance.py.
- #115410, #115416: kill points; tests/faults/projects/test_checkpoint_maintenance.py.
- #83036 (stall), #112063 (stall), V-29: time; `./bench checkpoints` measures that turn on both.
- #93314: no directory of the store is ever swapped, so there is nothing to run.
- #16303, #20709: the store before 0.19.0; that projects share objects is shown here for both.
- #109787, #109958, #81499: two definitions of an orphan upstream; that there is one is shown here on ours.
- #112150, #58172: a migration of Hermes's settings, and the repository of its installation.
- RedWoodOG #52/#53: another project; the store is never part of a project, see the tests of taking.
- #47612: in test_field_failures_rollback.py. #97714, #44658, #109331, #96962, #63366: the curator of skills.
- #22841: settings; tests/unit/test_checkpoint_settings.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from safekept.checkpoints.take.taking import TakeSettings, take
from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings, run_maintenance
from safekept.checkpoints.upkeep.retention import Limits
from support.projects.checkpoints import put
from support.projects.hermes_checkpoints import Hermes, Safekept, System

MEGABYTE = 1 << 20


def on_both(why: str) -> pytest.MarkDecorator:
    """Runs on safekept, and on Hermes, where it must fail for the reason given."""
    failing = pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"Hermes 0.19.0: {why}")
    return pytest.mark.parametrize(
        "system", ["safekept", pytest.param("hermes", marks=failing)], indirect=True
    )


def on_both_sound() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("system", ["safekept", "hermes"], indirect=True)


class Capped(Safekept):
    """safekept with limits, and with maintenance after every checkpoint, without waiting for any grace."""

    def __init__(
        self, base: str, max_snapshots: int = 0, max_total_size_mb: int = 0, max_file_size_mb: int = 10
    ):
        super().__init__(base)
        limits = Limits(max_snapshots, max_total_size_mb * 1_000_000)
        self.keeping = MaintenanceSettings(limits, min_interval_seconds=0, grace_seconds=0)
        self.taking = TakeSettings(max_file_size=max_file_size_mb * MEGABYTE)

    def take(self, project: str, *named: str) -> str:
        store = self.project(project).store
        point = take(store, project, reason="before write_file", settings=self.taking, always=True).checkpoint
        assert point is not None
        run_maintenance(store.directory, self.keeping)
        return point.id


@pytest.fixture
def system(request: pytest.FixtureRequest, tmp_path) -> Iterator[System]:
    settings = getattr(request.function, "settings", {})
    made: System
    if request.param == "hermes":
        made = Hermes(request.getfixturevalue("hermes_python"), str(tmp_path / "user"), **settings)
    else:
        made = Capped(str(tmp_path), **settings)
    yield made
    made.close()


def store_of(system: System, tmp_path, project: str) -> str:
    if isinstance(system, Safekept):
        return system.project(project).store.directory
    return str(tmp_path / "user" / ".hermes" / "checkpoints")


def size_of(directory: str) -> int:
    total = 0
    for place, _, names in os.walk(directory):
        total += sum(os.lstat(os.path.join(place, name)).st_size for name in names)
    return total


@pytest.fixture
def project(tmp_path) -> str:
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "main.py"), "one\n")
    return place


def with_settings(**settings: int):
    def mark(function):
        function.settings = settings
        return function

    return mark


@on_both("crossing the cap wipes the history of every project down to one checkpoint each")
@with_settings(max_snapshots=100, max_total_size_mb=3)
def test_v33_crossing_the_size_cap_costs_the_oldest_and_not_everybodys_history(system, tmp_path):
    chance = random.Random(33)
    places = [os.path.realpath(tmp_path / f"project-{number}") for number in range(3)]
    for place in places:
        put(os.path.join(place, "pyproject.toml"), "")
    for turn in range(5):
        for place in places:
            put(os.path.join(place, "data.bin"), chance.randbytes(230_000))
            system.take(place)
    left = [len(system.list(place)) for place in places]
    assert sum(left) >= 9, f"of 15 checkpoints {left} are left under a cap that holds twelve"
    assert size_of(store_of(system, tmp_path, places[0])) < 4_000_000, "and the cap does not hold"


@on_both("the size is looked at after the file was stored")
@with_settings(max_file_size_mb=1)
def test_v35_a_file_over_the_limit_is_never_written_into_the_store(system, tmp_path, project):
    system.take(project)
    for turn in range(2):
        put(os.path.join(project, "big.bin"), random.Random(turn).randbytes(3 * MEGABYTE))
        put(os.path.join(project, "main.py"), f"turn {turn}\n")
        system.take(project)
    assert size_of(store_of(system, tmp_path, project)) < MEGABYTE


@on_both("the store is made with the umask's modes")
def test_v36_nobody_else_can_enter_the_store(system, tmp_path, project):
    previous = os.umask(0o022)
    try:
        system.take(project)
    finally:
        os.umask(previous)
    store = store_of(system, tmp_path, project)
    open_to_others = [place for place, _, _ in os.walk(store) if os.stat(place).st_mode & 0o077]
    assert open_to_others == []


@on_both("one dangling ref makes every gc fail, so nothing is ever reclaimed")
@with_settings(max_snapshots=2)
def test_109074_a_dangling_ref_does_not_stop_reclamation(system, tmp_path, project):
    for turn in range(5):
        put(os.path.join(project, "data.bin"), random.Random(turn).randbytes(MEGABYTE))
        system.take(project)
        if turn == 0:
            store = store_of(system, tmp_path, project)
            name = "refs/hermes/ffffffffffffffff"
            if isinstance(system, Safekept):
                name = f"refs/safekept/{'f' * 16}/000000000aaa"
            put(os.path.join(store, "store", name), "1" * 40 + "\n")
    if isinstance(system, Capped):
        known_damage(system, project)
    assert size_of(store_of(system, tmp_path, project)) < 3.5 * MEGABYTE


def known_damage(system: Capped, project: str) -> None:
    """A day later: damage that lasts is worked around; at first nothing is deleted beside it."""
    directory = system.project(project).store.directory
    path = os.path.join(directory, "maintenance.json")
    with open(path) as file:
        fields = json.load(file)
    assert fields["damage"], "the dangling ref was not noticed"
    fields["damage"] = {name: since - 90_000 for name, since in fields["damage"].items()}
    put(path, json.dumps(fields))
    for place, _, names in os.walk(os.path.join(directory, "store", "objects")):
        for name in names:
            os.utime(os.path.join(place, name), (time.time() - 7200,) * 2)
    run_maintenance(directory, system.keeping, thorough=True)


@on_both_sound()
@with_settings(max_snapshots=1)
def test_83036_leftovers_of_killed_packing_are_swept(system, tmp_path, project):
    """Hermes sweeps them too, as long as its gc succeeds; where it cannot, see #109074."""
    system.take(project)
    store = store_of(system, tmp_path, project)
    left = put(os.path.join(store, "store", "objects", "pack", "tmp_pack_killed"), b"PACK" * 1000)
    os.utime(left, (time.time() - 7200,) * 2)
    put(os.path.join(project, "main.py"), "two\n")
    system.take(project)
    assert not os.path.exists(left)


@on_both_sound()
def test_16303_two_copies_of_a_project_share_their_objects(system, tmp_path, project):
    put(os.path.join(project, "data.bin"), random.Random(1).randbytes(MEGABYTE))
    system.take(project)
    copy = os.path.realpath(tmp_path / "worktree")
    shutil.copytree(project, copy)
    system.take(copy)
    if isinstance(system, Capped):  # joined with the next maintenance
        run_maintenance(system.project(copy).store.directory, system.keeping, thorough=True)
    assert size_of(store_of(system, tmp_path, project)) < 1.5 * MEGABYTE


# ── whole commands, ours and theirs ───────────────────────────────────────────────────────────────


def prune(system: System, tmp_path, hermes: str, safekept, *words: str) -> str:
    """The system's own command."""
    if isinstance(system, Hermes):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "user"),
                       "HERMES_HOME": str(tmp_path / "user" / ".hermes")}  # fmt: skip
        done = subprocess.run([hermes, "checkpoints", "prune", *words], env=environment, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout
    data = str(tmp_path / "xdg")
    place = os.path.join(data, "safekept", "checkpoints")
    if not os.path.exists(place):
        os.makedirs(os.path.dirname(place))
        shutil.copytree(str(next(iter(system._projects.values())).store.directory), place)  # type: ignore[attr-defined]
    done = safekept("checkpoint", "prune", "--yes", *words, env={"XDG_DATA_HOME": data})
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def left_after(system: System, tmp_path, project: str, safekept) -> int:
    if isinstance(system, Hermes):
        return len(system.list(project))
    done = safekept("checkpoint", "status", "--json", env={"XDG_DATA_HOME": str(tmp_path / "xdg")})
    return sum(one["checkpoints"] for one in json.loads(done.stdout)["projects"])


@on_both("a path that is not found counts as deleted")
def test_69063_an_unplugged_drive_is_no_orphan(system, tmp_path, hermes, safekept):
    disk = os.path.realpath(tmp_path / "media" / "disk")
    project = os.path.join(disk, "project")
    put(os.path.join(project, "pyproject.toml"), "")
    system.take(project)
    prune(system, tmp_path, hermes, safekept)
    os.rename(disk, disk + "-unplugged")
    os.mkdir(disk)  # the empty mount point
    said = prune(system, tmp_path, hermes, safekept)
    os.rmdir(disk)
    os.rename(disk + "-unplugged", disk)
    assert left_after(system, tmp_path, project, safekept) == 1
    assert "Kept" in said and "not the directory that held it" in said


@on_both("retention goes by the last touch of the project, and takes everything")
def test_v34_a_live_project_that_rested_for_weeks_keeps_its_newest(
    system, tmp_path, hermes, safekept, project
):
    for turn in range(3):
        put(os.path.join(project, "main.py"), f"turn {turn}\n")
        system.take(project)
    if isinstance(system, Hermes):
        records = tmp_path / "user" / ".hermes" / "checkpoints" / "store" / "projects"
        for name in os.listdir(records):
            with open(records / name) as file:
                fields = json.load(file)
            put(str(records / name), json.dumps({**fields, "last_touch": time.time() - 40 * 86_400}))
        prune(system, tmp_path, hermes, safekept, "--retention-days", "7")
    else:
        time.sleep(0.02)
        prune(system, tmp_path, hermes, safekept, "--retention-days", "0.0000001")
    assert left_after(system, tmp_path, project, safekept) >= 1


def test_109787_status_and_prune_agree_on_what_is_an_orphan_and_say_why(safekept, tmp_path):
    data = {"XDG_DATA_HOME": str(tmp_path / "xdg")}
    gone, away, lives = (str(tmp_path / name / "project") for name in ("gone", "away", "lives"))
    for place in (gone, away, lives):
        put(os.path.join(place, "pyproject.toml"), "")
        assert safekept("checkpoint", place, env=data).returncode == 0
    safekept("checkpoint", "status", env=data)
    shutil.rmtree(gone)
    shutil.rmtree(os.path.dirname(away))
    found = json.loads(safekept("checkpoint", "status", "--json", env=data).stdout)["projects"]
    states = {one["project"]: one["presence"] for one in found}
    assert states == {gone: "orphan", away: "unreachable", lives: "live"}
    kept = safekept("checkpoint", "prune", "--yes", "--keep-orphans", "--json", env=data)
    assert json.loads(kept.stdout)["dropped"] == 0
    shown = safekept("checkpoint", "prune", "--dry-run", env=data).stdout
    assert f"Orphan     {gone}" in shown and f"Kept       {away}" in shown
    done = json.loads(safekept("checkpoint", "prune", "--yes", "--json", env=data).stdout)
    assert done["plan"]["orphans"] == [gone]
    left = json.loads(safekept("checkpoint", "status", "--json", env=data).stdout)["projects"]
    assert {one["project"] for one in left} == {away, lives}
