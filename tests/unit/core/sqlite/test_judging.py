"""Holders, verification and folding."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import safekept
from conftest import missing_part
from safekept.core.sqlite import DatabaseDamaged, verify
from safekept.core.sqlite.capture import CaptureOptions, look
from safekept.core.sqlite.fold import fold
from safekept.core.sqlite.holders import holders
from support.home import database_holder
from support.home.database_holder import held

SOURCE = str(Path(safekept.__file__).parent.parent)


def make(path: Path, mode: str = "wal", rows: int = 1000) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body TEXT)")
        connection.execute("CREATE INDEX item_body ON item (body)")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO item (body) VALUES (?)", ((f"row {n} " * 9,) for n in range(rows))
        )
        connection.execute("COMMIT")


def count(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM item").fetchone()[0]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_holder_is_named_and_we_are_not(tmp_path):
    make(tmp_path / "x.db")
    assert holders(str(tmp_path / "x.db")) == []
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as ours:
        ours.execute("SELECT * FROM item").fetchone()
        assert holders(str(tmp_path / "x.db")) == []
        with held(tmp_path / "x.db", "SELECT 1 FROM item") as other:
            [holder] = holders(str(tmp_path / "x.db"))
            assert holder.pid == other.pid
            assert holder.how == "has it open"
            # Cut where it is long: a checkout may lie deep.
            called = f"{sys.executable} {os.path.abspath(database_holder.__file__)}"
            assert called.startswith(holder.command.removesuffix("...")) or called in holder.command
    assert holders(str(tmp_path / "x.db")) == []
    assert holders(str(tmp_path / "absent.db")) == []


def test_looking_for_holders_drops_no_lock_of_ours(tmp_path):
    make(tmp_path / "x.db", "delete")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as ours:
        ours.execute("BEGIN IMMEDIATE")
        holders(str(tmp_path / "x.db"))
        attempt = "import sqlite3,sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        done = subprocess.run([sys.executable, "-c", attempt, tmp_path / "x.db"], capture_output=True)
        assert b"database is locked" in done.stderr
        ours.execute("ROLLBACK")


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_somebody_who_has_only_a_sidecar_open_is_a_holder(tmp_path):
    make(tmp_path / "x.db")
    with held(tmp_path / "x.db", "INSERT INTO item (body) VALUES ('x')") as other:
        with open(tmp_path / "x.db-wal", "rb") as log:
            reader = subprocess.Popen(["sleep", "60"], stdin=log)
        try:
            found = {holder.pid: holder for holder in holders(str(tmp_path / "x.db"))}
        finally:
            reader.kill()
            reader.wait()
        assert found.keys() == {other.pid, reader.pid}
        assert found[reader.pid].how == "has its -wal file open"
        # The kernel shows the bare name for an instant after a program began.
        assert found[reader.pid].command in ("sleep 60", "sleep")


AS_NOBODY = """
import os, sys
import shutil, subprocess  # this user may not be able to read the files of Python
sys.path.insert(0, sys.argv[1])
from safekept.core.sqlite.holders import holders
os.setgid(65534); os.setuid(65534)
for holder in holders(sys.argv[2]):
    print(holder.pid, holder.how, sep="|")
