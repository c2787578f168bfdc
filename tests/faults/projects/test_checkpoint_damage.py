"""A store whose packs are damaged: the next take sees it, stores anew, and says so."""

from __future__ import annotations

import glob
import os
import shutil

import pytest

from safekept.checkpoints.checkpoint import CheckpointDamaged
from safekept.checkpoints.scan.trust import read_record
from safekept.checkpoints.store.damage import read_damage
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings, take
from support.projects.checkpoints import contents_in_store, put, settle

QUICK = TakeSettings(durable=False)


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "data")) as opened:
        yield opened


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    for number in range(120):
        put(f"{place}/d{number % 3}/f{number}", f"content {number} " * 50)
    return place


def packs(store: Store) -> list[str]:
    return sorted(glob.glob(f"{store.repository}/objects/pack/*.pack"))


def truncate(path: str) -> None:
    os.chmod(path, 0o600)
    os.truncate(path, os.path.getsize(path) // 2)


def zero_index(path: str) -> None:
    path = path[:-5] + ".idx"
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"\0" * 100)


def flip(path: str) -> None:
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(40)
        file.write(os.urandom(8))


def flip_unseen(path: str) -> None:
    """As a disk does it: no time and no size tells of it."""
    facts = os.stat(path)
    flip(path)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("how", [truncate, zero_index, flip])
def test_the_take_after_damage_is_whole_again_and_says_so(store, project, how):
    take(store, project, settings=QUICK)
    put(f"{project}/d0/f0", "changed")
    take(store, project, settings=QUICK)
    for path in packs(store):
        how(path)
    with Store.open(store.directory) as fresh:
        put(f"{project}/d1/f1", "changed again")
        settle(project)
        done = take(fresh, project, settings=QUICK)
        assert any("everything is read again" in remark for remark in done.remarks)
        assert len(read_damage(store.directory).packs) == 2
    with Store.open(store.directory) as fresh:
        content = contents_in_store(fresh, done.checkpoint)
        assert content["d1/f1"] == b"changed again" and len(content) == 120
        assert content["d0/f0"] == b"changed"
        put(f"{project}/d2/f2", "and again")
        again = take(fresh, project, settings=QUICK)
        assert again.read == 1 and again.remarks == (), "once is enough"
        assert len(contents_in_store(fresh, again.checkpoint)) == 120


def test_damage_that_a_reader_meets_makes_the_next_take_store_anew(store, project):
    first = take(store, project, settings=QUICK).checkpoint
    flip_unseen(packs(store)[0])
    with Store.open(store.directory) as fresh, pytest.raises(CheckpointDamaged):
        contents_in_store(fresh, first)
    with Store.open(store.directory) as fresh:
        put(f"{project}/d1/f1", "changed")
        done = take(fresh, project, settings=QUICK)
    with Store.open(store.directory) as fresh:
        assert contents_in_store(fresh, done.checkpoint)["d1/f1"] == b"changed"
        assert len(contents_in_store(fresh, done.checkpoint)) == 120


def test_of_two_copies_the_sound_one_is_read(store, project, tmp_path):
    """What was stored anew brings the older points back, too."""
    first = take(store, project, settings=QUICK).checkpoint
    flip(packs(store)[0])
    with Store.open(store.directory) as fresh:
        take(fresh, project, settings=QUICK, always=True)
    with Store.open(store.directory) as fresh:
        assert len(contents_in_store(fresh, first)) == 120


def test_another_project_does_not_build_on_a_pack_that_is_known_as_damaged(store, project, tmp_path):
    take(store, project, settings=QUICK)
    flip(packs(store)[0])
    with Store.open(store.directory) as fresh:
        put(f"{project}/new", "1")
        take(fresh, project, settings=QUICK)
        recorded = read_record(fresh.project_directory(project))
        assert not recorded.packs.keys() & read_damage(store.directory).packs.keys()
    twin = str(tmp_path / "twin")
    shutil.copytree(project, twin)
    with Store.open(store.directory) as fresh:
        done = take(fresh, twin, settings=QUICK)
        assert len(contents_in_store(fresh, done.checkpoint)) == 121


def test_a_pack_whose_times_alone_changed_is_trusted_after_one_look(store, project):
    take(store, project, settings=QUICK)
    os.utime(packs(store)[0])
    put(f"{project}/new", "1")
    done = take(store, project, settings=QUICK)
    assert done.remarks == () and done.written < 10_000
    assert read_damage(store.directory).packs == {}


def test_a_pack_that_maintenance_takes_away_meanwhile_is_not_called_damaged(store, project, monkeypatch):
    take(store, project, settings=QUICK)
    stale, real = [store.objects.pack_names()], store.objects.pack_names
    monkeypatch.setattr(store.objects, "pack_names", lambda: stale.pop() if stale else real())
    for path in packs(store):
        os.rename(path, f"{path}-aside")
    put(f"{project}/new", "1")
    done = take(store, project, settings=QUICK)
    assert read_damage(store.directory).packs == {}
    monkeypatch.undo()
    with Store.open(store.directory) as fresh:
        assert len(contents_in_store(fresh, done.checkpoint)) == 121
