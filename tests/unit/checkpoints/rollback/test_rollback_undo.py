"""Undoing a rollback takes back what that rollback did, and nothing that anybody did since."""

from __future__ import annotations

import shutil

import pytest

from safekept.checkpoints.rollback import run
from safekept.checkpoints.rollback.placing import make
from safekept.checkpoints.rollback.planning import NoRollbackToUndo
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("a", "0")
    made.write("b", "0")
    yield made
    made.store.close()


def reasons(result):
    return {left.path: left.reason for left in result.left}


def rolled_back(project):
    project.before()
    project.write("a", "1")
    project.write("b", "1")
    project.write("made", "1")
    project.after()
    project.back("1")
    assert project.read("a") == b"0" and not project.exists("made")


@pytest.fixture
def failing(monkeypatch):
    """No change can be made, as on a disk that has no way to make it."""

    def landing(_ground, change):
        return "no-such-name" if change.action else ""

    def switch(on):
        monkeypatch.setattr(run, "make", landing if on else make)

    return switch


def test_an_undo_that_could_change_nothing_is_not_the_last_rollback(project, failing):
    project.before()
    project.write("a", "1")
    project.after()
    project.back("1")
    assert project.read("a") == b"0"
    failing(True)
    result = project.undo()
    assert reasons(result) == {"a": "no-such-name"} and not result.complete and not result.done
    failing(False)
    assert project.undo().restored == ["a"]
    assert project.read("a") == b"1", "the rollback itself is taken back, not the undo that did nothing"


def test_a_rollback_that_could_change_nothing_leaves_nothing_to_undo(project, failing):
    project.before()
    project.write("a", "1")
    project.after()
    failing(True)
    assert not project.back("1").done
    failing(False)
    with pytest.raises(NoRollbackToUndo, match="no rollback changed anything in"):
        project.undo()


def test_undo_keeps_the_work_of_a_later_turn(project):
    rolled_back(project)
    project.before()
    project.write("later/work", "of turn 2")
    project.write("b", "turn 2")
    project.after()
    result = project.undo()
    assert project.read("a") == b"1" and project.read("made") == b"1"
    assert project.read("later/work") == b"of turn 2" and project.read("b") == b"turn 2"
    assert reasons(result) == {"b": "since", "later/work": "since"}
    assert result.complete


def test_overwrite_mine_takes_later_changes_of_the_same_files_and_no_others(project):
    rolled_back(project)
    project.write("b", "later")
    project.write("other", "later")
    result = project.undo(overwrite_mine=True)
    assert project.read("b") == b"1" and project.read("other") == b"later"
    assert reasons(result) == {"other": "since"}


def test_undo_without_its_after_mark_still_keeps_what_came_later(project):
    rolled_back(project)
    marks = [point for point in project.store.checkpoints(project.path) if point.turn.startswith("rollback ")]
    assert len(marks) == 1
    project.store.drop(marks)
    project.write("b", "later")
    project.write("other", "later")
    project.undo()
    assert project.read("a") == b"1" and project.read("b") == b"later" and project.read("other") == b"later"


def test_undo_of_one_file_leaves_the_others_alone(project):
    point = project.before()
    project.write("a", "1")
    project.write("b", "1")
    project.back(point, "a")
    project.write("b", "2")
    project.undo()
    assert project.read("a") == b"1" and project.read("b") == b"2"


def test_undo_after_the_project_was_deleted_gives_it_back_whole(project):
    rolled_back(project)
    shutil.rmtree(project.path)
    project.undo()
    assert project.read("a") == b"1" and project.read("made") == b"1"


def test_a_deleted_project_comes_back_with_plain_rollback(project):
    project.before()
    project.write("a", "1")
    project.after()
    shutil.rmtree(project.path)
    result = project.back("1", recreate=True)
    # That it went is the last change: number 1 is the mark of the last turn, number 2 the point before that.
    assert project.read("a") == b"1" and project.read("b") == b"0"
    assert not result.left and result.complete


def test_a_rollback_that_cannot_be_planned_leaves_no_empty_project(project):
    project.before()
    shutil.rmtree(project.path)
    from safekept.checkpoints.points.addressing import FileNotInCheckpoint

    with pytest.raises(FileNotInCheckpoint):
        project.back("1", "nobody-knows-it", recreate=True)
    import os

    assert not os.path.exists(project.path)
