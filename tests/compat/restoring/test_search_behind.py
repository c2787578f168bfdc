"""A restore is over when the agent can work; its searches follow, whatever happens meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing

import pytest

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.base import search_behind
from safekept.actions.restoring.restore import RestoreRequest, prepare_restore
from safekept.actions.undo.undo import UndoRequest, take_back
from safekept.core.sqlite.lean import filling
from safekept.home.landing import expire, landings, unfilled
from safekept.home.landing.stage import rebuilding
from support.commands.waiting import wait_until
from support.home.lean_homes import TALK, WORDS, make_lean_home, rows, searches
from support.restoring.drills import drilled
from support.vault.snapshots import take

INDEXES = ["messages_fts", "messages_fts_trigram"]
SIZES = [f"{name}_docsize" for name in INDEXES]
EVERYTHING = ("messages", "sessions", *SIZES, *(f"{name}_content" for name in INDEXES))


@pytest.fixture(scope="module")
def small(tmp_path_factory, hermes_python):
    return make_lean_home(str(tmp_path_factory.mktemp("small") / ".hermes"), hermes_python, 300, spoken=10)


@pytest.fixture
def home(here, small):
    home = os.path.join(here.places.user_home, ".hermes")
    shutil.copytree(small, home)
    return home


@pytest.fixture(autouse=True)
def every_index_is_large(monkeypatch):
    monkeypatch.setattr(rebuilding, "WORTH_FILLING_BEHIND", 0)


@pytest.fixture
def started(monkeypatch):
    """Nobody fills by itself; which homes somebody should have been started for."""
    homes: list[str] = []
    name = "safekept.core.processes.process.run_detached"
    monkeypatch.setattr(name, lambda module, home: homes.append(home))
    return homes


def database_of(home):
    return os.path.join(home, "state.db")


def lose_messages(home):
    with closing(sqlite3.connect(database_of(home), isolation_level=None)) as connection:
        connection.execute("delete from messages where id > 5")
        connection.execute("pragma wal_checkpoint(truncate)")


def restore(here, **options):
    with prepare_restore(here, RestoreRequest("latest", search_behind=True, **options)) as prepared:
        return prepared.carry_out()


def indexed(home):
    with closing(sqlite3.connect(database_of(home))) as connection:
        return [connection.execute(f"select count(*) from {name}").fetchone()[0] for name in SIZES]


def some(home, bursts, monkeypatch):
    """So many bursts of a filling that is then cut off."""

    class CutOff(Exception):
        pass

    left = iter(range(bursts))

    def tell(_):
        if next(left, None) is None:
            raise CutOff

    with monkeypatch.context() as patched, pytest.raises(CutOff):
        patched.setattr(search_behind, "_BURST", 0.0)
        patched.setattr(filling, "_MOST", 20)
        search_behind.fill_all(home, tell)


def hermes_finds_it_sound(hermes, home):
    nowhere = os.path.dirname(home)
    environment = {"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": home}
    command = [hermes, "sessions", "repair", "--check-only"]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_restore_says_when_searches_find_everything_and_then_they_do(
    here, home, say, hermes, hermes_python
):
    before, asked = rows(database_of(home), *EVERYTHING), searches(hermes_python, database_of(home), 16)
    take(here, home)
    lose_messages(home)
    done = say("restore", "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].startswith("Your agent can work now; search complete in about ")
    noted = "its search index `messages_fts`, `messages_fts_trigram` is filled behind the restore"
    assert noted in " ".join(done.out.split())
    assert rows(database_of(home), "messages", "sessions") == {
        name: before[name] for name in ("messages", "sessions")
    }
    wait_until(lambda: not unfilled(home), "the end of the filling")
    assert rows(database_of(home), *EVERYTHING) == before
    with closing(sqlite3.connect(database_of(home), isolation_level=None)) as connection:
        for name in INDEXES:
            connection.execute(f"insert into {name}({name}) values('integrity-check')")
    assert searches(hermes_python, database_of(home), 16) == asked
    hermes_finds_it_sound(hermes, home)


def test_with_wait_and_where_it_is_quick_it_is_done_before_anything_is_replaced(
    here, home, say, started, monkeypatch
):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    done = say("restore", "--yes", "--wait")
    assert (done.code, started, unfilled(home)) == (0, [], []), done.err
    assert "search complete" not in done.out
    assert rows(database_of(home), *EVERYTHING) == before
    monkeypatch.setattr(rebuilding, "WORTH_FILLING_BEHIND", 1 << 40)
    lose_messages(home)
    assert restore(here).search_seconds == 0
    assert rows(database_of(home), *EVERYTHING) == before
    assert drilled(here, "latest").receipt.ok, "a drill restores as before"


def test_killed_half_way_it_goes_on_with_the_next_command_and_status_says_so(
    here, home, say, started, monkeypatch
):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restored = restore(here)
    assert (restored.search_seconds > 0, started) == (True, [home])
    assert indexed(home) == [0, 0]
    some(home, 2, monkeypatch)
    assert 0 < indexed(home)[0] < len(before["messages"])
    told = " ".join(say("status").out.split())
    assert "Search in state.db: complete in about " in told
    told = " ".join(say("doctor").out.split())
    assert "do not find everything yet: the index of state.db is being filled" in told
    assert len(started) > 1, "and each goes on with it"
    started.clear()
    assert say("snapshot").code == 0 and started[0] == home
    search_behind.fill_all(home)
    assert rows(database_of(home), *EVERYTHING) == before
    started.clear()
    assert "Search" not in say("status").out
    assert started == []


def test_a_snapshot_of_a_half_filled_index_comes_back_whole(here, home, started, monkeypatch):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restore(here)
    some(home, 3, monkeypatch)
    facts = take(here, home).databases["state.db"]["lean"]
    assert [one["table"] for one in facts["tables"]] == INDEXES, "nothing half is stored"
    assert [*facts["stale"]] == [], "and nobody is told that it is damaged"
    lose_messages(home)
    restore(here)
    search_behind.fill_all(home)
    assert rows(database_of(home), *EVERYTHING) == before
    assert drilled(here, "latest").receipt.ok


def test_an_archive_of_every_byte_waits_until_searches_find_everything(here, home, started, tmp_path):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restore(here)
    written = backup(here, BackupRequest(here.locate(home), output=str(tmp_path / "all.zip"))).written
    assert written.complete and not unfilled(home)
    shutil.unpack_archive(str(tmp_path / "all.zip"), str(tmp_path / "out"))
    (copy,) = [
        os.path.join(at, "state.db") for at, _, names in os.walk(tmp_path / "out") if "state.db" in names
    ]
    assert rows(copy, *EVERYTHING) == before


def test_an_undo_takes_it_back_and_nothing_is_left_to_fill(here, home, started, monkeypatch):
    take(here, home)
    lose_messages(home)
    lost = rows(database_of(home), *EVERYTHING)
    restored = restore(here)
    some(home, 2, monkeypatch)
    take_back(here, UndoRequest(restored.operation, home=home))
    assert rows(database_of(home), *EVERYTHING) == lost
    assert unfilled(home) == []


def test_what_an_undo_brings_back_is_filled_all_the_same(here, home, started, monkeypatch):
    """Taken back and brought again; replaced by a whole one and brought again."""
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restored = restore(here)
    some(home, 2, monkeypatch)
    undone = take_back(here, UndoRequest(restored.operation, home=home))
    assert unfilled(home) == []
    take_back(here, UndoRequest(undone.operation, home=home))
    assert len(unfilled(home)) == 1 and indexed(home)[1] == 0
    with prepare_restore(here, RestoreRequest("latest")) as prepared:
        over = prepared.carry_out()
    assert unfilled(home) == [] and rows(database_of(home), *EVERYTHING) == before
    take_back(here, UndoRequest(over.operation, home=home))
    assert len(unfilled(home)) == 1 and indexed(home)[1] == 0
    search_behind.fill_all(home)
    assert rows(database_of(home), *EVERYTHING) == before


def test_where_nothing_that_was_replaced_is_kept_the_note_is(here, home, started):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restore(here, keep_days=0)
    assert len(unfilled(home)) == 1
    search_behind.fill_all(home)
    assert rows(database_of(home), *EVERYTHING) == before
    expire(home, 0)
    assert landings(home) == []


def test_a_restore_meanwhile_finds_the_database_free(here, home, started, monkeypatch):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restore(here)
    monkeypatch.setattr(filling, "_MOST", 1)
    filler = threading.Thread(target=search_behind.fill_all, args=(home,))
    filler.start()
    wait_until(lambda: indexed(home)[0] > 0)
    with prepare_restore(here, RestoreRequest("latest", search_behind=True)) as prepared:
        assert prepared.plan.held == [], "what fills its index does not count as using it"
        assert prepared.carry_out().landed.replaced == 1
    filler.join()
    search_behind.fill_all(home)
    assert unfilled(home) == []
    assert rows(database_of(home), *EVERYTHING) == before


def test_an_agent_that_talks_meanwhile_loses_nothing(here, home, started, hermes, hermes_python):
    take(here, home)
    lose_messages(home)
    restore(here)
    hermes_finds_it_sound(hermes, home)
    environment = {"PATH": os.environ["PATH"], "HOME": here.places.user_home, "HERMES_HOME": home}
    command = [hermes_python, "-I", "-c", TALK, database_of(home), " ".join(WORDS[:7])]
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as agent:
        agent.stdout.readline()
        search_behind.fill_all(home)
        agent.stdin.close()
        said, complaints = agent.stdout.read(), agent.stderr.read()
    assert agent.returncode == 0, complaints
    with closing(sqlite3.connect(database_of(home), isolation_level=None)) as connection:
        (live,) = connection.execute("select count(*) from messages where session_id = 'live'").fetchone()
        assert live == 1 + len(said.split())
        (count,) = connection.execute("select count(*) from messages").fetchone()
        for name in INDEXES:
            connection.execute(f"insert into {name}({name}) values('integrity-check')")
    assert indexed(home) == [count, count]


def test_a_disk_error_is_told_and_tried_again(here, home, say, started, monkeypatch):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    lose_messages(home)
    restore(here)
    real = filling.fill

    def full(*words):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("safekept.core.sqlite.lean.filling.fill", full)
    search_behind.fill_all(home)
    told = " ".join(say("status").out.split())
    assert "not complete, the last try gave up: database or disk is full; every command tries again" in told
    monkeypatch.setattr("safekept.core.sqlite.lean.filling.fill", real)
    search_behind.fill_all(home)
    assert rows(database_of(home), *EVERYTHING) == before


def test_nothing_is_filled_while_a_landing_is_half_way(here, home, started, monkeypatch):
    take(here, home)
    lose_messages(home)
    restored = restore(here)
    place = os.path.join(home + ".safekept", "landings")
    half = os.path.join(place, "zz")
    os.makedirs(half)
    with open(os.path.join(half, "plan.jsonl"), "w") as file:
        file.write("{}\n")
    search_behind.fill_all(home)
    assert indexed(home) == [0, 0]
    shutil.rmtree(half)
    search_behind.fill_all(home)
    assert indexed(home)[0] > 0 and restored.complete
