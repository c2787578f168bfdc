"""A running agent during a landing: its connection sees the restored rows, in the same inode, and goes on."""

import os
import random
import sqlite3
from contextlib import closing

from safekept.home.landing import undo
from support.home.homes import make_chat_database
from support.restoring.landings import file, landed, read, write


def rows(path, session):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        query = "select count(*) from messages where session_id = ?"
        return connection.execute(query, (session,)).fetchone()[0]


def test_a_live_writer_goes_on_in_the_restored_database(tmp_path, live_writer):
    home = str(tmp_path / ".hermes")
    os.mkdir(home)
    state = f"{home}/state.db"
    backup = str(tmp_path / "backup.db")
    make_chat_database(state, random.Random(1), messages=40)
    make_chat_database(backup, random.Random(2), messages=90)
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("insert into sessions(id, source, started_at) values ('restored', 'cli', 0)")
        connection.execute("insert into sessions(id, source, started_at) values ('live', 'cli', 0)")
        connection.execute(
            "insert into messages(session_id, role, content, timestamp) values ('restored', 'user', 'hi', 0)"
        )
        connection.commit()
        connection.execute("pragma journal_mode=delete")
    write(f"{home}/config.yaml", "old")
    inode = os.stat(state).st_ino
    writer = live_writer(state)
    writer.wait_for(20)
    before = rows(state, "live")
    result = landed(home, [file("config.yaml", "new"), file("state.db", read(backup))], deadline=30)
    writer.wait_for(20)  # it goes on, through the connection that it had all the time
    assert os.stat(state).st_ino == inode
    assert rows(state, "restored") == 1
    since = rows(state, "live")
    assert since >= 40
    kept = f"{result.replaced_in}/home/.hermes/state.db"
    assert rows(kept, "live") >= before, "rows that were committed before the landing are not kept"
    assert rows(kept, "restored") == 0
    undone = undo(home)
    writer.wait_for(10)
    assert os.stat(state).st_ino == inode
    assert rows(state, "restored") == 0
    assert rows(state, "live") >= before
    assert rows(f"{undone.replaced_in}/home/.hermes/state.db", "live") >= since, "an undo lost rows"
    assert rows(f"{undone.replaced_in}/home/.hermes/state.db", "restored") == 1
    assert read(f"{home}/config.yaml") == b"old"
