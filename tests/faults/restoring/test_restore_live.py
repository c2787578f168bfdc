"""A restore from the vault while the agent writes, and one that is killed: nothing is lost silently."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from support.faults.kill_points import count_steps, run_killed
from support.home.database_holder import held
from support.home.homes import differences, make_hermes_home, tree_facts
from support.vault.closed import open_below
from support.vault.snapshots import take

SAMPLE, FULL = 10, 120


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


def turns(path):
    """The numbers of the live writer's turns in a database that must be sound; no turn may be half there."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        rows = connection.execute(
            "select content from messages where session_id = 'live' order by id"
        ).fetchall()
    numbers = [int(row[0].split()[1]) for row in rows]
    assert all(numbers.count(number) == 2 for number in set(numbers)), "half a turn"
    return sorted(set(numbers))


@pytest.mark.parametrize(("journal", "pause"), [("wal", 0.0005), ("delete", 0.05)])
def test_not_one_row_of_a_running_agent_is_lost_silently(here, home, say, live_writer, journal, pause):
    """Every turn that was committed is in the live database or in what the restore kept: also those that
    were committed between the keeping and the replacing."""
    state = os.path.join(home, "state.db")
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("insert into sessions(id, source, started_at) values ('live', 'cli', 0)")
        connection.execute("insert into sessions(id, source, started_at) values ('marker', 'cli', 0)")
        connection.commit()
    take(here, home)
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("delete from sessions where id = 'marker'")
        connection.commit()
    inode = os.stat(state).st_ino
    writer = live_writer(state, pause=pause, journal=journal)
    for _ in range(3):
        writer.wait_for(10)
        done = say("snapshot", "restore", "latest", "state.db", "--yes", "--json")
        assert done.code == 0, done.err
        document = json.loads(done.out)
        assert [one["path"] for one in document["plan"]["held"]] == ["state.db"]
        writer.wait_for(10)
        with closing(sqlite3.connect(state)) as connection:
            markers = connection.execute("select count(*) from sessions where id = 'marker'").fetchone()
        assert markers == (1,), "what was restored is there"
        kept = turns(os.path.join(document["landed"]["replaced_in"], "home/.hermes/state.db"))
        now = turns(state)
        # Turns are numbered without a gap: what was kept ends where what came after begins.
        assert now[0] == kept[-1] + 1, (kept[-1], now[0])
        assert now == list(range(now[0], now[-1] + 1))
    writer.stop()
    assert turns(state)[-1] == writer.committed()
    assert os.stat(state).st_ino == inode


def test_a_database_that_is_written_to_without_a_pause_is_restored_or_refused(here, home, say, live_writer):
    """With a rollback journal nothing can be read while we replace it: kept and begun anew, or refused."""
    state = os.path.join(home, "state.db")
    take(here, home)
    writer = live_writer(state, pause=0.0, journal="delete")
    writer.wait_for(5)
    done = say("snapshot", "restore", "latest", "state.db", "--yes", "--json")
    writer.wait_for(5)
    writer.stop()
    if done.code == 0:
        kept = turns(os.path.join(json.loads(done.out)["landed"]["replaced_in"], "home/.hermes/state.db"))
        assert turns(state)[0] == kept[-1] + 1
    else:
        error = json.loads(done.out)["error"]
        assert error["code"] in ("held-database", "database-locked"), error
        assert "live_writer.py" in error["what"] and error["kept"].endswith("as it was")
        assert turns(state)[0] == 1, "nothing was replaced"


def test_a_database_that_cannot_be_restored_beside_its_holder_is_refused_by_name(
    here, home, say, monkeypatch
):
    take(here, home)
    state = os.path.join(home, "state.db")
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("delete from messages")
        connection.commit()
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    before = tree_facts(home, skip=(".",))
    monkeypatch.setenv("SAFEKEPT_DATABASE_DEADLINE", "1")
    with held(state, "begin immediate", "delete from sessions") as holder:
        done = say("snapshot", "restore", "latest", "--yes")
        holder.run("rollback")
    assert done.code == 11, done.err
    assert f"pid {holder.pid} " in done.err and "state.db` was locked for 1 s by" in done.err
    assert "Kept       The live database is as it was\n" in done.err
    assert differences(before, tree_facts(home, skip=(".",))) == [], "nothing else was changed either"


