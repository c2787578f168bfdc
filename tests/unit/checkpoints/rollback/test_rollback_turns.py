"""Turns as an agent's host makes them, through the front door: `rollback 1` undoes the last change."""

from __future__ import annotations

import os

import pytest

from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.take.taking import TakeSettings
from support.projects.rollbacks import Project


class Agent:
    """An agent at work in a project that is protected."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.checkpoints = Checkpoints(project.store.directory, settings=TakeSettings(max_file_size=1 << 20))

    def turn(self, **files: str) -> None:
        """One turn in which each file is written by a call of its own."""
        self.checkpoints.new_turn("session")
        for name, text in files.items():
            path = name.replace("_", ".")
            self.write(path, text)
        self.checkpoints.after(wait=True)

    def write(self, path: str, text: str) -> None:
        protection = self.checkpoints.before([self.project.full(path)], f"before write_file {path}")
        assert not protection.failures
        self.project.write(path, text)

    def shell(self, **files: str) -> None:
        protection = self.checkpoints.before([self.project.path], "before terminal", shell=True)
        assert not protection.failures
        for name, text in files.items():
            self.project.write(name.replace("_", "."), text)


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("pyproject.toml", "")
    made.write("a.txt", "0\n")
    made.write("b.txt", "0\n")
    yield made
    made.store.close()


def test_each_turn_has_its_number_and_keeps_it(project):
    agent = Agent(project)
    for number in (1, 2, 3):
        agent.turn(a_txt=f"{number}\n")
    for number, expected in enumerate((b"2\n", b"1\n", b"0\n"), 1):
        result = project.back(str(number))
        assert project.read("a.txt") == expected and not result.kept


def test_each_call_of_a_turn_has_its_number_and_keeps_it(project):
    Agent(project).turn(a_txt="1\n", b_txt="1\n", c_txt="1\n")
    project.back("1")
    assert not project.exists("c.txt") and project.read("b.txt") == b"1\n"
    project.back("2")
    assert project.read("b.txt") == b"0\n" and project.read("a.txt") == b"1\n"
    project.back("3")
    assert project.read("a.txt") == b"0\n"


def test_what_the_user_does_after_an_idle_turn_is_his(project):
    agent = Agent(project)
    agent.turn(a_txt="agent\n")
    agent.turn(a_txt="agent\n")  # writes what is there already
    project.write("b.txt", "user\n")
    result = project.back("1")
    assert project.read("a.txt") == b"0\n"
    assert project.read("b.txt") == b"user\n" and [left.path for left in result.kept] == ["b.txt"]


def test_what_a_shell_command_changed_is_undone_and_the_users_edit_between_turns_stays(project):
    agent = Agent(project)
    agent.turn(a_txt="agent\n")
    project.write("b.txt", "user\n")
    agent.checkpoints.new_turn("session")
    agent.shell(a_txt="shell\n", made_txt="shell\n")
    agent.checkpoints.after(wait=True)
    project.back("1")
    assert project.read("a.txt") == b"agent\n" and not project.exists("made.txt")
    assert project.read("b.txt") == b"user\n"
    project.back("2")
    assert project.read("a.txt") == b"0\n" and project.read("b.txt") == b"user\n"


def test_named_files_of_a_directory_that_is_no_project_come_back(tmp_path):
    os.mkdir(tmp_path / "loose")
    project = Project(str(tmp_path), "loose")
    project.write("notes.txt", "one\n")
    project.write("other.txt", "never named\n")
    agent = Agent(project)
    agent.turn(notes_txt="two\n", new_txt="made\n")
    project.write("other.txt", "changed by the user\n")
    result = project.back("1")
    assert not project.exists("new.txt") and project.read("notes.txt") == b"two\n", result.left
    project.back("2")
    assert project.read("notes.txt") == b"one\n"
    assert project.read("other.txt") == b"changed by the user\n"
    project.undo()
    assert project.read("notes.txt") == b"two\n"
    project.store.close()
