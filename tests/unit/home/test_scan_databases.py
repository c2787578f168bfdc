"""Databases in a home: known by header, captured in one state, their sidecars left where they are."""

from __future__ import annotations

import os
import sqlite3

import pytest

from safekept.core.entries import Kind, Outcome
from safekept.home.scan.databases import HeaderReader
from safekept.home.scan.scanning import Selection
from support.home.scanned import consume, look, paths, plant, plant_database, read, remarks


def rows(data: bytes, table: str = "messages") -> int:
    connection = sqlite3.connect(":memory:")
    try:
        # Memory cannot be in write-ahead mode; the two bytes that say so are not rows.
        connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.parametrize("isolated", [True, False])
def test_a_database_is_known_by_its_header_whatever_its_name(tmp_path: object, isolated: bool) -> None:
    home = plant(tmp_path, {"fake.db": b"x" * 4096, "text.txt": b"y" * 512})
    plant_database(f"{home}/state.db")
    plant_database(f"{home}/plugins/x/cache.dat")
    source = look(home, isolated=isolated)
    assert {entry.path for entry in source if entry.database} == {"state.db", "plugins/x/cache.dat"}
    taken, said = consume(source)
    assert said == []
    assert rows(taken["state.db"]) == rows(taken["plugins/x/cache.dat"]) == 6
    assert taken["fake.db"] == b"x" * 4096


def test_what_is_in_the_write_ahead_log_travels_and_the_log_does_not(tmp_path: object) -> None:
    home = plant(tmp_path, {"config.yaml": "x"})
    plant_database(f"{home}/state.db", journal="wal")
    connection = sqlite3.connect(f"{home}/state.db")
    connection.execute("INSERT INTO messages VALUES (100, 'only in the log')")
    connection.commit()
    try:
        assert os.path.getsize(f"{home}/state.db-wal") > 0
        source = look(home, isolated=True)
        taken, said = consume(source)
    finally:
        connection.close()
    assert sorted(taken) == ["config.yaml", "state.db"]
    assert rows(taken["state.db"]) == 7
    assert said == []
    (noted,) = remarks(source, Outcome.NOTED).values()
    assert noted.files == 2
    assert "stored as part of their database" in noted.reason


def test_sidecars_of_what_is_no_database_are_ordinary_files(tmp_path: object) -> None:
    home = plant(
        tmp_path, {"notes": "x", "notes-wal": "mine", "a-journal": "dear diary", "x-shm": b"\0" * 64}
    )
    taken, _ = consume(look(home))
    assert taken == {"notes": b"x", "notes-wal": b"mine", "a-journal": b"dear diary", "x-shm": b"\0" * 64}


def test_the_log_of_a_missing_database_is_left_out_because_it_would_do_harm(tmp_path: object) -> None:
    home = plant(
        tmp_path,
        {
            "gone.db-wal": b"\x37\x7f\x06\x82" + b"\0" * 60,
            "gone.db-shm": b"\x18\xe2\x2d\x00" + b"\0" * 60,
            "old.db-journal": b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 60,
            "keep": "x",
        },
    )
    source = look(home)
    assert paths(source) == ["keep"]
    excluded = remarks(source, Outcome.EXCLUDED)
    assert set(excluded) == {"gone.db-wal", "gone.db-shm", "old.db-journal"}
    assert "a database `gone.db` that is not there" in excluded["gone.db-wal"].reason


def test_the_log_of_a_damaged_database_stays_with_it(tmp_path: object) -> None:
    wal = b"\x37\x7f\x06\x82" + b"\0" * 60
    home = plant(tmp_path, {"state.db": b"\0" * 8192, "state.db-wal": wal})
    taken, _ = consume(look(home))
    assert taken == {"state.db": b"\0" * 8192, "state.db-wal": wal}


def test_sidecars_share_the_fate_of_an_excluded_database(tmp_path: object) -> None:
    home = plant(tmp_path, {"keep": "x"})
    plant_database(f"{home}/state.db", journal="wal")
    plant(home, {"state.db-wal": b"\x37\x7f\x06\x82" + b"\0" * 60})
    source = look(home, Selection(exclude=("/state.db",)))
    assert paths(source) == ["keep"]
    assert set(remarks(source, Outcome.EXCLUDED)) >= {"state.db", "state.db-wal"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "state.db should be a database and is empty (0 bytes)"),
        (b"\0" * 95_000, "state.db should be a database and is 95 KB of zero bytes"),
        (b"\0" * (9 << 20), "state.db should be a database and is 9.44 MB of zero bytes"),
        (b"hello" * 100, "state.db should be a database and is 500 bytes of something else"),
        (b"x" * (9 << 20), "state.db should be a database and is 9.44 MB of something else"),
    ],
)
def test_a_database_that_is_none_is_stored_and_said_in_plain_words(
    tmp_path: object, data: bytes, words: str
) -> None:
    # #68474: 95 MB of NULs and exit 0; #97568: 0 bytes, unnoticed for seven days.
    home = plant(tmp_path, {"profiles/coder/state.db": data})
    source = look(home)
    taken, said = consume(source)
    assert taken == {"profiles/coder/state.db": data}
    assert [(remark.outcome, remark.reason) for remark in said] == [(Outcome.DAMAGED, words)]
    assert said[0].incomplete
    assert source.census()["profiles/coder"]["sessions"] is None


