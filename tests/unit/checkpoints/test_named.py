"""Files that tools name: known as present or absent at every point, whatever became of their directory."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back, undo_rollback
from safekept.checkpoints.take.named import NAME
from safekept.checkpoints.take.taking import TakeSettings, take
from support.projects.checkpoints import contents_in_store, fsck, put

QUICK = TakeSettings(durable=False)
FEW = TakeSettings(durable=False, max_files=3)


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    put(f"{place}/.git/HEAD", "ref: refs/heads/main\n")
    put(f"{place}/a", "0")
    return place


def agent_of(store, settings=QUICK):
    agent = Checkpoints(store.directory, settings=settings)
    agent.new_turn("session", "1")
    return agent


def newest(store, project, kind):
    return next(point for point in store.checkpoints(project) if point.kind == kind)


def back(store, project, point, settings=QUICK):
    return roll_back(store, plan_rollback(store, project, point, settings=settings), settings=settings)


def test_a_named_take_sees_that_a_whole_directory_is_gone(store, project):
    put(f"{project}/sub/deep/x", "old")
    put(f"{project}/sub/y", "old")
    before = take(store, project, settings=QUICK).checkpoint
    shutil.rmtree(f"{project}/sub")
    done = take(store, project, named=[f"{project}/sub/deep/x"], settings=QUICK)
    state = store.state(done.checkpoint)
    assert set(state) == {"a"}, "what is below a missing directory is missing"
    assert state.knows("sub/deep/x") and state.knows("sub/y")
    assert (before.files, done.checkpoint.files) == (3, 1)
    again = take(store, project, settings=QUICK)
    assert again.latest.files == 1
    fsck(store)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_directory_that_became_a_file_or_a_link_is_recorded_as_that(store, project, tmp_path):
    put(f"{project}/one/x", "old")
    put(f"{project}/two/x", "old")
    take(store, project, settings=QUICK)
    shutil.rmtree(f"{project}/one")
    put(f"{project}/one", "a file")
    os.rename(f"{project}/two", f"{project}/three")
    os.symlink("three", f"{project}/two")
    done = take(store, project, named=["one/x"], settings=QUICK)
    assert contents_in_store(store, done.checkpoint)["one"] == b"a file"
    assert "one/x" not in store.state(done.checkpoint)
    fsck(store)


def test_over_the_limit_of_files_what_a_turn_deleted_comes_back(store, project):
    for number in range(6):
        put(f"{project}/f{number}")
    put(f"{project}/sub/x", "precious")
    agent = agent_of(store, FEW)
    agent.before([f"{project}/sub/x"], "rm -r")
    shutil.rmtree(f"{project}/sub")
    agent.after(wait=True)
    mark = newest(store, project, "after")
    assert store.state(mark).knows("sub/x") and "sub/x" not in store.state(mark)
    done = back(store, project, newest(store, project, "before"), FEW)
    assert done.left == []
    with open(f"{project}/sub/x") as file:
        assert file.read() == "precious"
    undo_rollback(store, project, settings=FEW)
    assert not os.path.exists(f"{project}/sub/x")


@pytest.mark.parametrize("name", ["new", "sub/new", "sub/deep/new"])
def test_without_a_marker_a_new_file_goes_and_comes_again(store, tmp_path, name):
    """Absent names below directories that were not there are looked at by marks and undo points."""
    place = str(tmp_path / "loose")
    put(f"{place}/a", "0")
    take(store, place, kind="before", named=["a", name], walked=False, settings=QUICK)
    put(f"{place}/a", "1")
    put(f"{place}/{name}", "new")
    mark = take(store, place, kind="after", named=[], full=True, walked=False, settings=QUICK).checkpoint
    assert contents_in_store(store, mark) == {"a": b"1", name: b"new"}
    back(store, place, newest(store, place, "before"))
    assert os.listdir(place) == ["a"], "the directories made for it are gone too"
    undo_rollback(store, place, settings=QUICK)
    with open(f"{place}/{name}") as file:
        assert file.read() == "new"


def test_an_after_mark_without_a_marker_speaks_for_a_vanished_directory(store, tmp_path):
    place = str(tmp_path / "loose")
    put(f"{place}/sub/x", "precious")
    take(store, place, kind="before", named=["sub/x"], walked=False, settings=QUICK)
    shutil.rmtree(f"{place}/sub")
    mark = take(store, place, kind="after", named=[], full=True, walked=False, settings=QUICK).checkpoint
    assert store.state(mark).knows("sub/x") and "sub/x" not in store.state(mark)
    assert store.about(mark)["named"] == ["sub/x"], "without a marker a mark speaks for names only"
    back(store, place, newest(store, place, "before"))
    assert os.path.exists(f"{place}/sub/x")


def test_going_back_before_a_write_into_a_removed_directory_leaves_no_empty_one(store, project):
    put(f"{project}/sub/x", "old")
    agent = agent_of(store)
    agent.before([f"{project}/a"], "first call")
    shutil.rmtree(f"{project}/sub")
    point = agent.before([f"{project}/sub/x"], "write into it").taken[0].checkpoint
    put(f"{project}/sub/x", "new")
    agent.after(wait=True)
    back(store, project, point)
    assert not os.path.lexists(f"{project}/sub")


@pytest.mark.parametrize("name", ["out.log", "build/out.txt", "gen/deep/x.txt", "made.ignored"])
@pytest.mark.parametrize("there", [True, False], ids=["directory-there", "directory-new"])
def test_a_file_that_the_rules_hide_can_be_made_and_unmade(store, project, name, there):
    put(f"{project}/.gitignore", "gen/\n*.ignored\n")
    if there and "/" in name:
        os.makedirs(os.path.dirname(f"{project}/{name}"))
    agent = agent_of(store)
    point = agent.before([f"{project}/{name}"], "write_file").taken[0].checkpoint
    assert point.full and store.state(point).knows(name)
    put(f"{project}/{name}", "by the agent")
    agent.after(wait=True)
    mark = newest(store, project, "after")
    assert contents_in_store(store, mark)[name] == b"by the agent"
    back(store, project, point)
    assert not os.path.lexists(f"{project}/{name}")
    undo_rollback(store, project, settings=QUICK)
    with open(f"{project}/{name}") as file:
        assert file.read() == "by the agent"


def test_an_excluded_file_that_was_deleted_first_is_known_as_absent(store, project):
    put(f"{project}/debug.log", "old")
    agent = agent_of(store)
    agent.before([f"{project}/a"])
    os.unlink(f"{project}/debug.log")
    point = agent.before([f"{project}/debug.log"]).taken[0].checkpoint
    assert store.state(point).knows("debug.log")
    put(f"{project}/debug.log", "by the agent")
    agent.after(wait=True)
    back(store, project, point)
    assert not os.path.lexists(f"{project}/debug.log")


def test_the_list_of_names_can_be_lost(store, project):
    agent = agent_of(store)
    point = agent.before([f"{project}/out.log"]).taken[0].checkpoint
    os.unlink(os.path.join(store.project_directory(project), NAME))
    put(f"{project}/out.log", "by the agent")
    agent.after(wait=True)
    assert contents_in_store(store, newest(store, project, "after"))["out.log"] == b"by the agent"
    back(store, project, point)
    assert not os.path.lexists(f"{project}/out.log")


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_names_with_line_feeds_and_bytes_are_remembered(store, project):
    name = "x\n\\n\udcff.log"
    take(store, project, kind="before", named=[name], full=True, settings=QUICK)
    put(f"{project}/{name}", "1")
    mark = take(store, project, kind="after", settings=QUICK).checkpoint
    assert contents_in_store(store, mark)[name] == b"1"


def git(project, *words):
    subprocess.run(
        ["git", "-C", project, "-c", "user.name=t", "-c", "user.email=t@localhost", *words],
        check=True,
        capture_output=True,
    )


def test_what_the_users_repository_tracks_is_covered_though_ignored(store, tmp_path):
    place = str(tmp_path / "tracking")
    for name in ("gen.txt", "gen/deep/x.txt", "gen/not-tracked", "a"):
        put(f"{place}/{name}", "1")
    git(str(tmp_path), "init", "-q", place)
    git(place, "add", "-f", "gen.txt", "gen/deep/x.txt", "a")
    put(f"{place}/.gitignore", "gen*\n")
    first = take(store, place, settings=QUICK).checkpoint
    assert set(contents_in_store(store, first)) == {"a", ".gitignore", "gen.txt", "gen/deep/x.txt"}
    put(f"{place}/gen.txt", "2")
    shutil.rmtree(f"{place}/gen/deep")
    second = take(store, place, settings=QUICK).checkpoint
    assert contents_in_store(store, second)["gen.txt"] == b"2"
    assert "gen/deep/x.txt" not in store.state(second)
    back(store, place, first)
    assert os.path.exists(f"{place}/gen/deep/x.txt")
    git(place, "add", "-f", "gen/not-tracked")
    third = take(store, place, settings=QUICK).checkpoint
    assert "gen/not-tracked" in store.state(third)


def test_a_tracked_file_that_becomes_ignored_stays_covered(store, tmp_path):
    place = str(tmp_path / "tracking")
    put(f"{place}/conf", "1")
    git(str(tmp_path), "init", "-q", place)
    git(place, "add", "conf")
    take(store, place, settings=QUICK)
    put(f"{place}/.gitignore", "conf\n")
    put(f"{place}/conf", "2")
    point = take(store, place, settings=QUICK).checkpoint
    assert contents_in_store(store, point)["conf"] == b"2"


def test_an_index_that_cannot_be_read_is_no_trouble(store, project):
    put(f"{project}/.git/index", "no index at all")
    put(f"{project}/.gitignore", "b\n")
    put(f"{project}/b", "1")
    done = take(store, project, settings=QUICK)
    assert set(contents_in_store(store, done.checkpoint)) == {"a", ".gitignore"}


def test_the_index_is_asked_for_only_when_something_changed(store, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("safekept.checkpoints.take.making.Ignore.tracked", lambda self: asked.append(1) or [])
    place = str(tmp_path / "tracking")
    put(f"{place}/conf", "1")
    git(str(tmp_path), "init", "-q", place)
    git(place, "add", "conf")
    for number in range(3):
        put(f"{place}/conf", f"{number}")
        take(store, place, settings=QUICK)
    assert len(asked) == 1
