"""What lies off this machine is drilled where it lies, and nothing is written there."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.offsite.archives_there import host_directory
from safekept.actions.offsite.place import NoSuchDestination
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from support.offsite.pushes import with_disk
from support.restoring.drills import (
    build,
    drilled,
    failed,
    files_of,
    flip,
    rewrite,
    states,
    with_copied_vault,
)
from support.vault.snapshots import opened


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("built")))


@pytest.fixture
def here(built, tmp_path):
    here = with_disk(with_copied_vault(built, str(tmp_path)), tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    os.makedirs(here.places.data_directory, mode=0o700)
    with opened(here) as repository:
        acknowledged = {"version": 1, "vaults": {repository.id: {"acknowledged": 1.0}}}
    with open(os.path.join(here.places.data_directory, "kits.json"), "w", encoding="ascii") as file:
        json.dump(acknowledged, file)
    push(here, PushRequest("disk"))
    return here


def everything_below(path):
    found = {}
    for directory, _, names in os.walk(path):
        for name in names:
            full = os.path.join(directory, name)
            with open(full, "rb") as file:
                found[full] = file.read()
    return found


def test_a_copy_elsewhere_is_proven_and_not_written_to(here, built, tmp_path):
    before = everything_below(tmp_path / "disk")
    done = drilled(here, home=built.home, destination="disk")
    told = states(done.receipt)
    assert told.pop("agent") == "left out"
    assert set(told.values()) == {"passed"}, done.receipt.rows
    assert done.receipt.subject == "destination"
    assert done.receipt.store == "disk"
    assert everything_below(tmp_path / "disk") == before


def test_damage_of_the_copy_is_its_own_and_not_that_of_the_vault(here, built, tmp_path):
    for directory, _, names in os.walk(tmp_path / "disk"):
        for name in names:
            if os.path.basename(os.path.dirname(directory)) == "data":
                rewrite(os.path.join(directory, name), lambda data: data[: len(data) // 2])
    done = drilled(here, home=built.home, destination="disk")
    assert "store" in failed(done.receipt)
    (alarm,) = open_alarms(here)
    assert alarm.about == "disk"
    assert drilled(here, home=built.home).receipt.ok
    assert open_alarms(here) == (alarm,)  # that the vault is sound ends nothing


def test_a_snapshot_that_only_the_copy_lost_is_found_there(here, built, tmp_path):
    shutil.rmtree(os.path.join(here.places.vault, "snapshots"))
    os.mkdir(os.path.join(here.places.vault, "snapshots"))
    assert files_of(here, "snapshots") == []
    assert drilled(here, home=built.home, destination="disk").receipt.ok


def test_an_archive_elsewhere_is_fetched_and_drilled(here, built, tmp_path):
    place = tmp_path / "disk" / "archives" / host_directory()
    place.mkdir(parents=True)
    shutil.copy(built.zip, place / "b.zip")
    done = drilled(here, "b.zip", destination="disk")
    assert done.receipt.ok, done.receipt.rows
    assert (done.receipt.subject, done.receipt.name, done.receipt.store) == ("destination", "b.zip", "disk")
    flip(str(place / "b.zip"), 40_000)
    assert failed(drilled(here, "b.zip", destination="disk").receipt)
    assert os.listdir(os.path.join(here.places.data_directory, "scratch")) == []


def test_a_destination_that_nobody_described_is_an_error(here, built):
    with pytest.raises(NoSuchDestination):
        drilled(here, home=built.home, destination="nas")
