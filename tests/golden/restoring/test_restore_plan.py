"""What a restore's plan says of databases: the rows that would go, and none that would not change."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from safekept.actions.restoring.restore import RestoreRequest, prepare_restore
from safekept.cli.commands.demo.home import make_demo_home
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway


@pytest.fixture(params=["lean", "full"])
def home(request, tmp_path, monkeypatch):
    monkeypatch.setattr("safekept.vault.write.memory.RACY_NS", 0)
    path = os.path.join(throwaway(tmp_path).places.user_home, ".hermes")
    if request.param == "lean":
        os.makedirs(path)
        make_demo_home(path, 200)
        return path
    return make_hermes_home(path, profiles=("coder",), awkward=False)


@pytest.fixture
def say(home, monkeypatch):
    return spoken(monkeypatch, os.path.dirname(home))


def add_messages(database: str, count: int) -> None:
    with closing(sqlite3.connect(database)) as connection:
        (session,) = connection.execute("select id from sessions limit 1").fetchone()
        connection.executemany(
            "insert into messages(session_id, role, content, timestamp) values (?, 'user', ?, 1.0)",
            [(session, f"new {number}") for number in range(count)],
        )
        connection.commit()


def test_the_plan_says_how_many_messages_would_go(say, home):
    assert say("snapshot").code == 0
    add_messages(os.path.join(home, "state.db"), 50)
    said = say("snapshot", "restore", "latest", "--dry-run")
    assert said.code == 0 and "  Goes       50 messages that came after the snapshot" in said.out
    document = json.loads(say("snapshot", "restore", "latest", "--dry-run", "--json").out)
    assert document["going"] == [{"path": "state.db", "name": "messages", "count": 50}]
    assert "50 messages would go" in document["needs_consent"]
    refused = say("snapshot", "restore", "latest")
    assert refused.code == 1 and "50 messages would go" in refused.err


def test_what_a_later_snapshot_has_goes_too_and_the_restore_takes_exactly_that_away(say, home):
    first = json.loads(say("snapshot", "--json").out)["id"][:8]
    add_messages(os.path.join(home, "state.db"), 3)
    assert say("snapshot").code == 0
    document = json.loads(say("snapshot", "restore", first, "--yes", "--json").out)
    assert document["going"] == [{"path": "state.db", "name": "messages", "count": 3}]
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        assert connection.execute("select count(*) from messages where content like 'new %'").fetchone() == (
            0,
        )


@pytest.mark.needs("proc or programs", "it asks who has a database open", only={"lean"})
@pytest.mark.needs("modes", "a file whose mode the disk does not keep counts as changed")
def test_a_database_that_did_not_change_is_not_said_to_be_replaced_and_is_not_touched(say, home, request):
    assert say("snapshot").code == 0
    lean = "stored without messages_fts" in " ".join(say("snapshot", "show", "latest").out.split())
    assert lean == (request.node.callspec.params["home"] == "lean")
    with open(os.path.join(home, "SOUL.md"), "a", encoding="utf-8") as file:
        file.write("more\n")
    before = os.stat(os.path.join(home, "state.db"))
    document = json.loads(say("snapshot", "restore", "latest", "--yes", "--json").out)
    assert (document["plan"]["replace"], document["going"]) == (["SOUL.md"], [])
    assert "state.db" in document["plan"]["same"] and document["landed"]["replaced"] == 1
    after = os.stat(os.path.join(home, "state.db"))
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.needs("proc or programs", "it asks who has a database open", only={"lean"})
@pytest.mark.needs("modes", "a file whose mode the disk does not keep counts as changed")
def test_one_that_changed_back_to_an_older_state_is_compared_with_that(say, home):
    """The same file and log as at the last snapshot, and an older one is asked for: it would be replaced."""
    first = json.loads(say("snapshot", "--json").out)["id"][:8]
    add_messages(os.path.join(home, "state.db"), 1)
    assert say("snapshot").code == 0
    document = json.loads(say("snapshot", "restore", first, "--dry-run", "--json").out)
    assert document["plan"]["replace"] == ["state.db"]


def test_rows_are_counted_in_a_process_of_its_own_where_threads_may_be_at_the_database(
    say, home, monkeypatch
):
    assert say("snapshot").code == 0
    add_messages(os.path.join(home, "state.db"), 7)
    here = throwaway(os.path.dirname(os.path.dirname(home)))

    def never_here(*_: object) -> None:
        raise AssertionError("opened in this process")

    monkeypatch.setattr("safekept.core.sqlite.capture.capture_here", never_here)
    with prepare_restore(here, RestoreRequest("latest", home=home, isolated=True)) as prepared:
        assert [(one.name, one.count) for one in prepared.going] == [("messages", 7)]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
@pytest.mark.needs("modes", "a file whose mode the disk does not keep counts as changed")
def test_plan_and_result_count_the_same_where_a_database_is_known_only_when_it_is_rebuilt(say, home, request):
    """After a restore the database is a rebuilt one: only rebuilt bytes tell that it is the same."""
    lean = request.node.callspec.params["home"] == "lean"
    assert say("snapshot").code == 0
    add_messages(os.path.join(home, "state.db"), 1)
    assert say("restore", "--yes").code == 0
    os.unlink(os.path.join(home, "SOUL.md"))
    planned = json.loads(say("restore", "--dry-run", "--json").out)["plan"]
    assert planned["create"] == ["SOUL.md"]
    assert planned["compared"] == (["state.db"] if lean else [])
    shown = say("restore", "--dry-run").out
    assert "Replaces" not in shown
    assert ("  Compares   1 file (databases; one that differs is replaced)" in shown) == lean
    refused = say("restore")
    assert refused.code == (1 if lean else 0)
    if lean:
        assert "1 database would be replaced if it differs" in refused.err
        assert "  Files      1 new, 0 replaced, " in say("restore", "--yes").out


def test_a_file_that_stands_where_a_directory_comes_is_named_as_removed(say, home):
    assert say("snapshot").code == 0
    memories = os.path.join(home, "memories")
    names = os.listdir(memories)
    for name in names:
        os.unlink(os.path.join(memories, name))
    os.rmdir(memories)
    with open(memories, "w", encoding="utf-8") as file:
        file.write("in the way\n")
    planned = json.loads(say("restore", "--dry-run", "--json").out)
    assert planned["plan"]["remove"] == ["memories"]
    assert "1 file that the snapshot lacks would be removed" in planned["needs_consent"]
    done = json.loads(say("restore", "--yes", "--json").out)
    assert (done["landed"]["removed"], done["landed"]["created"]) == (1, len(names))
    assert say("undo").code == 0 and os.path.isfile(memories)