def restore_storm(tmp_path, environment, home, count, seed):
    words = ["snapshot", "restore", "1", "--home", home, "--yes", "--exact"]
    assert run_killed(["snapshot", "--home", home], environment, 0).returncode == 0
    shutil.rmtree(os.path.join(home, "memories"))
    for name, data in (("SOUL.md", b"hijacked"), ("state.db", bytes(8192)), ("later.md", b"written since")):
        with open(os.path.join(home, name), "wb") as file:
            file.write(data)
    pristine, vault = str(tmp_path / "pristine"), str(tmp_path / "vault")
    shutil.copytree(home, pristine, symlinks=True, ignore=lambda *_: {"gateway.sock", "pipe"})
    shutil.copytree(os.path.join(environment["HOME"], ".local/share/safekept"), vault)

    def reset():
        for place, copy in (
            (home, pristine),
            (os.path.join(environment["HOME"], ".local/share/safekept"), vault),
        ):
            shutil.rmtree(open_below(place))
            shutil.copytree(copy, place, symlinks=True)
        shutil.rmtree(home + ".safekept", ignore_errors=True)

    reset()
    old = tree_facts(home, skip=(".",))
    total = count_steps(words, environment, str(tmp_path / "steps"))
    new = tree_facts(home, skip=(".",))
    assert differences(old, new) != []
    outcomes = {"old": 0, "new": 0}
    rng = random.Random(seed)
    # The undo point takes the first half of the steps; most of the kills are for the landing itself.
    steps = [1, 2, *(rng.randrange(total // 3, total + 1) for _ in range(count - 2))]
    for step in steps:
        reset()
        run_killed(words, environment, step)
        recovery = run_killed(["snapshot", "restore", "latest", "--home", home, "--dry-run"], environment, 0)
        assert recovery.returncode == 0, f"step {step}: {recovery.stderr}"
        now = tree_facts(home, skip=(".",))
        if differences(old, now) == []:
            outcomes["old"] += 1
        else:
            assert differences(new, now) == [], (
                f"step {step} of {total}: neither the old home nor the new one"
            )
            outcomes["new"] += 1
    assert outcomes["old"], outcomes
    reset()
    assert run_killed(words, environment, 0).returncode == 0
    assert differences(new, tree_facts(home, skip=(".",))) == []
    assert run_killed(["vault", "check", "--read-data"], environment, 0).returncode == 0
    return outcomes


def test_a_killed_restore_leaves_the_old_home_or_the_new_one(tmp_path, launcher_environment, home):
    restore_storm(tmp_path, launcher_environment, home, SAMPLE, seed=5)


@pytest.mark.soak("vault")
def test_restores_killed_at_over_a_hundred_steps_leave_the_old_home_or_the_new_one(
    tmp_path, launcher_environment, home
):
    outcomes = restore_storm(tmp_path, launcher_environment, home, FULL, seed=6)
    assert outcomes["new"], outcomes


def test_what_a_killed_restore_left_is_said_to_be_a_restore(tmp_path, launcher_environment, home):
    environment = launcher_environment
    assert run_killed(["snapshot", "--home", home], environment, 0).returncode == 0
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("changed")
    words = ["snapshot", "restore", "latest", "--home", home, "--yes"]
    total = count_steps(words, environment, str(tmp_path / "steps"))
    for step in range(total * 2 // 3, total // 3, -4):
        with open(os.path.join(home, "SOUL.md"), "w") as file:
            file.write("changed")
        run_killed(words, environment, step)  # runs differ by a step or two; some end before they are killed
        said = run_killed(["snapshot", "--home", home, "--dry-run"], environment, 0).stderr
        if "interrupted" in said:
            assert said.startswith(("A restore that was interrupted", "Leftovers of a restore that was")), (
                said
            )
            return
    raise AssertionError("no kill left anything to recover")
