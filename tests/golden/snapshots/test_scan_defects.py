"""What a tester found in backups: each case with the exit code and the words the user reads."""

import json
import os
import shutil
import sqlite3

import pytest

from support.commands.error_texts import error_code


def account(done):
    return json.loads(done.stdout)


def said(done, outcome):
    return {
        remark["path"]: remark["reason"]
        for remark in account(done)["remarks"]
        if remark["outcome"] == outcome
    }


@pytest.mark.parametrize("size", [16, 100, 28772])
def test_a_truncated_database_is_stored_and_said_to_be_damaged(tmp_path, hermes_home, safekept, size):
    path = os.path.join(hermes_home, "plugins", "notes.dat")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [("y" * 100,) for _ in range(1000)])
    connection.close()
    os.truncate(path, size)
    out = str(tmp_path / "out.zip")
    done = safekept("backup", "--home", hermes_home, "-o", out, "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "plugins/notes.dat" in account(done)["damaged"]
    assert "the database is damaged" in said(done, "damaged")["plugins/notes.dat"]


def test_a_chat_database_behind_a_link_makes_a_backup_incomplete(tmp_path, hermes_home, safekept):
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    shutil.move(os.path.join(hermes_home, "state.db"), kept / "state.db")
    os.symlink(kept / "state.db", os.path.join(hermes_home, "state.db"))
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "out.zip"), "--json")
    assert done.returncode == 3, done.stdout + done.stderr
    reason = said(done, "outside")["state.db"]
    assert f"`{kept}/state.db`" in reason
    assert "is not in this backup" in reason
    assert "back up" in reason
    census = account(done)["census"]["default"]
    assert census["sessions"] is None
    assert census["messages"] is None
    assert census["settings"] is not None


def test_what_is_left_out_on_purpose_behind_a_link_is_not_incomplete(tmp_path, hermes_home, safekept):
    shutil.move(os.path.join(hermes_home, "state.db"), tmp_path / "state.db")
    os.symlink(tmp_path / "state.db", os.path.join(hermes_home, "state.db"))
    out = str(tmp_path / "out.zip")
    done = safekept("backup", "--home", hermes_home, "--exclude", "/state.db", "-o", out, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert account(done)["census"]["default"]["sessions"] is None


def test_a_selection_that_leaves_nothing_is_an_error(tmp_path, hermes_home, safekept):
    out = tmp_path / "out.zip"
    for words in ([], ["--dry-run"]):
        done = safekept("backup", "--home", hermes_home, "--exclude", "*", "-o", str(out), *words)
        assert done.returncode == 1, done.stdout + done.stderr
        assert error_code(done.stderr) == "nothing-selected"
        assert "--exclude *" in done.stderr
        assert not out.exists()


def test_a_missing_directory_of_no_agent_is_called_a_directory(tmp_path, safekept):
    done = safekept("backup", "--home", str(tmp_path / "nowhere"), "--layout", "generic")
    assert error_code(done.stderr) == "home-not-found"
    assert f"There is no directory at `{tmp_path}/nowhere`" in done.stderr.replace("\n", " ")
    assert "directory home" not in done.stderr


def test_one_profile_says_nothing_of_what_is_outside_it(tmp_path, hermes_home, safekept):
    os.makedirs(os.path.join(hermes_home, "profiles", "coder", "backups"))
    for path in ("profiles/coder/config.yaml", "profiles/coder/backups/x", "hermes-agent/x", "backups/x"):
        os.makedirs(os.path.dirname(os.path.join(hermes_home, path)), exist_ok=True)
        with open(os.path.join(hermes_home, path), "w") as file:
            file.write("a: 1\n")
    out = str(tmp_path / "out.zip")
    done = safekept("backup", "--home", hermes_home, "--profile", "coder", "-o", out, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    left = said(done, "excluded")
    assert "profiles/coder/backups" in left
    assert [path for path in left if not path.startswith("profiles/coder/")] == []


def test_holes_of_a_sparse_file_come_back_as_zeros(tmp_path, hermes_home, safekept):
    path = os.path.join(hermes_home, "workspace.img")
    with open(path, "wb") as file:
        file.truncate(200 << 20)
        file.seek(150 << 20)
        file.write(b"something")
    done = safekept("backup", "--home", hermes_home, "-o", str(tmp_path / "out.zip"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    into = tmp_path / "back"
    done = safekept("import", str(tmp_path / "out.zip"), "--into", str(into), "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    with open(path, "rb") as before, open(into / "workspace.img", "rb") as after:
        assert before.read() == after.read()
