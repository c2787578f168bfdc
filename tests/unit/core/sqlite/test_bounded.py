"""A statement on a database that we did not make ends in its time, wherever the time goes."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import pytest

from safekept.core.sqlite.bounded import bounded_connection

#: Two milliseconds for every row, in one step of SQLite's machine, and another value for each: no value
#: is longer than one may be, and all rows together take fewer steps than a quick look at a large table.
SLOW = "hex(zeroblob(300000 + x))"
ROWS = 10_000


@pytest.fixture
def path(tmp_path):
    place = str(tmp_path / "state.db")
    with contextlib.closing(sqlite3.connect(place)) as database:
        database.execute("create table trap (x check (hex(1) > 'a' or x))")
        database.executemany("insert into trap values (?)", [(1,)] * ROWS)
        database.execute("pragma writable_schema = on")
        database.execute("update sqlite_schema set sql = replace(sql, 'hex(1)', ?)", (SLOW,))
        database.commit()
    return place


@pytest.mark.parametrize("words", ["pragma quick_check", f"select sum(length({SLOW})) from trap"])
@pytest.mark.parametrize("only_look", [True, False])
def test_a_statement_of_few_long_steps_is_ended(path, words, only_look):
    with contextlib.closing(bounded_connection(f"file:{path}", path, 1, only_look=only_look)) as database:
        database.allowance = 0.1
        began = time.process_time()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            database.execute(words).fetchall()
        assert time.process_time() - began < 5, "of more than ten seconds for all rows"
