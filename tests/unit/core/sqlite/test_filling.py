"""An index that is filled beside a running agent ends as one that was made at once, whatever happens."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import safekept
from safekept.core.sqlite.lean import Filling, Recipe, fill, fillable, filling, rebuild_statement

WORDS = "harbour lantern copper violet thunder meadow saddle quartz ember willow falcon marble".split()
TEXT = "coalesce({0}body, '') || ' ' || coalesce({0}tag, '')"


def recipe(table, how=""):
    new = TEXT.format("new.")
    triggers = (
        f"CREATE TRIGGER {table}_insert AFTER INSERT ON note BEGIN "
        f"INSERT INTO {table}(rowid, body) VALUES (new.id, {new}); END",
        f"CREATE TRIGGER {table}_delete AFTER DELETE ON note BEGIN "
        f"DELETE FROM {table} WHERE rowid = old.id; END",
        f"CREATE TRIGGER {table}_update AFTER UPDATE ON note BEGIN "
        f"DELETE FROM {table} WHERE rowid = old.id; "
        f"INSERT INTO {table}(rowid, body) VALUES (new.id, {new}); END",
    )
    statement = f"CREATE VIRTUAL TABLE {table} USING fts5(body{how})"
    return Recipe(table, statement, "note", "id", {"body": TEXT.format("")}, triggers)


RECIPES = (recipe("words"), recipe("pieces", ", tokenize='trigram'"))


def said(source):
    return " ".join(source.choices(WORDS, k=source.randint(1, 30)))


def make(path, rows, recipes=RECIPES):
    """Rows with empty indexes: as a restore leaves them."""
    source = random.Random(rows)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("BEGIN")
        database.execute("CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT, tag TEXT)")
        for number in range(rows):
            key = number * 3 - 20  # with gaps, and below nothing
            database.execute("INSERT INTO note VALUES(?, ?, ?)", (key, said(source), WORDS[number % 12]))
        for one in recipes:
            for statement in (one.statement, *one.triggers):
                database.execute(statement)
        database.execute("COMMIT")
    return path


def fill_all(path, recipes=RECIPES, state=None, seconds=60.0):
    state = state or Filling()
    while not fill(path, recipes, state, seconds):
        pass
    return state


def found(database):
    asked = [*WORDS, "har*", '"copper violet"']
    answers = {}
    for table in ("words", "pieces"):
        for word in asked:
            query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid"
            answers[table, word] = database.execute(query, (word,)).fetchall()
        answers[table, "rows"] = database.execute(f"SELECT * FROM {table}_content ORDER BY 1").fetchall()
        answers[table, "sizes"] = database.execute(f"SELECT * FROM {table}_docsize ORDER BY 1").fetchall()
    return answers


def is_as_made_at_once(path):
    """By FTS5's own check, and by every answer of indexes that are made anew from the same rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for one in RECIPES:
            database.execute(f"INSERT INTO {one.table}({one.table}) VALUES('integrity-check')")
        filled = found(database)
        for one in RECIPES:
            database.execute(f"DELETE FROM {one.table}")
            database.execute(rebuild_statement(one))
        assert filled == found(database)
        assert filled["words", "rows"], "there is something to find"


def test_a_filled_index_answers_as_one_that_was_made_at_once(tmp_path):
    path = make(str(tmp_path / "state.db"), 400)
    state = fill_all(path)
    assert (state.done, state.total, state.left) == (800, 800, 0.0)
    is_as_made_at_once(path)
    assert fill(path, RECIPES, Filling(), 0.0), "and then nothing is left to do"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM words WHERE rowid % 2")
    assert not fill(path, RECIPES, state, 60.0), "what was whole is looked at once more"
    fill_all(path, state=state)
    is_as_made_at_once(path)


def test_one_transaction_takes_few_rows_so_that_an_agent_never_waits_long(tmp_path, monkeypatch):
    path = make(str(tmp_path / "state.db"), 400)
    state = Filling()
    assert not fill(path, RECIPES, state, 0.0)
    assert state.done == filling._FIRST
    monkeypatch.setattr(filling, "_TRANSACTION", 0.0)  # everything takes too long
    fill(path, RECIPES, state, 0.0)
    assert state.rows == 1
    fill_all(path, state=state)
    is_as_made_at_once(path)


def removed(database, source):
    database.execute("DELETE FROM note WHERE id IN (SELECT id FROM note ORDER BY random() LIMIT 2)")


def changed(database, source):
    database.execute(
        "UPDATE note SET body = ? WHERE id IN (SELECT id FROM note ORDER BY random() LIMIT 2)",
        (said(source),),
    )


def added(database, source):
    database.execute("INSERT INTO note(body, tag) VALUES(?, 'new')", (said(source),))


def added_before(database, source):
    least = database.execute("SELECT coalesce(min(id), 0) FROM note").fetchone()[0]
    database.execute("INSERT INTO note VALUES(?, ?, NULL)", (least - 1, said(source)))


