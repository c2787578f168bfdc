"""A disk that fails for a moment: what could not be read is named each time, and is read the next time."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, recover, roll_back
from safekept.checkpoints.rollback.run import finish
from safekept.checkpoints.take.taking import ProjectGone, take
from safekept.core.errors import SafekeptError
from support.projects.checkpoints import contents_in_store, put, settle
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    put(f"{place}/src/main.py", "print(1)\n")
    put(f"{place}/src/deep/module.py", "x = 1\n")
    put(f"{place}/notes.md", "bread\n")
    settle(place)
    return place


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, code: int = errno.EIO):
    """Opening or looking at whatever has this name fails, as on a disk with a bad block."""
    with monkeypatch.context() as patch:
        for call in ("open", "lstat", "stat"):

            def failed(path, *arguments, _real=getattr(os, call), **options):
                if isinstance(path, bytes | str) and os.fsdecode(path).rpartition("/")[2] == name:
                    raise OSError(code, os.strerror(code), path)
                return _real(path, *arguments, **options)

            patch.setattr(os, call, failed)
        yield


@contextlib.contextmanager
def failing_look(monkeypatch: pytest.MonkeyPatch, name: str):
    """The look at a name that was just listed fails."""
    real = os.scandir

    class Entry:
        def __init__(self, entry):
            self._entry, self.name = entry, entry.name

        def is_dir(self, **options):
            return self._entry.is_dir(**options)

        def stat(self, **options):
            if os.fsdecode(self.name) == name:
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)
            return self._entry.stat(**options)

    @contextlib.contextmanager
    def scandir(path):
        with real(path) as listing:
            yield [Entry(entry) for entry in listing]

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        yield


def named(taken):
    return {(one.path, one.reason) for one in taken.skipped}


@pytest.mark.parametrize(
    ("name", "lost", "missing"),
    [
        ("main.py", "src/main.py", {"src/main.py"}),
        ("deep", "src/deep", {"src/deep/module.py"}),
        ("src", "src", {"src/main.py", "src/deep/module.py"}),
    ],
)
def test_what_could_not_be_opened_is_named_and_the_next_checkpoint_has_it(
    store, project, monkeypatch, name, lost, missing
):
    everything = {"src/main.py": b"print(1)\n", "src/deep/module.py": b"x = 1\n", "notes.md": b"bread\n"}
    with failing(monkeypatch, name):
        for _ in range(2):  # as long as it lasts, it is said
            taken = take(store, project, always=True)
            assert named(taken) == {(lost, "unreadable")}
            assert contents_in_store(store, taken.checkpoint) == {
                path: data for path, data in everything.items() if path not in missing
            }
    taken = take(store, project)
    assert taken.skipped == ()
    assert contents_in_store(store, taken.checkpoint) == everything


def test_what_could_not_be_looked_at_is_named_and_the_next_checkpoint_has_it(store, project, monkeypatch):
    with failing_look(monkeypatch, "main.py"):
        taken = take(store, project)
        assert named(taken) == {("src/main.py", "unreadable")}
        assert taken.skipped[0].detail == "Input/output error"
    taken = take(store, project)
    assert taken.skipped == ()
    assert "src/main.py" in contents_in_store(store, taken.checkpoint)


@pytest.mark.parametrize("listed", [True, False], ids=["in a project", "in a directory that is none"])
def test_a_named_file_that_could_not_be_looked_at_is_not_called_absent(store, project, monkeypatch, listed):
    """What a point calls absent, a rollback to it removes."""
    path = f"{project}/src/main.py"
    if listed:
        take(store, project)
    with failing(monkeypatch, "main.py"):
        taken = take(store, project, named=[path], walked=listed, always=True)
        assert named(taken) == {("src/main.py", "unreadable")}
        state = store.state(taken.checkpoint)
        assert state.absent == set() and state.skipped["src/main.py"].reason == "unreadable"
        again = take(store, project, full=True, walked=listed, always=True)
        assert ("src/main.py", "unreadable") in named(again)
        assert store.state(again.checkpoint).absent == set()
    taken = take(store, project, named=[path], walked=listed, always=True)
    assert taken.skipped == ()
    assert contents_in_store(store, taken.checkpoint)["src/main.py"] == b"print(1)\n"


def test_a_rollback_that_had_to_leave_a_new_file_it_could_not_read_is_not_complete(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("src/main.py", "print(1)\n")
    point = project.before()
    project.write("src/main.py", "print(2)\n")
    project.write("src/new.py", "x = 1\n")
    with failing(monkeypatch, "new.py"):
        done = project.back(point)
    assert not done.complete
    assert [(one.path, one.reason) for one in done.left] == [("src/new.py", "unreadable")]
    assert project.read("src/main.py") == b"print(1)\n" and project.read("src/new.py") == b"x = 1\n"
    # Once it can be read, the same command finishes the work.
    assert project.back(point).complete
    assert not project.exists("src/new.py")
    project.store.close()


def test_what_the_mark_after_a_rollback_could_not_read_is_undone_all_the_same(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("notes/todo.md", "bread\n")
    point = project.before()
    project.delete("notes")
    module = sys.modules[roll_back.__module__]
    real = module.after_mark

    def blind(*arguments, **options):
        with failing(monkeypatch, "todo.md"):
            return real(*arguments, **options)

    monkeypatch.setattr(module, "after_mark", blind)
    assert project.back(point).complete and project.read("notes/todo.md") == b"bread\n"
    undone = project.undo()
    assert undone.complete and undone.left == []
    assert not project.exists("notes")
    project.store.close()


def test_a_rollback_that_cannot_tidy_up_says_so_and_the_next_one_does_it(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("main.py", "print(1)\n")
    point = project.before()
    project.write("main.py", "print(2)\n")
    real = os.unlink

    def refuse(path, **options):
        if ".safekept-tmp-" in os.fsdecode(path) and options.get("dir_fd") is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        real(path, **options)

    with monkeypatch.context() as patch, pytest.raises(SafekeptError) as raised:
        patch.setattr(os, "unlink", refuse)
        project.back(point)
    assert raised.value.code == "rollback-unfinished"
    assert "is as it was then, and tidying up failed: Input/output error" in raised.value.what
    assert "what was replaced is kept" in raised.value.kept
    assert project.read("main.py") == b"print(1)\n" and project.leftovers()
    recovered = recover(project.store, project.path)
    assert recovered is not None and recovered.how == "finished"
    assert project.leftovers() == []
    assert project.undo().complete and project.read("main.py") == b"print(2)\n"
    project.store.close()


def test_a_rollback_whose_names_may_not_survive_a_power_cut_is_not_called_done(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("main.py", "print(1)\n")
    point = project.before()
    project.write("main.py", "print(2)\n")
    real = os.fsync

    def refuse(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}") == project.path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patch, pytest.raises(SafekeptError) as raised:
        patch.setattr(os, "fsync", refuse)
        project.back(point)
    assert raised.value.code == "rollback-unfinished"
    assert recover(project.store, project.path).how == "finished"
    project.store.close()


@pytest.mark.needs("modes", "it looks at modes")
def test_a_directory_whose_mode_could_not_be_put_back_is_named(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("src/main.py", "print(1)\n")
    point = project.before()
    os.chmod(project.full("src"), 0o700)
    module = sys.modules[finish.__module__]
    real = module.make

    def refuse(ground, change):
        if change.path == "src":
            raise OSError(errno.EIO, os.strerror(errno.EIO), change.path)
        return real(ground, change)

    monkeypatch.setattr(module, "make", refuse)
    done = project.back(point)
    assert not done.complete
    assert [str(one) for one in done.left] == [
        "src: its mode or time could not be put back (Input/output error)"
    ]
    project.store.close()


def test_a_project_that_cannot_be_looked_into_is_said_in_words(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("src/main.py", "print(1)\n")
    point = project.before()
    project.write("src/main.py", "print(2)\n")
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    with failing(monkeypatch, "project"), pytest.raises(ProjectGone) as raised:
        roll_back(project.store, plan)
    assert "cannot be looked into: Input/output error" in raised.value.what
    assert raised.value.kept == "Its checkpoints are all still in the store; nothing was changed"
    project.store.close()


def test_a_file_that_nobody_could_ever_read_keeps_no_rollback_from_being_complete(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("src/main.py", "print(1)\n")
    project.write("src/shut.bin", "secret\n")
    with failing(monkeypatch, "shut.bin", errno.EACCES):
        point = project.before()
        project.write("src/main.py", "print(2)\n")
        done = project.back(point)
    assert done.complete
    assert project.read("src/main.py") == b"print(1)\n"
    project.store.close()
