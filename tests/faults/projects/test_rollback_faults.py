"""Rollback meets a full disk, a closed directory, a damaged store, a case-blind disk: nothing is lost."""

from __future__ import annotations

import contextlib
import encodings.ascii  # noqa: F401 - loaded while it may be read, for who gives his rights away
import errno
import os
import shutil
import sqlite3
import stat

import pytest

from conftest import missing_part
from safekept.checkpoints.points.rollback_plan import RollbackJournal
from safekept.checkpoints.rollback import placing, rollback
from safekept.checkpoints.rollback import project_tree as spelling
from safekept.checkpoints.rollback.project_tree import ProjectTree
from safekept.checkpoints.rollback.proving import UndoPointFailed
from safekept.checkpoints.rollback.rollback import plan_rollback, recover, roll_back
from safekept.checkpoints.rollback.run import RollbackFailed
from safekept.core.platform.filesystems import Folding
from support.projects.rollbacks import Project
from support.users.unprivileged import as_nobody, nobodys  # noqa: F401


def edited(base: str, **options: object) -> tuple[Project, object]:
    """A project with a checkpoint, and every sort of change since."""
    project = Project(base, **options)  # type: ignore[arg-type]
    for number in range(4):
        project.write(f"src/{number}.py", f"one {number}\n" * 50)
    project.write("gone/deep/x.txt", "x\n")
    os.symlink("src", project.full("link"))
    os.mkdir(project.full("hollow"))
    point = project.before()
    for number in range(4):
        project.write(f"src/{number}.py", f"two {number}\n" * 50)
    project.delete("gone")
    project.delete("link")
    project.write("link/now/dir.txt", "a directory now\n")
    os.rmdir(project.full("hollow"))
    project.write("hollow", "a file now\n")
    project.write("fresh/made.txt", "made since\n")
    return project, point


def test_a_full_disk_leaves_the_project_as_it_was(tmp_path, small_filesystem):
    place = small_filesystem(1024)
    project = Project(str(tmp_path), "unused")
    project.path = os.path.join(place, "project")
    os.mkdir(project.path)
    project.write("keep.txt", "keep\n")
    for number in range(6):
        project.write(f"{number}.bin", os.urandom(60_000))
    point = project.before()
    for number in range(6):
        project.write(f"{number}.bin", os.urandom(1000))
    with open(os.path.join(place, "filler"), "wb") as filler:
        filler.write(b"x" * 900_000)
    was = project.tree()
    with pytest.raises(RollbackFailed) as caught:
        project.back(point)
    assert "No space left" in caught.value.what
    assert caught.value.kept == "Everything that was begun was taken back; the project is as it was before"
    assert project.tree() == was and project.leftovers() == []
    os.unlink(os.path.join(place, "filler"))
    assert project.back(point).complete
    project.fsck()
    project.store.close()


@pytest.mark.parametrize("at", range(0, 14, 3))
@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_a_change_that_fails_half_way_takes_everything_back(tmp_path, monkeypatch, at, code):
    project, point = edited(str(tmp_path))
    was = project.tree()
    counted = iter(range(1000))
    real = placing.make

    def failing(ground, change):
        if next(counted) == at:
            raise OSError(code, os.strerror(code), change.path)
        return real(ground, change)

    monkeypatch.setattr("safekept.checkpoints.rollback.run.make", failing)
    with pytest.raises(RollbackFailed) as caught:
        project.back(point)
    assert os.strerror(code) in caught.value.what
    monkeypatch.undo()
    assert project.tree() == was and project.leftovers() == []
    assert recover(project.store, project.path) is None
    result = project.back(point)
    assert result.complete and project.read("src/0.py").startswith(b"one")
    project.undo()
    assert project.tree() == was
    project.fsck()
    project.store.close()