"""


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "SELECT 1 FROM item"])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_process_that_may_not_be_looked_into_counts_as_a_holder(tmp_path, statement):
    """Seen by its lock, or by its command line, which names the directory."""
    if os.geteuid() != 0:
        missing_part("needs two users")
    public = Path("/var/tmp") / f"safekept-{os.getpid()}-{len(statement)}"
    public.mkdir()
    try:
        public.chmod(0o755)
        make(public / "x.db", "delete")
        with held(public / "x.db", statement) as other:
            done = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, SOURCE, public / "x.db"], capture_output=True, text=True
            )
    finally:
        shutil.rmtree(public)
    assert f"{other.pid}|may have it open; its files cannot be listed" in done.stdout.splitlines(), done


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_verifying_leaves_nothing_behind_and_tells_sound_from_damaged(tmp_path, mode):
    make(tmp_path / "x.db", mode)
    facts = verify(str(tmp_path / "x.db"))
    assert (facts.state, facts.detail, facts.page_size, facts.method) == ("sound", "", 4096, "at-rest")
    assert os.listdir(tmp_path) == ["x.db"]
    with open(tmp_path / "x.db", "r+b") as file:
        file.seek(4096 * 4)
        file.write(b"\xa5" * 4096)
    facts = verify(str(tmp_path / "x.db"))
    assert facts.state == "damaged"
    assert facts.detail
    assert os.listdir(tmp_path) == ["x.db"]


@pytest.mark.parametrize("content", [b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 5000])
def test_what_sqlite_cannot_open_is_damaged(tmp_path, content):
    (tmp_path / "x.db").write_bytes(content)
    facts = verify(str(tmp_path / "x.db"))
    assert facts.state == "damaged"
    assert facts.detail == "file is not a database"


def test_only_a_thorough_check_compares_an_index_with_its_table(tmp_path):
    make(tmp_path / "x.db", "delete")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        # Take the index out of the schema, change a row behind its back, and put it back.
        connection.execute("PRAGMA writable_schema=ON")
        saved = connection.execute("SELECT * FROM sqlite_schema WHERE name = 'item_body'").fetchone()
        connection.execute("DELETE FROM sqlite_schema WHERE name = 'item_body'")
        connection.execute("PRAGMA writable_schema=RESET")
        connection.execute("UPDATE item SET body = 'elsewhere' WHERE id = 5")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", saved)
    assert verify(str(tmp_path / "x.db")).state == "sound"
    facts = verify(str(tmp_path / "x.db"), thorough=True)
    assert facts.state == "damaged"
    assert "missing from index item_body" in facts.detail


def test_a_table_of_a_module_we_do_not_have_is_no_damage(tmp_path):
    make(tmp_path / "x.db", "delete")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING vec0(a)')"
        )
    assert verify(str(tmp_path / "x.db")).state in ("sound", "unverified")


def strand(path: Path, staged: Path, *statements: str) -> None:
    """Copy a database with its sidecars as a killed process leaves them."""
    with held(path, *statements) as other:
        other.kill()
    for item in sorted(path.parent.iterdir()):
        if item.name.startswith(path.name):
            shutil.copyfile(item, str(staged) + item.name.removeprefix(path.name))


def test_folding_brings_the_rows_of_a_log_in(tmp_path):
    make(tmp_path / "x.db")
    statement = "INSERT INTO item (body) VALUES ('in the log')"
    strand(tmp_path / "x.db", tmp_path / "staged", "PRAGMA wal_autocheckpoint=0", statement)
    assert count(tmp_path / "staged") == 1000
    fold(str(tmp_path / "staged"))
    assert count(tmp_path / "staged") == 1001
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("staged")) == ["staged"]
    assert verify(str(tmp_path / "staged"), thorough=True).state == "sound"
    # It is still a database in WAL mode, as its owner made it.
    assert (tmp_path / "staged").read_bytes()[18:20] == b"\2\2"


def test_folding_rolls_a_hot_journal_back(tmp_path):
    make(tmp_path / "x.db", "delete")
    half = ["PRAGMA cache_size=2", "BEGIN", "UPDATE item SET body = 'half'"]
    strand(tmp_path / "x.db", tmp_path / "staged", *half)
    assert (tmp_path / "staged-journal").stat().st_size > 0
    fold(str(tmp_path / "staged"))
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith("staged")) == ["staged"]
    assert verify(str(tmp_path / "staged"), thorough=True).state == "sound"
    with contextlib.closing(sqlite3.connect(f"file:{tmp_path}/staged?immutable=1", uri=True)) as connection:
        assert connection.execute("SELECT count(*) FROM item WHERE body = 'half'").fetchone()[0] == 0


def test_a_shared_memory_of_another_machine_is_not_believed(tmp_path):
    make(tmp_path / "x.db")
    statement = "INSERT INTO item (body) VALUES ('in the log')"
    strand(tmp_path / "x.db", tmp_path / "staged", "PRAGMA wal_autocheckpoint=0", statement)
    (tmp_path / "staged-shm").write_bytes(b"\xa5" * 32768)
    fold(str(tmp_path / "staged"))
    assert count(tmp_path / "staged") == 1001


def test_folding_what_needs_none_changes_nothing(tmp_path):
    make(tmp_path / "x.db")
    before = (tmp_path / "x.db").read_bytes()
    fold(str(tmp_path / "x.db"))
    assert (tmp_path / "x.db").read_bytes() == before
    (tmp_path / "x.db-wal").touch()
    (tmp_path / "x.db-shm").write_bytes(b"stale")
    fold(str(tmp_path / "x.db"))
    assert os.listdir(tmp_path) == ["x.db"]
    assert count(tmp_path / "x.db") == 1000


def test_a_log_cut_short_is_folded_up_to_its_last_whole_commit(tmp_path):
    make(tmp_path / "x.db")
    inserts = ["INSERT INTO item (body) VALUES ('a')", "INSERT INTO item (body) VALUES ('b')"]
    strand(tmp_path / "x.db", tmp_path / "staged", "PRAGMA wal_autocheckpoint=0", *inserts)
    os.truncate(tmp_path / "staged-wal", (tmp_path / "staged-wal").stat().st_size - 100)
    fold(str(tmp_path / "staged"))
    assert count(tmp_path / "staged") == 1001
    assert verify(str(tmp_path / "staged"), thorough=True).state == "sound"


def test_what_cannot_be_folded_is_said_and_left(tmp_path):
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (tmp_path / "x.db-wal").write_bytes(b"something")
    with pytest.raises(DatabaseDamaged) as refused:
        fold(str(tmp_path / "x.db"))
    error = refused.value
    assert error.what.startswith(f"SQLite cannot recover `{tmp_path}/x.db` with the log beside it: ")
    assert error.kept == "Its log is still beside it, and the original was not touched"
    assert error.advice() == ("Restore an older copy of this database, or take the rest without it",)
    assert (tmp_path / "x.db-wal").read_bytes() == b"something"
    assert sorted(os.listdir(tmp_path)) == ["x.db", "x.db-wal"]


def test_a_count_that_meets_damage_has_the_database_checked_though_nobody_asked(tmp_path):
    path = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body TEXT)")
        connection.executemany("INSERT INTO item (body) VALUES (?)", ((f"row {n} " * 99,) for n in range(99)))
        connection.commit()
    options = CaptureOptions(scratch=str(tmp_path), check=False, isolated=False)
    queries = {"items": "SELECT count(*) FROM item"}
    facts = look(str(path), "x.db", options, queries)
    assert (facts.state, facts.counts) == ("unverified", {"items": 99})
    with open(path, "r+b") as file:
        file.seek(4 * 4096)
        file.write(b"\xa5" * 4096)
    facts = look(str(path), "x.db", options, queries)
    assert (facts.state, facts.counts) == ("damaged", {"items": None})