def test_an_unknown_empty_or_zero_file_is_nobodys_business(tmp_path: object) -> None:
    home = plant(tmp_path, {"skills/x/empty.db": b"", "skills/x/zero.db": b"\0" * 1024})
    _, said = consume(look(home))
    assert said == []


def test_a_truncated_database_of_hermes_is_still_stored(tmp_path: object) -> None:
    home = plant(tmp_path, {})
    plant_database(f"{home}/state.db")
    os.truncate(f"{home}/state.db", 5000)
    taken, said = consume(look(home))
    assert len(taken["state.db"]) == 5000
    assert [remark.outcome for remark in said] == [Outcome.DAMAGED]


def test_a_file_that_becomes_a_database_before_it_is_read_is_captured(tmp_path: object) -> None:
    home = plant(tmp_path, {"new.db": "not yet"})
    (entry,) = [entry for entry in look(home) if entry.kind is Kind.FILE]
    os.unlink(f"{home}/new.db")
    plant_database(f"{home}/new.db")
    with entry.open() as content:
        data = b"".join(content.chunks())
        assert content.database is not None
        assert content.database.state == "sound"
    assert rows(data) == 6


def test_a_database_that_vanishes_is_gone(tmp_path: object) -> None:
    home = plant(tmp_path, {"config.yaml": "a: 1"})
    plant_database(f"{home}/state.db")
    source = look(home)
    entries = {entry.path: entry for entry in source}
    os.unlink(f"{home}/state.db")
    data, said = read(entries["state.db"])
    assert data is None
    assert said[0].outcome is Outcome.GONE
    read(entries["config.yaml"])
    assert source.census()["default"]["sessions"] == 0  # there is none any more: that is known


def test_a_header_is_looked_at_by_a_helper_when_the_caller_may_hold_locks(tmp_path: object) -> None:
    # POSIX locks die when any descriptor of the file is closed in the process that holds them.
    home = plant(tmp_path, {"x": "y"})
    plant_database(f"{home}/state.db")
    holder = sqlite3.connect(f"{home}/state.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        list(look(home, isolated=True))
        assert _locked_for_others(f"{home}/state.db")
        list(look(home, isolated=False))  # the control: looking for itself drops the lock
        assert not _locked_for_others(f"{home}/state.db")
    finally:
        holder.close()


def _locked_for_others(path: str) -> bool:
    import subprocess
    import sys

    code = (
        "import sqlite3, sys\n"
        "try: sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT count(*) FROM messages').fetchone()\n"
        "except sqlite3.OperationalError: print('locked')"
    )
    return (
        subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True).stdout
        == "locked\n"
    )


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_the_helper_answers_for_odd_missing_and_foreign_files(tmp_path: object) -> None:
    home = plant(tmp_path, {"short": "ab", "odd\n\udcff": "sixteen bytes and more"})
    os.mkfifo(f"{home}/pipe")
    os.symlink("short", f"{home}/link")
    reader = HeaderReader(isolated=True)
    try:
        assert reader.read(-1, "", f"{home}/odd\n\udcff") == b"sixteen bytes an"
        assert reader.read(-1, "", f"{home}/missing") == b"?" * 16
        assert reader.read(-1, "", f"{home}/short") == b"ab" + b"?" * 14
        assert reader.read(-1, "", f"{home}/link") == b"?" * 16
        assert reader.read(-1, "", f"{home}/pipe") == b"?" * 16
    finally:
        reader.close()
        reader.close()


@pytest.mark.parametrize("isolated", [True, False])
@pytest.mark.parametrize("size", [16, 100, 600, 28772])
@pytest.mark.parametrize("name", ["state.db", "plugins/x/notes.db", "plugins/x/cache.dat"])
def test_a_truncated_database_is_damaged_whatever_its_size_and_name(
    tmp_path: object, name: str, size: int, isolated: bool
) -> None:
    # An import knows databases by their first bytes; what it would refuse must not be stored as sound.
    home = plant(tmp_path, {"config.yaml": "x"})
    plant_database(f"{home}/{name}", rows=3000)
    with open(f"{home}/{name}", "rb") as file:
        whole = file.read()
    assert len(whole) > 28772
    os.truncate(f"{home}/{name}", size)
    (entry,) = [entry for entry in look(home, isolated=isolated) if entry.path == name]
    with entry.open() as content:
        assert b"".join(content.chunks()) == whole[:size]
        assert content.database is not None
        assert content.database.state == "damaged"
        assert [remark.outcome for remark in content.remarks] == [Outcome.DAMAGED]


def test_a_large_truncated_database_without_a_telling_name_is_damaged(tmp_path: object) -> None:
    home = plant(tmp_path, {"config.yaml": "x"})
    plant_database(f"{home}/cache.dat", rows=400_000)
    os.truncate(f"{home}/cache.dat", (8 << 20) + 100)
    taken, said = consume(look(home))
    assert len(taken["cache.dat"]) == (8 << 20) + 100
    assert [(remark.path, remark.outcome) for remark in said] == [("cache.dat", Outcome.DAMAGED)]


def test_the_log_of_a_truncated_database_is_not_stored_as_a_file_of_its_own(tmp_path: object) -> None:
    home = plant(tmp_path, {"x.dat": b"SQLite format 3\0" + b"z" * 84, "x.dat-wal": b"\x37\x7f\x06\x82 log"})
    taken, said = consume(source := look(home))
    assert sorted(taken) == ["x.dat"]
    assert [remark.outcome for remark in said] == [Outcome.DAMAGED]
    assert any("stored as part of their database" in remark.reason for remark in source.remarks)
