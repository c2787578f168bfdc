"""Rows of a live database are counted without a copy, a wait or a trace; else nothing is known."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3

import pytest

from safekept.core.sqlite import look_quickly
from support.home.database_holder import held

ITEMS = {"items": "SELECT count(*) FROM item"}
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
PLENTY = 30.0  # nobody waits so long: a machine that is busy must not decide


@pytest.fixture(params=["wal", "delete"])
def path(tmp_path, request):
    path = tmp_path / "state.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"pragma journal_mode={request.param}")
        database.executescript("create table item (x); insert into item values (1), (2), (3);")
    return str(path)


def count_rows(path, queries, seconds):
    """The answers; None where one is missing."""
    found = look_quickly(path, queries, seconds)
    return None if found is None or None in found.counts.values() else found.counts


def around(path):
    directory = os.path.dirname(path)
    return {name: os.lstat(os.path.join(directory, name))[:8] for name in os.listdir(directory)}


def test_one_that_nobody_has_open_is_counted_and_nothing_is_left_beside_it(path):
    before = around(path)
    assert count_rows(path, ITEMS, PLENTY) == {"items": 3}
    assert around(path) == before


def test_what_is_not_committed_does_not_count_and_the_writer_goes_on(path):
    with held(path, "begin", "delete from item where x > 1") as agent:
        assert count_rows(path, ITEMS, PLENTY) == {"items": 3}
        agent.run("commit")
        assert count_rows(path, ITEMS, PLENTY) == {"items": 1}
        agent.run("insert into item values (4)")


def test_a_count_that_takes_too_long_is_given_up(path):
    assert count_rows(path, {**ITEMS, "endless": ENDLESS}, 0.1) is None


def test_a_lock_is_not_waited_for(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode=delete")
    with held(path, "begin exclusive"):
        assert count_rows(path, ITEMS, 0.05) is None


def test_a_log_that_a_crash_left_needs_a_copy_first_and_is_left_alone(path, tmp_path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("pragma wal_autocheckpoint=0")
        database.execute("delete from item")
        database.commit()
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for name in ("state.db", "state.db-wal"):
            shutil.copy2(tmp_path / name, crashed / name)
    before = around(str(crashed / "state.db"))
    assert count_rows(str(crashed / "state.db"), ITEMS, PLENTY) is None
    assert around(str(crashed / "state.db")) == before


@pytest.mark.parametrize("make", [lambda path: None, os.mkdir, lambda path: os.symlink("/etc/passwd", path)])
@pytest.mark.needs("symlinks", "it makes symbolic links", only={"<lambda>1"})
def test_what_is_no_file_is_unknown(tmp_path, make):
    path = str(tmp_path / "thing.db")
    make(path)
    assert count_rows(path, ITEMS, PLENTY) is None


def test_a_table_that_is_gone_is_unknown_and_not_empty(path):
    assert count_rows(path, {"other": "SELECT count(*) FROM other"}, PLENTY) is None


def test_one_that_is_not_asked_to_be_checked_is_not_called_sound(path):
    assert look_quickly(path, ITEMS, PLENTY).state == "unverified"
    assert look_quickly(path, ITEMS, PLENTY, True).state == "sound"
    assert look_quickly(path, {}, PLENTY, True).state == "sound"


@pytest.mark.parametrize("check", [True, False])
def test_damage_that_a_count_meets_is_damage_whether_a_check_was_asked_for_or_not(path, check):
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    before = around(path)
    found = look_quickly(path, ITEMS, PLENTY, check)
    assert found.state == "damaged" and found.detail
    assert around(path) == before


def test_a_check_for_which_writers_would_wait_is_left_to_the_doctor(path, monkeypatch):
    monkeypatch.setattr("safekept.core.sqlite.hold.pin.COPY_UNDER_LOCK", 0)
    with contextlib.closing(sqlite3.connect(path)) as database:
        (mode,) = database.execute("pragma journal_mode").fetchone()
    assert look_quickly(path, ITEMS, PLENTY, True).state == ("sound" if mode == "wal" else "unverified")
