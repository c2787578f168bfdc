"""A bare `undo` means what was done where a person stands, says so, and names what is newer elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from support.home.homes import make_hermes_home
from support.projects.checkpoints import put
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    return home


@pytest.fixture
def project(tmp_path, say):
    """A project that was broken, and was rolled back; its directory."""
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "src", "main.py"), "one\n")
    assert say("checkpoint", place).code == 0
    put(os.path.join(place, "src", "main.py"), "broken\n")
    assert say("rollback", "1", "--dir", place).code == 0
    return place


def restored(say, home):
    """A restore of one file of the home; the id of it."""
    put(os.path.join(home, "SOUL.md"), "mine")
    done = say("restore", "SOUL.md", "--yes", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["operation"]


def read(*parts):
    with open(os.path.join(*parts)) as file:
        return file.read()


def test_in_a_project_it_is_the_projects_last_rollback_and_the_newer_one_elsewhere_is_named(
    home, project, say, monkeypatch
):
    operation = restored(say, home)
    monkeypatch.chdir(os.path.join(project, "src"))
    plan = say("undo", "--dry-run").out.splitlines()
    assert plan[0].startswith("Would take back the rollback of ")
    assert plan[0].endswith(f" in {project}, where you are")
    assert plan[1].startswith("Not the newer restore of ")
    assert plan[1].endswith(f" in {home}; that one: `safekept undo {operation}`")
    assert read(project, "src", "main.py") == "one\n"
    done = say("undo")
    assert done.code == 0, done.err
    first, second = done.out.splitlines()[:2]
    assert first.startswith("Taking back the rollback of ") and first.endswith(", where you are")
    assert f"`safekept undo {operation}`" in second
    assert read(project, "src", "main.py") == "broken\n"
    assert read(home, "SOUL.md") != "mine", "the home was left alone"
    assert say("undo").code == 0
    assert read(project, "src", "main.py") == "one\n", "and again takes that back, here"
    assert say("undo", operation).code == 0
    assert read(home, "SOUL.md") == "mine", "the printed command means the other one"


def test_in_the_home_it_is_the_homes_last_change(home, say, monkeypatch, request):
    restored(say, home)
    place = request.getfixturevalue("project")  # rolled back after the restore
    monkeypatch.chdir(os.path.join(home, "memories"))
    document = json.loads(say("undo", "--dry-run", "--json").out)
    assert document["undoes"]["home"] == home
    assert document["newer_elsewhere"]["project"] == place
    done = say("undo")
    assert done.out.splitlines()[0].endswith(f" in {home}, where you are")
    assert read(home, "SOUL.md") == "mine"
    assert read(place, "src", "main.py") == "one\n"


def test_what_was_just_asked_for_here_is_meant_although_it_was_done_in_the_home(
    home, project, say, monkeypatch
):
    monkeypatch.chdir(project)
    operation = restored(say, home)
    first = say("undo", "--dry-run").out.splitlines()[0]
    assert first.startswith("Would take back the restore of ")
    assert first.endswith(f" in {home}, which was asked for here")
    undone = json.loads(say("undo", "--json").out)
    assert undone["undoes"]["operation"] == operation, "and not the older rollback of the project"
    assert undone["newer_elsewhere"] is None
    assert read(home, "SOUL.md") == "mine"
    again = json.loads(say("undo", "--json").out)
    assert again["undoes"]["operation"] == undone["operation"], "the undo was asked for here, too"
    assert read(home, "SOUL.md") != "mine"
    assert read(project, "src", "main.py") == "one\n"


def test_an_import_that_was_asked_for_here_is_meant_too(home, project, say, monkeypatch, tmp_path):
    archive = str(tmp_path / "a.zip")
    assert say("backup", "-o", archive).code == 0
    put(os.path.join(home, "SOUL.md"), "mine")
    monkeypatch.chdir(project)
    assert say("import", archive, "--only", "SOUL.md", "--force").code == 0
    assert say("undo").code == 0
    assert read(home, "SOUL.md") == "mine"


def test_elsewhere_it_is_the_last_change_of_all_and_the_first_line_says_where(home, project, say):
    restored(say, home)
    plan = say("undo", "--dry-run").out.splitlines()
    assert plan[0].startswith("Would take back the restore of ")
    assert plan[0].endswith(f" in {home}")
    done = say("undo").out.splitlines()
    assert done[0].startswith("Taking back the restore of ") and done[0].endswith(f" in {home}")
    assert "where you are" not in "\n".join(plan + done)
    assert not any(line.startswith("Not the newer") for line in plan + done)


def test_where_the_last_change_here_is_no_longer_kept_no_other_is_taken_and_the_newer_one_is_named(
    home, say, monkeypatch, request
):
    put(os.path.join(home, "SOUL.md"), "mine")
    lost = json.loads(say("restore", "SOUL.md", "--yes", "--json").out)
    shutil.rmtree(os.path.dirname(lost["landed"]["replaced_in"]))
    place = request.getfixturevalue("project")
    monkeypatch.chdir(home)
    refused = say("undo")
    assert refused.code == 1
    assert f"{lost['operation']} cannot be taken back: what it replaced is no longer kept" in refused.err
    newer = next(line for line in refused.err.splitlines() if "newer" in line)
    assert f"To take back the newer rollback in {place}: `safekept undo " in newer
    assert read(place, "src", "main.py") == "one\n"


def test_in_another_folder_no_project_is_changed_and_its_own_undo_is_named(
    project, say, monkeypatch, tmp_path
):
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.chdir(notes)
    refused = say("undo")
    assert refused.code == 1 and read(project, "src", "main.py") == "one\n"
    words = " ".join(refused.err.split())
    assert f"There is nothing to take back in `{notes}`" in words
    assert f"the last change is the rollback in `{project}`" in words
    command = re.search(r"To take that one back: `safekept (undo \S+)`", words)
    assert say(*command[1].split()).code == 0, "the printed command does it"
    assert read(project, "src", "main.py") == "broken\n"


def test_an_undo_says_how_to_go_further_back(home, say):
    first, second = restored(say, home), restored(say, home)
    last = say("undo").out.splitlines()[-1]
    further = "Further back? `safekept log` shows what was done; take one of these back: `safekept undo ID`"
    assert last == further
    assert second[-6:] in say("log").out
    assert say("undo", first).code == 0
    assert say("undo", "--dry-run").out.splitlines()[-1] == "Nothing was changed"
