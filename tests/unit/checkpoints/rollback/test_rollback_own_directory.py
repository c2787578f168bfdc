"""The project's own directory comes back as well: its mode, and its time where nothing stays in it."""

from __future__ import annotations

import os

import pytest

from support.projects.rollbacks import Project

LONG_AGO = 1_600_000_000_123_456_789


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("pyproject.toml", "")
    made.write("main.py", "print(1)\n")
    os.chmod(made.path, 0o710)
    os.utime(made.path, ns=(LONG_AGO, LONG_AGO))
    yield made
    made.store.close()


def own(project):
    facts = os.stat(project.path)
    return facts.st_mode & 0o7777, facts.st_mtime_ns


@pytest.mark.needs("modes", "it looks at modes")
def test_its_time_comes_back_with_the_names_in_it(project):
    point = project.before()
    project.write("new.py", "")
    project.delete("main.py")
    spoiled = own(project)
    project.after()
    project.back(point)
    assert own(project) == (0o710, LONG_AGO)
    project.undo()
    assert own(project) == spoiled


@pytest.mark.needs("modes", "it looks at modes")
def test_its_mode_comes_back_though_nothing_else_changed(project):
    point = project.before()
    os.chmod(project.path, 0o777)
    project.after()
    done = project.back(point)
    assert done.restored == ["."] and done.complete
    assert own(project) == (0o710, LONG_AGO)
    project.undo()
    assert own(project)[0] == 0o777


@pytest.mark.needs("modes", "it looks at modes")
def test_a_mode_that_was_given_after_the_rollback_is_not_undone(project):
    point = project.before()
    os.chmod(project.path, 0o777)
    project.after()
    project.back(point)
    os.chmod(project.path, 0o700)
    project.undo()
    assert own(project)[0] == 0o700


@pytest.mark.needs("modes", "it looks at modes")
def test_a_project_that_was_deleted_is_as_closed_as_it_was(project):
    point = project.before()
    for name in os.listdir(project.path):
        os.unlink(project.full(name))
    os.rmdir(project.path)
    project.back(point, recreate=True)
    assert own(project) == (0o710, LONG_AGO)


def test_its_time_is_that_of_what_stays_in_it(project):
    point = project.before()
    project.write("agents.py", "")
    project.after()
    project.write("mine.py", "my own")
    done = project.back(point)
    assert [left.path for left in done.kept] == ["mine.py"]
    assert own(project)[1] > LONG_AGO


@pytest.mark.needs("modes", "it looks at modes")
def test_one_file_that_is_asked_for_leaves_the_directory_alone(project):
    point = project.before()
    os.chmod(project.path, 0o777)
    project.write("main.py", "print(2)\n")
    project.back(point, "main.py")
    assert own(project)[0] == 0o777
