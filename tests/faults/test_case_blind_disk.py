"""A real disk that ignores case and has no links, modes or odd names: nothing is written over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile

import pytest

from conftest import MISSING
from safekept.actions.projects.home_points.rollback import HomeRollbackRequest, roll_back_home
from safekept.actions.projects.home_points.take import before_home_change
from safekept.checkpoints.rollback import project_tree
from safekept.checkpoints.rollback.rollback import recover
from support.commands.in_process import spoken
from support.platforms.disks import NoSuchDisk, exfat, mounted_again
from support.projects.rollbacks import Project
from support.users.contexts import throwaway

TWINS = {"Notes.md": "upper", "notes.md": "lower", "caf\u00e9": "one sign", "cafe\u0301": "two signs"}
ODD = {"what?.md": "a question", os.fsdecode(b"raw-\xff"): "bytes", "plain.md": "plain"}


@pytest.fixture
def disk_at(request):
    """Mounts an exFAT over a directory: `disk_at(place)`."""
    work = tempfile.mkdtemp(prefix="sk-", dir="/tmp")
    request.addfinalizer(lambda: shutil.rmtree(work, ignore_errors=True))

    def mount(place: str) -> str:
        os.makedirs(place, exist_ok=True)
        disk = exfat(os.path.join(work, "image"), place, 256)
        try:
            disk.__enter__()
        except NoSuchDisk as error:
            pytest.skip(f"{MISSING}a disk that ignores case: {error}")
        request.addfinalizer(lambda: disk.__exit__(None, None, None))
        return place

    return mount


def fill(place: str) -> None:
    for name, text in {**TWINS, **ODD}.items():
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.symlink("plain.md", os.path.join(place, "link"))


def found_in(place: str) -> dict[str, str]:
    found = {}
    for name in os.listdir(place):
        if os.path.isfile(os.path.join(place, name)):
            with open(os.path.join(place, name), encoding="utf-8") as file:
                found[name] = file.read()
    return found


def test_a_restore_brings_all_that_the_disk_can_hold_names_the_rest_and_ends_with_3(
    tmp_path, monkeypatch, disk_at
):
    here = throwaway(tmp_path)
    say = spoken(monkeypatch, here.places.user_home)
    home = os.path.join(here.places.user_home, ".hermes")
    os.makedirs(os.path.join(home, "skills"))
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("model: test\n")
    fill(os.path.join(home, "skills"))
    assert say("snapshot", "create").code == 0
    place = os.path.join(disk_at(str(tmp_path / "disk")), "home")
    done = say("snapshot", "restore", "latest", "--into", place, "--yes", "--json")
    assert done.code == 3, done
    found = found_in(os.path.join(place, "skills"))
    # exFAT ignores case, and tells the two forms of a letter apart.
    forms = {name: TWINS[name] for name in list(TWINS)[2:]}
    assert found == {"Notes.md": "upper", "plain.md": "plain", **forms}
    lost = json.dumps(json.loads(done.out))
    for name in ("skills/notes.md", "skills/what?.md", "skills/link", "skills/raw-"):
        assert name in lost, (name, lost)


@pytest.mark.parametrize("text", ["then\n", "now, and longer\n"])
def test_an_exact_restore_takes_nothing_away_that_only_changed_the_case_of_its_name(
    tmp_path, monkeypatch, disk_at, text
):
    """`README` is what lands as `Readme`: as something that the snapshot lacks, it was removed again."""
    user = disk_at(str(tmp_path / "disk"))
    say = spoken(monkeypatch, user)
    skills = os.path.join(user, ".hermes", "skills")
    os.makedirs(os.path.join(skills, "Plants"))
    for name in ("../config.yaml", "Readme.md", "Plants/list.md"):
        with open(os.path.join(skills, name), "w") as file:
            file.write("then\n")
    assert say("snapshot", "create").code == 0
    os.rename(os.path.join(skills, "Readme.md"), os.path.join(skills, "README.md"))
    os.rename(os.path.join(skills, "Plants"), os.path.join(skills, "plants"))
    for name in ("README.md", "new.md"):
        with open(os.path.join(skills, name), "w") as file:
            file.write(text)
    planned = json.loads(say("snapshot", "restore", "latest", "--exact", "--dry-run", "--json").out)
    assert planned["plan"]["remove"] == ["skills/new.md"]
    done = say("snapshot", "restore", "latest", "--exact", "--yes", "--json")
    assert done.code == 0, done
    assert list(found_in(skills).values()) == ["then\n"]
    assert found_in(os.path.join(skills, "Plants")) == {"list.md": "then\n"}
    assert say("undo").code == 0
    assert list(found_in(skills).values()) == [text, text]


def test_so_does_going_back_to_a_point_of_an_agents_home(tmp_path, disk_at):
    user = throwaway(disk_at(str(tmp_path / "disk")))
    home = os.path.join(user.places.user_home, ".hermes")
    skills = os.path.join(home, "skills")
    os.makedirs(skills)
    for name in ("../config.yaml", "Readme.md"):
        with open(os.path.join(skills, name), "w") as file:
            file.write("then\n")
    point = before_home_change(user, home, "hermes", ("skills",))
    os.rename(os.path.join(skills, "Readme.md"), os.path.join(skills, "README.md"))
    for name in ("README.md", "new.md"):
        with open(os.path.join(skills, name), "w") as file:
            file.write("now, and longer\n")
    done = roll_back_home(user, HomeRollbackRequest(point.id, (), home))
    assert done.remove == ("skills/new.md",) and done.complete
    assert list(found_in(skills).values()) == ["then\n"]


def test_the_demo_plays_there(tmp_path, disk_at, safekept_process):
    done = safekept_process("demo", env={"TMPDIR": disk_at(str(tmp_path / "disk"))})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything came back" in done.stdout


def test_a_rollback_brings_all_that_the_disk_can_hold_and_lists_the_rest(tmp_path, disk_at):
    project = Project(str(tmp_path))
    fill(project.path)
    project.write("edited.txt", "then\n")
    point = project.before()
    shutil.rmtree(project.path)
    disk_at(project.path)
    project.write("edited.txt", "now, and longer\n")
    project.write("NOTES.md", "made since\n")
    result = project.back(point, overwrite_mine=True)
    left = {one.path: one.reason for one in result.left}
    assert not result.complete and project.leftovers() == []
    assert left["Notes.md"] == left["notes.md"] == left["NOTES.md"] == "case"
    assert left["link"] == "no-symlinks"
    assert left["what?.md"] == left[os.fsdecode(b"raw-\xff")] == "no-such-name"
    assert found_in(project.path) == {
        **{"NOTES.md": "made since\n", "edited.txt": "then\n", "plain.md": "plain"},
        **{name: TWINS[name] for name in list(TWINS)[2:]},
    }
    project.undo()
    assert project.read("edited.txt") == b"now, and longer\n"
    project.store.close()


@pytest.mark.parametrize("text", ["then\n", "now, and longer\n"])
def test_a_rollback_takes_nothing_away_that_only_changed_the_case_of_its_name(tmp_path, disk_at, text):
    """Nothing comes in its place then: to the disk, `Readme` is there already."""
    project = Project(str(tmp_path))
    disk_at(project.path)
    for name in ("Readme.md", "Plants/list.md"):
        project.write(name, "then\n")
    point = project.before()
    os.rename(project.full("Readme.md"), project.full("README.md"))
    os.rename(project.full("Plants"), project.full("plants"))
    for name in ("README.md", "plants/list.md"):
        project.write(name, text)
    result = project.back(point, overwrite_mine=True)
    assert {"README.md", "plants/list.md"} <= {one.path for one in result.left if one.reason == "case"}
    assert not result.complete
    assert project.read("README.md") == project.read("plants/list.md") == text.encode()
    project.store.close()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_rollback_that_a_power_cut_ended_is_finished_after_the_disk_was_mounted_again(
    tmp_path, monkeypatch, disk_at, number
):
    """Such a disk gives files new numbers each time it is mounted."""
    project = Project(str(tmp_path))
    disk_at(project.path)
    for name in ("one.txt", "two.txt"):
        project.write(name, "then\n")
    point = project.before()
    for name in ("one.txt", "two.txt"):
        project.write(name, "now, and longer\n")
    child = os.fork()
    if child == 0:
        seen, real = [], project_tree._rename

        def stopped(old, new):
            seen.append(new)
            if len(seen) == 3 + number:
                os.kill(os.getpid(), signal.SIGKILL)
            real(old, new)

        monkeypatch.setattr(project_tree, "_rename", stopped)
        try:
            project.back(point)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    mounted_again(project.path)
    found = recover(project.store, project.path, settings=project.settings)
    assert found is not None and found.how == "finished" and found.remarks == ()
    assert project.read("one.txt") == project.read("two.txt") == b"then\n"
    assert sorted(os.listdir(project.path)) == ["one.txt", "two.txt"]
    project.store.close()
