"""Going back to a checkpoint: exact, only what differs, and never at the cost of what was not saved."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest

from safekept.checkpoints.rollback.project_tree import ProjectReplaced
from safekept.checkpoints.rollback.rollback import NoRollbackToUndo, plan_rollback, roll_back
from safekept.checkpoints.take.taking import ProjectGone
from support.platforms.needs import where_the_disk_can
from support.projects.rollbacks import Project


@pytest.fixture
def project(tmp_path):
    made = Project(str(tmp_path))
    made.write("src/main.py", "print('one')\n")
    made.write("src/tool.sh", "#!/bin/sh\n", mode=0o755)
    made.write("notes.txt", "notes\n", mode=0o600)
    made.write("deep/er/file.bin", bytes(range(256)))
    os.mkdir(made.full("empty"))
    with where_the_disk_can():
        os.symlink("src/main.py", made.full("link"))
    yield made
    made.store.close()


def reasons(result):
    return {left.path: left.reason for left in result.left}


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_rollback_gives_back_the_tree_exactly(project):
    was = project.tree()
    point = project.before()
    project.write("src/main.py", "print('two')\n")
    project.delete("notes.txt")
    project.delete("deep")
    os.rmdir(project.full("empty"))
    os.chmod(project.full("src/tool.sh"), 0o600)
    os.unlink(project.full("link"))
    os.symlink("elsewhere", project.full("link"))
    project.write("new/made/since.txt", "new\n")
    result = project.back(point)
    assert project.tree() == was
    assert result.complete and not result.left
    assert sorted(result.removed) == ["new", "new/made", "new/made/since.txt"]
    assert "src/main.py" in result.restored and "notes.txt" in result.restored
    assert project.leftovers() == []


def test_only_files_that_differ_are_touched(project):
    point = project.before()
    untouched = {
        path: os.lstat(project.full(path)) for path in ("src/tool.sh", "notes.txt", "deep/er/file.bin")
    }
    project.write("src/main.py", "changed\n")
    project.back(point)
    for path, facts in untouched.items():
        now = os.lstat(project.full(path))
        assert (now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == (
            facts.st_ino,
            facts.st_mtime_ns,
            facts.st_ctime_ns,
        )


def test_undo_gives_back_what_was_there_and_can_itself_be_undone(project):
    point = project.before()
    at_checkpoint = project.tree()
    project.write("src/main.py", "print('two')\n")
    project.write("made.txt", "made\n")
    project.delete("notes.txt")
    was = project.tree()
    project.back(point)
    assert project.tree() == at_checkpoint
    project.undo()
    assert project.tree() == was
    project.undo()
    assert project.tree() == at_checkpoint
    project.undo()
    assert project.tree() == was


def test_nothing_to_undo_is_said(project):
    project.before()
    with pytest.raises(NoRollbackToUndo) as caught:
        project.undo()
    assert "no rollback changed anything" in caught.value.what and caught.value.kept == "Nothing was changed"


def test_undo_of_a_point_that_is_no_undo_point_is_refused(project):
    point = project.before()
    with pytest.raises(NoRollbackToUndo, match="was not taken before a rollback"):
        project.undo(point.id)


def test_the_times_of_directories_come_back(project):
    os.utime(project.full("src"), ns=(10**18, 10**18))
    point = project.before()
    project.write("src/extra.py", "x\n")
    project.write("src/main.py", "changed\n")
    project.back(point)
    assert os.stat(project.full("src")).st_mtime_ns == 10**18


@pytest.mark.needs("modes", "it looks at modes")
def test_mode_and_time_alone_are_put_back_without_replacing_the_file(project):
    os.utime(project.full("notes.txt"), ns=(10**18, 10**18))
    point = project.before()
    inode = os.stat(project.full("notes.txt")).st_ino
    os.chmod(project.full("notes.txt"), 0o644)
    os.utime(project.full("notes.txt"))
    result = project.back(point)
    now = os.stat(project.full("notes.txt"))
    assert (now.st_ino, stat.S_IMODE(now.st_mode), now.st_mtime_ns) == (inode, 0o600, 10**18)
    assert result.done == [("notes.txt", "metadata")]


KINDS = ["file", "directory", "symlink", "nothing"]


@pytest.mark.parametrize(
    ("was", "becomes"), [(one, two) for one in KINDS for two in KINDS if (one, two) != ("nothing", "nothing")]
)
@pytest.mark.needs(
    "symlinks",
    "it makes symbolic links",
    only={
        "nothing-symlink",
        "symlink-directory",
        "directory-symlink",
        "file-symlink",
        "symlink-nothing",
        "symlink-file",
        "symlink-symlink",
    },
)
@pytest.mark.needs("modes", "it looks at modes", only={"directory-directory"})
def test_a_path_changes_its_kind_and_back(project, was, becomes):
    def make(kind, later=False):
        if kind == "file":
            project.write("thing", f"{kind} of {was} and {becomes}{', later' * later}\n")
        elif kind == "directory":
            project.write("thing/inside/a.txt", "inside\n")
            os.mkdir(project.full("thing/hollow"))
        elif kind == "symlink":
            os.symlink("src", project.full("thing"))

    make(was)
    point = project.before()
    at_checkpoint = project.tree()
    if was != "nothing":
        project.delete("thing")
    make(becomes, later=True)
    changed = project.tree()
    result = project.back(point)
    assert project.tree() == at_checkpoint and result.complete, result.left
    project.undo()
    assert project.tree() == changed


def test_ignored_oversize_and_secret_files_are_never_touched(project):
    project.write(".env", "SECRET=1\n")
    project.write("node_modules/pkg/index.js", "one\n")
    project.write("huge.bin", b"0" * (2 << 20))
    point = project.before()
    project.write(".env", "SECRET=2\n")
    project.write("node_modules/pkg/index.js", "two\n")
    project.write("huge.bin", b"1" * (2 << 20))
    project.write("node_modules/new.js", "new\n")
    project.write("huge-too.bin", b"2" * (2 << 20))
    project.write("src/main.py", "changed\n")
    result = project.back(point)
    assert project.read(".env") == b"SECRET=2\n"
    assert project.read("node_modules/pkg/index.js") == b"two\n"
    assert project.read("huge.bin")[:1] == b"1" and project.exists("huge-too.bin")
    assert project.exists("node_modules/new.js")
    told = {one.path: one.reason for one in result.plan.not_covered}
    assert told[".env"] == "secret" and told["huge.bin"] == "oversize" and told["huge-too.bin"] == "oversize"
    assert told["node_modules"] == "excluded"


def test_a_file_that_outgrew_the_limit_keeps_the_only_copy_of_what_it_holds(project):
    point = project.before()
    project.write("notes.txt", b"x" * (2 << 20))
    result = project.back(point)
    assert len(project.read("notes.txt")) == 2 << 20
    assert reasons(result) == {"notes.txt": "oversize"}


def test_a_file_that_was_too_large_then_is_not_taken_for_a_new_one(project):
    project.write("data.bin", b"x" * (2 << 20))
    point = project.before()
    project.write("data.bin", b"shrunk")
    result = project.back(point)
    assert project.read("data.bin") == b"shrunk"
    assert reasons(result) == {"data.bin": "then-left-out"}


def test_a_directory_with_something_uncovered_in_it_stays(project):
    point = project.before()
    project.write("fresh/new.txt", "new\n")
    project.write("fresh/.env", "SECRET\n")
    project.back(point)
    assert not project.exists("fresh/new.txt")
    assert project.read("fresh/.env") == b"SECRET\n"


def test_a_file_does_not_come_back_over_a_directory_that_holds_something_uncovered(project):
    point = project.before()
    project.delete("notes.txt")
    project.write("notes.txt/.env", "SECRET\n")
    result = project.back(point)
    assert project.read("notes.txt/.env") == b"SECRET\n"
    assert reasons(result)["notes.txt"] in ("in-the-way", "not-empty") and not result.complete


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_in_the_way_is_never_followed(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("precious\n")
    point = project.before()
    project.delete("src")
    os.symlink(str(outside), project.full("src"))
    result = project.back(point)
    assert (outside / "main.py").read_text() == "precious\n"
    assert sorted(os.listdir(outside)) == ["main.py"]
    assert not os.path.islink(project.full("src")) and project.read("src/main.py") == b"print('one')\n"
    assert result.complete


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_put_in_the_way_after_the_plan_is_never_followed(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("precious\n")
    point = project.before()
    project.write("src/main.py", "changed\n")
    project.write("src/new.py", "made since\n")
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    os.rename(project.full("src"), project.full("moved"))
    os.symlink(str(outside), project.full("src"))
    result = roll_back(project.store, plan, settings=project.settings)
    assert (outside / "main.py").read_text() == "precious\n" and os.listdir(outside) == ["main.py"]
    assert reasons(result)["src/main.py"] == "changed"


def test_a_file_that_changes_between_plan_and_rename_is_kept_and_listed(project):
    point = project.before()
    project.write("src/main.py", "the agent's\n")
    project.write("made.txt", "made\n")
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    project.write("src/main.py", "just now\n")
    project.write("made.txt", "MADE\n")
    result = roll_back(project.store, plan, settings=project.settings)
    assert project.read("src/main.py") == b"just now\n" and project.read("made.txt") == b"MADE\n"
    assert reasons(result) == {"src/main.py": "changed", "made.txt": "changed"} and not result.complete


def test_a_file_that_appears_between_plan_and_rename_is_kept(project):
    point = project.before()
    project.delete("notes.txt")
    plan = plan_rollback(project.store, project.path, point, settings=project.settings)
    project.write("notes.txt", "written again\n")
    result = roll_back(project.store, plan, settings=project.settings)
    assert project.read("notes.txt") == b"written again\n"
    assert reasons(result) == {"notes.txt": "in-the-way"}


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_names_of_any_bytes_come_back(project):
    names = [b"caf\xe9", "naïve ☕".encode(), b" leading", b"tab\there", b"new\nline", b"-rf", b"quote\"'`"]
    for name in names:
        project.write(os.fsdecode(b"odd/" + name), name)
    point = project.before()
    was = project.tree()
    for name in names:
        project.write(os.fsdecode(b"odd/" + name), b"clobbered")
    project.write(os.fsdecode(b"odd/new \xff"), b"made since")
    project.back(point)
    assert project.tree() == was


def test_crlf_utf16_and_ident_come_back_byte_for_byte(project):
    project.write(".gitattributes", "* text=auto eol=crlf ident working-tree-encoding=UTF-16\n")
    project.write("crlf.txt", b"a\r\nb\nc\r\n")
    project.write("ident.txt", b"$Id: keepme $\n")
    project.write("wide.txt", "text\r\n".encode("utf-16"))
    point = project.before()
    was = project.tree()
    for path in ("crlf.txt", "ident.txt", "wide.txt"):
        project.write(path, b"x")
    project.back(point)
    assert project.tree() == was


def test_the_users_git_repository_is_byte_identical_afterwards(project):
    project.write(".git/HEAD", "ref: refs/heads/main\n")
    project.write(".git/index", b"\x00index")
    project.write("sub/.git/HEAD", "ref: refs/heads/other\n")
    project.write("sub/work.txt", "one\n")
    point = project.before()
    project.write("sub/work.txt", "two\n")
    project.write(".git/index", b"\x00newer")
    was = {path: project.tree()[path] for path in project.tree() if ".git" in path}
    project.back(point)
    assert {path: project.tree()[path] for path in project.tree() if ".git" in path} == was
    assert project.read("sub/work.txt") == b"one\n"


def test_a_deleted_project_comes_back_whole(project):
    was = project.tree()
    point = project.before()
    project.delete("")
    with pytest.raises(ProjectGone) as caught:
        project.back(point)
    assert "not there any more" in caught.value.what and "still in the store" in caught.value.kept
    assert f"`safekept rollback {point.id} --dir {project.path}`" in caught.value.advice()[1]
    assert not os.path.exists(project.path)
    project.back(point, recreate=True)
    assert project.tree() == was


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"link"})
def test_a_project_replaced_by_something_else_is_refused(project, tmp_path, kind):
    point = project.before()
    os.rename(project.path, str(tmp_path / "moved"))
    if kind == "file":
        (tmp_path / "project").write_text("in the way\n")
    else:
        os.symlink(str(tmp_path / "moved"), project.path)
    with pytest.raises(ProjectReplaced) as caught:
        project.back(point, recreate=True)
    assert f"is a {kind} now" in caught.value.what and "nothing was changed" in caught.value.kept
    assert (tmp_path / "moved" / "notes.txt").read_text() == "notes\n"


def database(path, *rows):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(row,) for row in rows])
    connection.close()


def rows(path):
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT x FROM t")]
    finally:
        connection.close()


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_database_at_rest_is_restored_and_its_old_log_does_not_meet_it(project):
    path = project.full("app.db")
    database(path, 1)
    point = project.before()
    # A writer that died: its log stays beside the database, with rows that are only in it.
    pid = os.fork()
    if pid == 0:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("INSERT INTO t VALUES (2)")
        connection.commit()
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.path.exists(path + "-wal")
    result = project.back(point)
    assert result.complete, result.left
    assert not os.path.exists(path + "-wal")
    assert rows(path) == [1]
    project.undo()
    assert rows(path) == [1, 2]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_database_that_a_program_has_open_is_listed_with_its_holder(project):
    path = project.full("live.db")
    database(path, 1)
    point = project.before()
    database(path, 2)
    project.write("src/main.py", "changed\n")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        connection = sqlite3.connect(path)
        connection.execute("SELECT * FROM t").fetchall()
        os.write(writing, b"x")
        import time

        time.sleep(60)
        os._exit(0)
    try:
        os.read(reading, 1)
        inode = os.stat(path).st_ino
        result = project.back(point)
        assert reasons(result) == {"live.db": "held"} and not result.complete
        assert f"pid {pid}" in result.left[0].detail
        assert os.stat(path).st_ino == inode and project.read("src/main.py") == b"print('one')\n"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
    assert rows(path) == [1, 2]