def merged(database, source):
    for one in RECIPES:
        database.execute(f"INSERT INTO {one.table}({one.table}) VALUES('optimize')")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 60),
    deeds=st.lists(st.sampled_from([removed, changed, added, added_before, merged]), max_size=25),
)
def test_whatever_an_agent_does_between_two_transactions_the_end_is_the_same(rows, deeds):
    with tempfile.TemporaryDirectory() as place:
        path, source, state = make(os.path.join(place, "state.db"), rows), random.Random(7), Filling(rows=2)
        with closing(sqlite3.connect(path, isolation_level=None)) as agent:
            for deed in deeds:
                state.rows = min(state.rows, 3)
                fill(path, RECIPES, state, 0.0)
                deed(agent, source)
            added(agent, source)
        fill_all(path, state=state)
        is_as_made_at_once(path)


def test_a_row_that_is_not_indexed_yet_can_be_removed_and_changed(tmp_path):
    path = make(str(tmp_path / "state.db"), 60)
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("DELETE FROM note WHERE id = 40")
        agent.execute("UPDATE note SET body = 'once and only' WHERE id = 43")
        fill_all(path)
        query = "SELECT rowid FROM words WHERE words MATCH 'only'"
        assert agent.execute(query).fetchall() == [(43,)], "it is in the index once"
        assert agent.execute("SELECT count(*) FROM words WHERE rowid = 40").fetchone() == (0,)
    is_as_made_at_once(path)


AGENT = """
import random, sqlite3, sys
agent, source = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=300), random.Random(3)
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    text = " ".join(source.choices(sys.argv[3:], k=9))
    agent.execute("INSERT INTO note(body, tag) VALUES(?, 'live')", (text,))
    agent.execute("DELETE FROM note WHERE id = ?", (source.randrange(0, 1500),))
    agent.execute("UPDATE note SET tag = 'seen' WHERE id = ?", (source.randrange(0, 1500),))
"""


def test_an_agent_that_writes_all_the_time_and_two_fills_at_once(tmp_path):
    path = make(str(tmp_path / "state.db"), 500)
    command = [sys.executable, "-I", "-c", AGENT, path, "60", *WORDS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as agent:
        agent.stdout.readline()
        wrong: list[BaseException] = []

        def work():
            try:
                fill_all(path, seconds=0.05)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _, complaints = agent.communicate()
    assert (agent.returncode, complaints, wrong) == (0, "", [])
    fill_all(path)
    is_as_made_at_once(path)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from safekept.core.sqlite.lean import Filling, Recipe, fill, filling
seen, real = 0, filling.connect
def watched(*words, **more):
    connection = real(*words, **more)
    def count(statement):
        global seen
        seen += 1
        if seen == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
    connection.set_trace_callback(count)
    return connection
filling.connect = watched
state = Filling(rows=4)
while not fill(sys.argv[2], eval(sys.argv[4]), state, 0.0):
    state.rows = 4
"""


def test_killed_before_any_statement_it_goes_on_where_it_was(tmp_path):
    root = os.path.dirname(os.path.dirname(safekept.__file__))
    path = make(str(tmp_path / "state.db"), 40)
    for at in (4, 7, 8, 9, 10, 25):
        command = [sys.executable, "-I", "-c", KILLED, root, path, str(at), repr(RECIPES)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    fill_all(path)
    is_as_made_at_once(path)


def test_a_table_over_the_text_of_another_is_never_filled_beside_an_agent(tmp_path):
    """Removing a row of it that is not indexed yet would raise `malformed`."""
    outside = recipe("words", ", content='note', content_rowid='id'")
    path = make(str(tmp_path / "state.db"), 20, (outside,))
    with closing(sqlite3.connect(path)) as database:
        assert fillable(database, (outside,)) == []
    assert fill(path, (outside,), Filling(), 60.0)


@pytest.mark.parametrize(
    "done",
    [
        "DROP TRIGGER words_update",
        "CREATE TRIGGER odd AFTER INSERT ON note BEGIN DELETE FROM words WHERE rowid = 1; END",
        "DROP TABLE words",
    ],
)
def test_what_is_not_as_it_is_known_is_left_alone(tmp_path, done):
    path = make(str(tmp_path / "state.db"), 20)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(done)
        assert fillable(database, RECIPES) == [RECIPES[1]]
        fill_all(path)
        assert database.execute("SELECT count(*) FROM pieces_docsize").fetchone() == (20,)
        if "TABLE" not in done:
            assert database.execute("SELECT count(*) FROM words_docsize").fetchone() == (0,)


def test_another_statement_than_the_known_one_is_left_alone(tmp_path):
    path = make(str(tmp_path / "state.db"), 20)
    other = replace(RECIPES[0], statement=RECIPES[0].statement.replace("body", "body, more"))
    assert fill(path, (other,), Filling(), 60.0)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM words_docsize").fetchone() == (0,)


def test_whoever_keeps_it_locked_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "_PATIENCE", 0.05)
    path = make(str(tmp_path / "state.db"), 20)
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("BEGIN IMMEDIATE")
        state = Filling()
        assert not fill(path, RECIPES, state, 60.0)
        agent.execute("COMMIT")
    fill_all(path, state=state)
    is_as_made_at_once(path)