def test_an_interrupt_takes_everything_back(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    was = project.tree()
    counted = iter(range(1000))
    real = placing.make

    def interrupted(ground, change):
        if next(counted) == 7:
            raise KeyboardInterrupt
        return real(ground, change)

    monkeypatch.setattr("safekept.checkpoints.rollback.run.make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        project.back(point)
    assert project.tree() == was and project.leftovers() == []
    project.store.close()


def test_a_read_only_directory_of_ones_own_is_opened_and_closed_again(nobodys):  # noqa: F811
    def run():
        project, point = edited(nobodys)
        os.chmod(project.full("src"), 0o555)
        result = project.back(point)
        seen = project.read("src/1.py"), stat.S_IMODE(os.stat(project.full("src")).st_mode), result.complete
        project.store.close()
        return seen

    content, mode, complete = as_nobody(run)
    assert content.startswith(b"one 1") and mode in (0o555, 0o755) and complete


def test_a_directory_that_may_not_be_written_changes_nothing(nobodys):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("giving a directory to somebody else needs root")

    def begin():
        mine = Project(nobodys)
        mine.write("theirs/file.txt", "one\n")
        mine.write("ours.txt", "one\n")
        taken = mine.before()
        mine.write("theirs/file.txt", "two\n")
        mine.write("ours.txt", "two\n")
        mine.store.close()
        return taken

    point = as_nobody(begin)
    project = Project(nobodys)
    project.store.close()
    os.chown(project.full("theirs"), 0, 0)
    os.chmod(project.full("theirs"), 0o755)
    was = project.tree()

    def run():
        mine = Project(nobodys)
        try:
            mine.back(point)
        except RollbackFailed as error:
            return error.what, error.kept
        finally:
            mine.store.close()
        return "", ""

    what, kept = as_nobody(run)
    assert "Permission denied" in what and "as it was before" in kept
    assert project.tree() == was and project.leftovers() == []


def test_an_undo_point_that_cannot_be_read_back_stops_everything(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    was = project.tree()
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    state = project.store.state(plan.undo)["src/2.py"]
    real = type(project.store).stream

    def rotten(store, oid):
        for chunk in real(store, oid):
            yield b"?" * len(chunk) if oid == state.oid else chunk

    monkeypatch.setattr(type(project.store), "stream", rotten)
    with pytest.raises(UndoPointFailed) as caught:
        roll_back(project.store, plan, settings=project.settings)
    assert "src/2.py" in caught.value.what and caught.value.kept == "Nothing was changed"
    assert project.tree() == was
    project.store.close()


def test_no_undo_point_means_no_rollback(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    was = project.tree()

    def failing(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("safekept.checkpoints.rollback.undo_point.take", failing)
    with pytest.raises(UndoPointFailed) as caught:
        project.back(point)
    assert "could not be taken" in caught.value.what and caught.value.kept == "Nothing was changed"
    assert project.tree() == was
    project.store.close()


def test_a_damaged_object_leaves_its_file_and_restores_the_others(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    damaged = project.store.state(point)["src/1.py"].oid
    real = type(project.store).stream

    def rotten(store, oid):
        for chunk in real(store, oid):
            yield b"?" * len(chunk) if oid == damaged else chunk

    monkeypatch.setattr(type(project.store), "stream", rotten)
    result = project.back(point)
    assert {left.path: left.reason for left in result.left} == {"src/1.py": "damaged"}
    assert project.read("src/1.py").startswith(b"two") and project.read("src/2.py").startswith(b"one")
    assert not result.complete and project.leftovers() == []
    project.store.close()


def test_names_that_differ_only_in_case_are_left_on_a_disk_that_takes_them_for_one(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    project.write("Readme", "upper\n")
    project.write("docs/a.txt", "a\n")
    project.write("plain.txt", "one\n")
    point = project.before()
    project.delete("Readme")
    project.write("README", "renamed since\n")
    os.rename(project.full("docs"), project.full("Docs"))
    project.write("plain.txt", "two\n")
    monkeypatch.setattr(spelling, "folding_at", lambda ground, path: Folding(case=True, forms=False))
    was = project.tree()
    result = project.back(point)
    left = {one.path: one.reason for one in result.left}
    assert left["Readme"] == "case" and left["README"] == "case" and left["docs/a.txt"] == "case"
    assert project.read("README") == b"renamed since\n" and project.read("Docs/a.txt") == b"a\n"
    assert project.read("plain.txt") == b"one\n" and not result.complete
    assert {path: facts for path, facts in project.tree().items() if path != "plain.txt"} == {
        path: facts for path, facts in was.items() if path != "plain.txt"
    }
    monkeypatch.undo()
    assert (
        project.back(point).complete and project.read("Readme") == b"upper\n" and not project.exists("README")
    )
    project.store.close()


def test_two_files_that_become_directories_of_the_same_letters_are_not_taken_for_one(tmp_path):
    project = Project(str(tmp_path))
    for name in ("A", "a"):
        project.write(f"{name}/x.py/y", name)
    point = project.before()
    was = project.tree()
    for name in ("A", "a"):
        project.delete(name)
        project.write(name, "a file now")
    result = project.back(point)
    assert result.complete and project.tree() == was, result.left
    project.store.close()


def test_the_case_of_this_disk_is_found_out_by_trying(tmp_path):
    with ProjectTree(str(tmp_path)) as ground:
        assert spelling.folding_at(ground, "not/there") == Folding(case=False, forms=False)
    assert os.listdir(tmp_path) == []


def test_without_an_exchanging_rename_rollback_is_the_same(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    was = project.tree()
    monkeypatch.setattr("safekept.core.platform.renaming._rename", lambda old, new, flags: False)
    result = project.back(point)
    assert result.complete and project.read("src/0.py").startswith(b"one") and project.leftovers() == []
    project.undo()
    assert project.tree() == was
    project.store.close()


def test_bytes_written_into_a_file_that_is_being_replaced_are_kept(tmp_path, monkeypatch):
    project, point = edited(str(tmp_path))
    holder = open(project.full("src/0.py"), "ab")  # noqa: SIM115
    real = rollback.finish

    def write_then_finish(*arguments):
        holder.write(b"appended while the rollback ran\n")
        holder.close()
        return real(*arguments)

    monkeypatch.setattr(rollback, "finish", write_then_finish)
    result = project.back(point)
    (remark,) = result.remarks
    assert "was written to while it was replaced" in remark
    assert project.read("src/0.py.written-during-rollback").endswith(b"appended while the rollback ran\n")
    assert project.read("src/0.py").startswith(b"one")
    project.store.close()


def test_the_journal_keeps_one_line_of_each_rollback(tmp_path):
    project, point = edited(str(tmp_path))
    project.back(point)
    project.undo()
    journal = RollbackJournal(project.store.project_directory(project.path))
    assert [line["state"] for line in journal.read()] == ["done", "done"]
    assert journal.pending() == []
    assert stat.S_IMODE(os.stat(journal.path).st_mode) == 0o600
    project.store.close()


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
@pytest.mark.parametrize("at", [0, 5, 10])
def test_a_project_that_goes_away_while_it_is_rolled_back(tmp_path, monkeypatch, how, at):
    project, point = edited(str(tmp_path))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.txt").write_text("keep\n")
    counted = iter(range(1000))
    real = placing.make

    def disturbed(ground, change):
        if next(counted) == at:
            if how == "deleted":
                shutil.rmtree(project.path)
            else:
                os.rename(project.path, str(tmp_path / "moved"))
            if how == "replaced":
                os.symlink(str(outside), project.path)
        return real(ground, change)

    monkeypatch.setattr("safekept.checkpoints.rollback.run.make", disturbed)
    result = project.back(point)
    monkeypatch.undo()
    assert result.remarks and "the mark after the rollback could not be taken" in result.remarks[-1]
    assert os.listdir(outside) == ["keep.txt"]
    if how == "deleted":
        assert not result.complete
        project.back(result.plan.undo, recreate=True)
        assert project.read("hollow") == b"a file now\n"
    else:
        assert result.complete  # in the very directory that it began in
        assert (tmp_path / "moved" / "src" / "0.py").read_text().startswith("one")
    project.fsck()
    project.store.close()


def test_two_rollbacks_at_once_leave_one_of_the_two_states(tmp_path):
    project = Project(str(tmp_path))
    states = []
    for number in range(2):
        for name in range(20):
            project.write(f"d{name % 3}/{name}.txt", f"{number} {name}\n")
        states.append((project.before(), project.tree()))
    project.write("d0/0.txt", "now\n")
    children = []
    for point, _ in states * 2:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                mine = Project(str(tmp_path))
                mine.back(point)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    taken = [project.take("before") for _ in range(5)]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert project.leftovers() == []
    assert all(".safekept-tmp-" not in path for point in taken for path in project.store.state(point))
    last = project.back(states[0][0], overwrite_mine=True)
    assert last.complete and project.tree() == states[0][1]
    project.fsck()
    project.store.close()


def test_a_hundred_files_are_synced_at_once_and_come_back(tmp_path):
    project = Project(str(tmp_path))
    for number in range(120):
        project.write(f"d{number % 50}/{number}.txt", f"{number}\n")
    point = project.before()
    was = project.tree()
    for number in range(120):
        project.write(f"d{number % 50}/{number}.txt", "changed\n")
    assert len(project.back(point).restored) >= 120 and project.tree() == was
    project.store.close()


def test_a_database_opened_while_the_rollback_runs_stays_with_its_log(tmp_path, monkeypatch):
    project = Project(str(tmp_path))
    path = project.full("app.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
    project.write("other.txt", "one\n")
    point = project.before()
    pid = os.fork()
    if pid == 0:  # a writer that dies and leaves its log
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        os._exit(0)
    os.waitpid(pid, 0)
    project.write("other.txt", "two\n")
    log = project.read("app.db-wal")
    real = placing.make

    def opened_late(ground, change):
        if change.kind == "swap":
            monkeypatch.setattr(
                "safekept.checkpoints.rollback.run.open_elsewhere", lambda full: "pid 1 (agent)"
            )
        return real(ground, change)

    monkeypatch.setattr("safekept.checkpoints.rollback.run.make", opened_late)
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    monkeypatch.setattr(  # the logs first, the database last
        "safekept.checkpoints.rollback.preparing._order",
        lambda change: (
            0 if change.path.endswith(("-wal", "-shm")) else 2 if change.path == "app.db" else 1,
        ),
    )
    result = roll_back(project.store, plan, settings=project.settings)
    assert {left.path: left.reason for left in result.left} == {"app.db": "held"}
    assert project.read("app.db-wal") == log and project.read("other.txt") == b"one\n"
    monkeypatch.undo()
    assert project.leftovers() == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    project.store.close()


def test_what_cannot_be_looked_into_is_left_and_the_rest_comes_back(nobodys):  # noqa: F811
    def run():
        project, _ = edited(nobodys)
        project.write("locked/x.txt", "not saved by the point\n")
        locked = project.before()
        project.write("locked/x.txt", "changed\n")
        project.write("src/1.py", "three\n")
        os.chmod(project.full("locked"), 0)
        result = project.back(locked)
        os.chmod(project.full("locked"), 0o755)
        seen = (
            {left.path: left.reason for left in result.left},
            project.read("locked/x.txt"),
            project.read("src/1.py"),
        )
        project.store.close()
        return seen

    left, content, other = as_nobody(run)
    assert left["locked/x.txt"] == "unreadable" and content == b"changed\n" and other.startswith(b"two 1")
