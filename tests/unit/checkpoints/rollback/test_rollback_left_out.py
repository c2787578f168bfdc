"""Going back where files are hidden, secret or gone: nothing gets past it, and nothing uncovered is lost."""

from __future__ import annotations

import os

import pytest

from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    yield made
    made.store.close()


def reasons(result):
    return {left.path: left.reason for left in result.left}


def test_what_an_agent_hid_with_gitignore_is_rolled_back_all_the_same(project):
    project.write("conf", "1")
    project.write("keep", "k")
    project.write(".gitignore", "x\n")
    was = project.tree()
    project.before()
    project.write(".gitignore", "x\nconf\nkeep\n")
    project.write("conf", "2")
    project.delete("keep")
    project.after()
    agents = project.tree()
    result = project.back("1")
    assert project.tree() == was
    assert result.complete and not result.left
    project.undo()
    assert project.tree() == agents
    project.undo()
    assert project.tree() == was


def test_a_gitignore_that_hides_everything_and_itself_is_undone(project):
    project.write("a", "1")
    project.write("d/b", "1")
    os.mkdir(project.full("hollow"))
    was = project.tree()
    project.before()
    project.write(".gitignore", "*\n")
    project.write("a", "2")
    project.write("d/b", "2")
    project.after()
    agents = project.tree()
    result = project.back("1")
    assert project.tree() == was and result.complete, result.left
    project.undo()
    assert project.tree() == agents


def test_hidden_by_a_named_call_and_changed_by_the_next(project):
    project.write("conf", "1")
    project.before()
    project.after()
    was = project.tree()
    first = project.before(".gitignore")
    project.write(".gitignore", "conf\n")
    project.before("conf")
    project.write("conf", "2")
    project.after()
    project.back(first)
    assert project.tree() == was


def test_only_one_undo_point_is_left_behind_by_a_second_look(project):
    project.write("conf", "1")
    point = project.before()
    project.write(".gitignore", "conf\n")
    project.write("conf", "2")
    result = project.back(point)
    undo = [one.id for one in project.store.checkpoints(project.path) if one.kind == "undo"]
    assert undo == [result.plan.undo.id]
    project.fsck()


def test_a_file_that_the_target_holds_and_cannot_come_back_makes_it_incomplete(project):
    project.write("data.bin", "small")
    project.write("a", "1")
    project.before()
    project.write("data.bin", b"x" * (project.settings.max_file_size + 1))
    project.write("a", "2")
    project.after()
    result = project.back("1")
    assert reasons(result) == {"data.bin": "oversize"}
    assert not result.complete
    assert project.read("a") == b"1"
    # The number is not taken away: once the file is out of the way, it can be finished.
    project.delete("data.bin")
    project.back("1", overwrite_mine=True)
    assert project.read("data.bin") == b"small"


def test_a_file_that_the_user_hid_and_the_agent_deleted_is_not_called_the_users_deletion(project):
    project.write("a", "1")
    project.write("loc", "1")
    first = project.before()
    project.write("a", "2")
    project.after()
    project.write(".gitignore", "loc\n")
    project.write("loc", "user")
    project.before()
    project.delete("loc")
    project.write("a", "3")
    project.after()
    result = project.back(first)
    assert reasons(result) == {".gitignore": "mine"}
    assert project.read("loc") == b"1" and project.read("a") == b"1"


def test_a_file_that_the_user_hid_and_deleted_himself_stays_deleted(project):
    project.write("a", "1")
    project.write("loc", "1")
    first = project.before()
    project.write("a", "2")
    project.after()
    project.write(".gitignore", "loc\n")
    project.before()
    project.write("a", "3")
    project.after()
    project.delete("loc")
    result = project.back(first)
    assert reasons(result)["loc"] == "mine" and not project.exists("loc")


@pytest.mark.parametrize("name", [".env", "keys/id_rsa"])
def test_a_secret_that_was_renamed_is_not_removed_as_a_new_file(project, name):
    project.write(name, "SECRET")
    project.write("a", "1")
    point = project.before()
    os.rename(project.full(name), project.full("config.txt"))
    project.write("a", "2")
    project.after()
    result = project.back(point)
    assert project.read("config.txt") == b"SECRET" and project.read("a") == b"1"
    assert reasons(result) == {"config.txt": "renamed"}
    assert f"`{name}` is gone" in str(result.left[0])
    assert [(one.path, one.reason) for one in result.plan.gone] == [(name, "secret")]
    project.back(point, overwrite_mine=True)
    assert not project.exists("config.txt")


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_an_ignored_file_that_was_renamed_stays_and_what_is_really_new_goes(project):
    project.write(".gitignore", "local.txt\n")
    project.write("local.txt", "only copy")
    point = project.before()
    os.rename(project.full("local.txt"), project.full("moved.txt"))
    project.write("new.txt", "made since")
    result = project.back(point)
    assert project.exists("moved.txt") and not project.exists("new.txt")
    assert reasons(result) == {"moved.txt": "renamed"}


def test_a_secret_that_moved_with_its_directory_keeps_nothing_else(project):
    project.write("conf/.env", "SECRET")
    project.write("conf/a", "1")
    point = project.before()
    os.rename(project.full("conf"), project.full("other"))
    project.write("new.txt", "made since")
    project.back(point)
    assert project.read("conf/a") == b"1" and project.read("other/.env") == b"SECRET"
    assert not project.exists("new.txt") and not project.exists("other/a")


def test_while_no_secret_is_missing_every_new_file_goes(project):
    project.write(".env", "SECRET")
    point = project.before()
    project.write("new.txt", "made since")
    result = project.back(point)
    assert not project.exists("new.txt") and not result.left and not result.plan.gone


def test_what_was_not_covered_then_and_is_gone_now_is_said(project):
    project.write(".gitignore", "results/\n")
    project.write("results/one", "ignored")
    project.write("lib/.git/HEAD", "ref: refs/heads/main\n")
    project.write("lib/code", "1")
    project.write("big", b"x" * (project.settings.max_file_size + 1))
    point = project.before()
    for path in ("results", "lib", "big"):
        project.delete(path)
    result = project.back(point)
    assert project.read("lib/code") == b"1"
    found = {one.path: one.reason for one in result.plan.gone}
    assert found == {"results": "ignored", "lib/.git": "git", "big": "oversize"}
    assert {one["path"] for one in result.as_dict()["gone"]} == found.keys()


def test_what_was_excluded_and_is_gone_is_said_unless_it_makes_itself_again(project):
    for name in ("talk.mp4", "build/out.js", "__pycache__/main.pyc", ".DS_Store"):
        project.write(name, "x")
    point = project.before()
    for name in ("talk.mp4", "build", "__pycache__", ".DS_Store"):
        project.delete(name)
    project.after()
    done = project.back(point)
    assert [(one.path, one.reason) for one in done.plan.gone] == [
        ("build", "excluded"),
        ("talk.mp4", "excluded"),
    ]
