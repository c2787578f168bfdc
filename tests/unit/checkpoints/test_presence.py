"""A project counts as gone only on positive evidence."""

from __future__ import annotations

import os
import shutil

import pytest

from safekept.checkpoints.project import LIVE, ORPHAN, UNREACHABLE, presence, remember_place


@pytest.fixture
def place(tmp_path):
    project = tmp_path / "disk" / "code" / "project"
    project.mkdir(parents=True)
    records = tmp_path / "records"
    records.mkdir()
    remember_place(str(records), str(project))
    return str(records), str(project)


def test_a_project_that_is_there_is_live(place):
    assert presence(*place).state == LIVE


def test_a_deleted_project_is_an_orphan_and_the_reason_names_the_evidence(place):
    shutil.rmtree(place[1])
    found = presence(*place)
    assert found.state == ORPHAN
    assert "gone from" in found.reason and os.path.dirname(place[1]) in found.reason


def test_69063_a_missing_parent_means_unmounted_and_not_deleted(place):
    shutil.rmtree(os.path.dirname(place[1]))
    assert presence(*place).state == UNREACHABLE


def test_71000_an_empty_mount_point_in_place_of_the_disk_is_not_evidence(place):
    """The mount point of an unplugged drive: a directory of the same name, another inode."""
    parent = os.path.dirname(place[1])
    os.rename(parent, parent + "-elsewhere")
    os.mkdir(parent)
    found = presence(*place)
    assert found.state == UNREACHABLE
    assert "not the directory that held it" in found.reason


def test_a_real_unmounted_filesystem_is_unreachable(small_filesystem, tmp_path):
    import subprocess

    disk = small_filesystem(1024)
    project = os.path.join(disk, "project")
    os.mkdir(project)
    records = str(tmp_path / "records")
    os.mkdir(records)
    remember_place(records, project)
    subprocess.run(["umount", "--lazy", disk], check=True)
    try:
        assert presence(records, project).state == UNREACHABLE
    finally:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)
    assert presence(records, project).state == UNREACHABLE, "another disk in the same place is another disk"


def test_a_project_that_is_a_mount_point_may_only_be_unmounted(small_filesystem, tmp_path):
    import subprocess

    disk = small_filesystem(1024)
    records = str(tmp_path / "records")
    os.mkdir(records)
    remember_place(records, disk)
    subprocess.run(["umount", "--lazy", disk], check=True)
    os.rmdir(disk)
    try:
        assert presence(records, disk).state == UNREACHABLE
    finally:
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], check=True)


def test_a_project_never_seen_alive_is_not_called_an_orphan(tmp_path):
    assert presence(str(tmp_path), str(tmp_path / "gone")).state == UNREACHABLE


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"link"})
def test_something_else_in_its_place_is_not_deletion(place, kind):
    shutil.rmtree(place[1])
    if kind == "file":
        open(place[1], "w").close()
    else:
        os.symlink("/nowhere", place[1])
    found = presence(*place)
    assert found.state == UNREACHABLE
    assert "not a directory" in found.reason


def test_a_torn_record_is_no_evidence(place):
    with open(os.path.join(place[0], "place.json"), "w") as file:
        file.write('{"device": 1, "par')
    shutil.rmtree(place[1])
    assert presence(*place).state == UNREACHABLE
