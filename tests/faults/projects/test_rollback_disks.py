"""Rollback on a disk that has no exchange of names, no second names and no symbolic links, as exFAT."""

from __future__ import annotations

import errno
import os
import signal

import pytest

from safekept.checkpoints.rollback import project_tree, run
from safekept.checkpoints.rollback.rollback import RollbackFailed, recover
from safekept.checkpoints.store.repositories import putting
from support.projects.rollbacks import Project

STEPS = 3  # of one exchange by plain renames


def refused(*words: object, **options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.fixture
def plain_disk(monkeypatch):
    monkeypatch.setattr("safekept.core.platform.renaming._rename", lambda old, new, flags: False)
    monkeypatch.setattr(project_tree.os, "link", refused)


@pytest.fixture
def project(tmp_path, plain_disk):
    made = Project(str(tmp_path))
    made.write("one.txt", "then\n")
    made.write("two.txt", "then\n")
    yield made
    made.store.close()


def edited(project: Project) -> str:
    point = project.before()
    project.write("one.txt", "now, and longer\n")
    project.write("two.txt", "now, and longer\n")
    return point.id


def stopped_at(monkeypatch: pytest.MonkeyPatch, number: int, stop: object) -> None:
    """Let the Nth plain rename of an exchange, and all after it, come to `stop`."""
    real, seen = project_tree._rename, []

    def counted(old, new):
        seen.append(new)
        if len(seen) == number:
            stop()
        real(old, new)

    monkeypatch.setattr(project_tree, "_rename", counted)


def test_a_file_is_replaced_and_the_rollback_can_be_undone(project):
    point = edited(project)
    was = project.tree()
    result = project.back(point)
    assert result.complete and project.read("one.txt") == project.read("two.txt") == b"then\n"
    project.undo()
    assert project.tree() == was and project.leftovers() == []


@pytest.mark.parametrize("number", range(1, 2 * STEPS + 1))
def test_killed_between_two_renames_it_is_finished_by_the_next_command(project, monkeypatch, number):
    point = edited(project)
    child = os.fork()
    if child == 0:
        try:
            stopped_at(monkeypatch, number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            project.back(point)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found = recover(project.store, project.path, settings=project.settings)
    assert found is not None and found.how == "finished"
    assert project.read("one.txt") == project.read("two.txt") == b"then\n"
    assert project.leftovers() == []


@pytest.mark.parametrize("number", range(1, 2 * STEPS + 1))
def test_a_rename_that_fails_takes_everything_back(project, monkeypatch, number):
    point = edited(project)
    was = project.tree()

    def broken():
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    stopped_at(monkeypatch, number, broken)
    with pytest.raises(RollbackFailed):
        project.back(point)
    assert project.tree() == was and project.leftovers() == []


def test_what_somebody_put_there_in_the_missing_moment_stays(project, monkeypatch):
    point = edited(project)
    child = os.fork()
    if child == 0:
        try:
            stopped_at(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
            project.back(point)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    gone = next(name for name in ("one.txt", "two.txt") if not project.exists(name))
    project.write(gone, "written in between\n")
    recover(project.store, project.path, settings=project.settings)
    assert project.read(gone) == b"written in between\n" and project.leftovers() == []
    project.undo()  # and what was there before is in the undo point
    assert any(project.read(name) == b"now, and longer\n" for name in ("one.txt", "two.txt"))


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_symbolic_link_is_named_and_everything_else_comes_back(project, monkeypatch):
    os.symlink("one.txt", project.full("link"))
    point = edited(project)
    project.delete("link")
    monkeypatch.setattr(run.os, "symlink", refused)
    result = project.back(point)
    assert project.read("one.txt") == b"then\n" and not project.exists("link")
    assert [(one.path, one.reason) for one in result.left] == [("link", "no-symlinks")]
    assert not result.complete and project.leftovers() == []


@pytest.mark.parametrize("code", [errno.EILSEQ, errno.ENOENT, errno.EINVAL])
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_a_name_that_the_disk_cannot_hold_is_named_and_everything_else_comes_back(project, monkeypatch, code):
    project.write("a:b", "odd\n")
    point = edited(project)
    project.delete("a:b")
    real = os.rename

    def rename(old, new, **options):
        if new == "a:b":
            raise OSError(code, os.strerror(code))
        real(old, new, **options)

    monkeypatch.setattr(project_tree.os, "rename", rename)
    result = project.back(point)
    assert project.read("one.txt") == b"then\n"
    assert [(one.path, one.reason) for one in result.left] == [("a:b", "no-such-name")]
    assert not result.complete and project.leftovers() == []


def test_the_index_is_put_under_gits_lock_and_no_lock_stays(tmp_path, plain_disk):
    git = str(tmp_path)
    putting.put_index(git, b"first")
    putting.put_index(git, b"second")
    assert os.listdir(git) == ["index"]
    with open(os.path.join(git, "index"), "rb") as file:
        assert file.read() == b"second"


def test_a_lock_of_another_git_is_respected_and_one_that_we_left_is_not(tmp_path, plain_disk, monkeypatch):
    git, lock = str(tmp_path), os.path.join(str(tmp_path), "index.lock")
    putting.put_index(git, b"first")
    with open(lock, "wb"):
        pass
    with pytest.raises(FileExistsError):
        putting.put_index(git, b"second")
    assert sorted(os.listdir(git)) == ["index", "index.lock"]
    os.unlink(lock)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(putting.os, "rename", lambda old, new, **_: os.kill(os.getpid(), signal.SIGKILL))
        putting._put_without_links(lock, lock, os.path.join(git, "index"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL and os.path.exists(lock)
    putting.put_index(git, b"second")
    assert os.listdir(git) == ["index"]
