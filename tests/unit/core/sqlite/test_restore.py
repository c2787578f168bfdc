"""Putting a database back under those who have it open: same inode, one transaction, or not at all."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import safekept
from safekept.core.sqlite import DatabaseDamaged, DatabaseHeld, DatabaseLocked, restore_into, verify
from support.home.database_holder import held

SOURCE = str(Path(safekept.__file__).parent.parent)


def make(path: Path, mode: str, text: str, rows: int = 1000, page_size: int = 4096) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body TEXT)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO item (body) VALUES (?)", ((text * 30,) for _ in range(rows)))
        connection.execute("COMMIT")


def texts(path: Path) -> list[tuple]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT substr(body, 1, 3), count(*) FROM item GROUP BY 1").fetchall()


@pytest.mark.parametrize("staged_mode", ["wal", "delete"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_those_who_have_it_open_see_the_old_then_the_new(tmp_path, mode, staged_mode):
    make(tmp_path / "staged.db", staged_mode, "new", rows=3000)
    make(tmp_path / "live.db", mode, "old")
    inode = (tmp_path / "live.db").stat().st_ino
    staged = (tmp_path / "staged.db").read_bytes()
    count = "SELECT substr(body, 1, 3), count(*) FROM item GROUP BY 1"
    with held(tmp_path / "live.db", "PRAGMA busy_timeout=0") as agent:
        assert agent.run(count) == [["old", 1000]]
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
        assert agent.run(count) == [["new", 3000]]
        agent.run("INSERT INTO item (body) VALUES ('agent')")
        assert agent.run("PRAGMA integrity_check") == [["ok"]]
    assert (tmp_path / "live.db").stat().st_ino == inode
    assert texts(tmp_path / "live.db") == [("age", 1), ("new", 3000)]
    assert verify(str(tmp_path / "live.db"), thorough=True).state == "sound"
    assert (tmp_path / "staged.db").read_bytes() == staged
    assert sorted(os.listdir(tmp_path)) == ["live.db", "staged.db"]


def test_a_reader_in_the_middle_of_a_transaction_keeps_its_old_state(tmp_path):
    make(tmp_path / "staged.db", "wal", "new")
    make(tmp_path / "live.db", "wal", "old")
    with held(tmp_path / "live.db", "BEGIN", "SELECT count(*) FROM item") as reader:
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
        assert reader.run("SELECT DISTINCT substr(body, 1, 3) FROM item") == [["old"]]
        reader.run("COMMIT")
        assert reader.run("SELECT DISTINCT substr(body, 1, 3) FROM item") == [["new"]]


@pytest.mark.parametrize(
    ("mode", "statement"), [("wal", "BEGIN IMMEDIATE"), ("delete", "BEGIN IMMEDIATE"), ("delete", "BEGIN")]
)
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_lock_past_the_deadline_is_refused_by_name_and_changes_nothing(tmp_path, mode, statement):
    make(tmp_path / "staged.db", mode, "new")
    make(tmp_path / "live.db", mode, "old")
    with held(tmp_path / "live.db", statement, "SELECT * FROM item LIMIT 1") as agent:
        before = (tmp_path / "live.db").read_bytes()
        start = time.monotonic()
        with pytest.raises(DatabaseLocked) as refused:
            restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"), deadline=0.5)
        assert 0.4 < time.monotonic() - start < 60
        assert (tmp_path / "live.db").read_bytes() == before
        agent.run("COMMIT")
        error = refused.value
        assert error.what.startswith(f"`{tmp_path}/live.db` was locked for 0.5 s by pid {agent.pid} (")
        assert error.kept == "The live database is as it was"
        assert error.advice()[0].startswith(f"Stop pid {agent.pid} (")
        assert error.advice()[1] == "Then run the same command again"
        assert (error.code, error.retry, error.facts["holders"]) == ("database-locked", True, [agent.pid])
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"), deadline=5)
    assert texts(tmp_path / "live.db") == [("new", 1000)]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_another_page_size_under_a_live_log_is_refused_by_name(tmp_path):
    make(tmp_path / "staged.db", "wal", "new", page_size=8192)
    make(tmp_path / "live.db", "wal", "old")
    with held(tmp_path / "live.db", "SELECT count(*) FROM item") as agent:
        with pytest.raises(DatabaseHeld) as refused:
            restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
        assert agent.run("SELECT DISTINCT substr(body, 1, 3) FROM item") == [["old"]]
    error = refused.value
    assert error.what.startswith(
        f"`{tmp_path}/live.db` cannot be restored while it is open: its pages have 4096 bytes, "
        f"those of the copy 8192; open in pid {agent.pid} ("
    )
    assert error.kept == "The live database is as it was"
    assert (error.code, error.exit_code) == ("database-held", 11)


def test_another_page_size_goes_into_a_journal_database(tmp_path):
    make(tmp_path / "staged.db", "delete", "new", page_size=8192)
    make(tmp_path / "live.db", "delete", "old")
    with held(tmp_path / "live.db", "SELECT count(*) FROM item") as agent:
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
        assert agent.run("SELECT DISTINCT substr(body, 1, 3) FROM item") == [["new"]]
    assert verify(str(tmp_path / "live.db")).page_size == 8192


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_live_file_that_is_no_database_is_refused(tmp_path):
    make(tmp_path / "staged.db", "delete", "new")
    (tmp_path / "live.db").write_bytes(b"no database at all " * 500)
    with pytest.raises(DatabaseHeld, match="SQLite cannot open it") as refused:
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
    assert refused.value.advice()[0] == "Stop the program that uses this database"
    assert (tmp_path / "live.db").read_bytes() == b"no database at all " * 500


def test_a_damaged_copy_never_reaches_the_live_database(tmp_path):
    make(tmp_path / "staged.db", "wal", "new")
    with open(tmp_path / "staged.db", "r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 8192)
    make(tmp_path / "live.db", "wal", "old")
    before = (tmp_path / "live.db").read_bytes()
    with pytest.raises(DatabaseDamaged) as refused:
        restore_into(str(tmp_path / "staged.db"), str(tmp_path / "live.db"))
    assert refused.value.what.startswith(f"The copy for `{tmp_path}/live.db` is damaged: ")
    assert refused.value.kept == "The live database is as it was"
    assert (tmp_path / "live.db").read_bytes() == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_killed_restore_leaves_the_old_rows(tmp_path, mode):
    make(tmp_path / "staged.db", mode, "new", rows=60_000)
    make(tmp_path / "live.db", mode, "old", rows=60_000)
    program = "import os, sys; sys.path.insert(0, sys.argv[1])\n"
    program += "from safekept.core.sqlite import restore\n"
    program += "real = restore._copy\n"
    program += "class Killing:\n"
    program += "    def __init__(self, source): self.source = source\n"
    program += "    def backup(self, target, pages, progress, sleep):\n"
    program += "        def kill(status, left, total): left * 2 < total and os.kill(os.getpid(), 9)\n"
    program += "        self.source.backup(target, pages=200, progress=kill)\n"
    program += "restore._copy = lambda source, *rest: real(Killing(source), *rest)\n"
    program += "restore.restore_into(sys.argv[2], sys.argv[3])\n"
    done = subprocess.run(
        [sys.executable, "-c", program, SOURCE, tmp_path / "staged.db", tmp_path / "live.db"]
    )
    assert done.returncode == -9
    assert texts(tmp_path / "live.db") == [("old", 60_000)]
    assert verify(str(tmp_path / "live.db"), thorough=True).state == "sound"
