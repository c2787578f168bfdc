"""A database of the real Hermes, stored without its search indexes: all of it comes back, search included."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from conftest import program
from safekept.actions.restoring.restore import RestoreRequest, prepare_restore
from safekept.core.events import silent
from safekept.core.sqlite.capture import CaptureOptions, capture
from safekept.core.sqlite.lean.lean import read_facts, rebuild
from safekept.core.sqlite.lean.request import LeanRequest
from safekept.home.layout.layout import load_layouts
from support.home.homes import LiveWriter
from support.home.lean_homes import TALK, WORDS, make_lean_home, rows, searches
from support.places import CHECKOUT
from support.users.contexts import throwaway
from support.vault.snapshots import take

INDEXES = ("messages_fts", "messages_fts_trigram")


@pytest.fixture(scope="module")
def made(tmp_path_factory, hermes_python):
    """A home of 5,000 messages, to be copied."""
    return make_lean_home(str(tmp_path_factory.mktemp("lean") / ".hermes"), hermes_python, 5000)


def copied(tmp_path, made):
    here = throwaway(tmp_path)
    home = os.path.join(here.places.user_home, ".hermes")
    shutil.copytree(made, home)
    return here, home


def restored_into(here, tmp_path):
    target = str(tmp_path / "restored")
    with prepare_restore(here, RestoreRequest("latest", into=target)) as prepared:
        prepared.carry_out()
    return os.path.join(target, "state.db")


def sound_indexes(database):
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        for name in INDEXES:
            connection.execute(f"insert into {name}({name}) values ('integrity-check')")
            assert connection.execute(
                f"select count(*) from messages where id not in (select id from {name}_docsize)"
            ).fetchone() == (0,)


def prove_the_round_trip(tmp_path, made, hermes_python, asked):
    here, home = copied(tmp_path, made)
    database = os.path.join(home, "state.db")
    talk = subprocess.Popen(
        [hermes_python, "-I", "-c", TALK, database, " ".join(WORDS[:7])],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with talk:
        assert talk.stdout is not None and talk.stdin is not None
        before = int(talk.stdout.readline())
        result = take(here, home)
        talk.stdin.close()
        said = [int(line) for line in talk.stdout]
    assert talk.returncode == 0
    lean = result.databases["state.db"]["lean"]
    assert [one["table"] for one in lean["tables"]] == list(INDEXES)
    assert lean["kept"] == () and lean["compared"] and result.complete
    assert all(len(one["probes"]) >= 2 for one in lean["tables"]), "searches were recorded"
    came_back = restored_into(here, tmp_path)
    with closing(sqlite3.connect(came_back)) as connection:
        live = connection.execute("select count(*) from messages where session_id = 'live'").fetchone()[0]
        last = connection.execute("select max(id) from messages").fetchone()[0]
    assert before <= live <= max(said, default=before), "what was said before is in it"
    # The home as it was at that moment: what came later goes, by Hermes's own triggers.
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("delete from messages where id > ?", (last,))
    assert rows(came_back, "messages") == rows(database, "messages")
    sound_indexes(came_back)
    expected = searches(hermes_python, database, asked)
    assert sum(map(bool, expected)) > asked * 0.7
    found = searches(hermes_python, came_back, asked, ("hello to the quetzalcoatl", "und zum axolotl"))
    assert found[:asked] == expected
    assert found[asked:] == [["later"], ["later"]], "new messages are searchable"


def test_hermes_opens_and_searches_without_repair_what_was_stored_lean_under_its_writes(
    tmp_path, made, hermes_python
):
    prove_the_round_trip(tmp_path, made, hermes_python, 200)


@pytest.mark.soak("lean")
def test_fifty_thousand_messages_come_back_with_their_search(tmp_path, hermes_python):
    big = make_lean_home(str(tmp_path / "made" / ".hermes"), hermes_python, 50_000, spoken=2_000)
    prove_the_round_trip(tmp_path, big, hermes_python, 200)


def capture_under_load(tmp_path, made, count):
    home = str(tmp_path / ".hermes")
    shutil.copytree(made, home)
    database, target = os.path.join(home, "state.db"), str(tmp_path / "captured.db")
    wish = LeanRequest(load_layouts()["hermes"].recipes("state.db"))
    with LiveWriter(database, pause=0.001, words=40, autocheckpoint=100, checkpoints=0.05) as writer:
        for number in range(count):
            committed = writer.committed()
            options = CaptureOptions(str(tmp_path), check=False, isolated=number % 2 == 1, lean=wish)
            with capture(database, "state.db", options, {}, silent) as content, open(target, "wb") as file:
                for chunk in content.chunks():
                    file.write(chunk)
            facts = read_facts(content.database.lean)
            assert [one.table for one in facts.tables] == list(INDEXES) and facts.bytes > 0
            with closing(sqlite3.connect(target, isolation_level=None)) as connection:
                assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
                ids, turns = connection.execute(
                    "select count(*), count(distinct content) from messages where session_id = 'live'"
                ).fetchone()
                assert ids == 2 * turns, "a turn is whole or not there"
                assert turns >= committed, "and what was committed before is"
                if number % 5 == 0:
                    rebuild(connection, facts)
            if number % 5 == 0:
                sound_indexes(target)
            for suffix in ("", "-wal", "-shm"):
                if os.path.exists(target + suffix):
                    os.unlink(target + suffix)


def test_each_lean_capture_under_write_load_is_one_committed_state(tmp_path, small):
    capture_under_load(tmp_path, small, 8)


@pytest.mark.soak("lean")
def test_two_hundred_lean_captures_under_write_load_are_one_committed_state_each(tmp_path, made):
    capture_under_load(tmp_path, made, 200)


@pytest.fixture(scope="module")
def small(tmp_path_factory, hermes_python):
    return make_lean_home(str(tmp_path_factory.mktemp("small") / ".hermes"), hermes_python, 400, spoken=10)


def documented_statements():
    """The SQL of the guide, as a reader would copy it."""
    with open(os.path.join(CHECKOUT, "docs", "guides", "vault.md"), encoding="utf-8") as file:
        (block,) = re.findall(r"^```sql\n(.*?)^```", file.read(), flags=re.MULTILINE | re.DOTALL)
    return block


def test_plain_restic_restores_every_row_and_the_documented_statements_bring_search_back(
    tmp_path, small, hermes_python, sqlite3_program
):
    here, home = copied(tmp_path, small)
    before = rows(os.path.join(home, "state.db"), "messages", "sessions")
    expected = searches(hermes_python, os.path.join(home, "state.db"), 40)
    take(here, home)
    environment = {
        **os.environ,
        "RESTIC_REPOSITORY": here.places.vault,
        "RESTIC_PASSWORD_FILE": here.places.vault_key_file,
        "RESTIC_CACHE_DIR": str(tmp_path / "restic-cache"),
    }
    target = str(tmp_path / "plain")
    subprocess.run(
        [program("restic"), "restore", "-q", "latest", "--target", target],
        env=environment,
        check=True,
        capture_output=True,
    )
    database = target + os.path.join(home, "state.db")
    assert rows(database, "messages", "sessions") == before
    assert not any(searches(hermes_python, database, 40)), "nothing is found before"
    subprocess.run([sqlite3_program, database], input=documented_statements(), text=True, check=True)
    assert searches(hermes_python, database, 40) == expected
    sound_indexes(database)


def test_the_commands_of_the_kit_bring_search_back(tmp_path, small, hermes_python, sqlite3_program):
    from safekept.actions.vault.keys.kit import make_kit
    from safekept.actions.vault.opening import open_vault

    here, home = copied(tmp_path, small)
    expected = searches(hermes_python, os.path.join(home, "state.db"), 20)
    take(here, home)
    with open_vault(here) as repository:
        sections = make_kit(here, repository).sections
    (section,) = [one for one in sections if "search" in one.title]
    with prepare_restore(
        here, RestoreRequest("latest", into=str(tmp_path / "restored") + home, without_search=True)
    ) as prepared:
        (remark,) = [one for one in prepared.carry_out().landed.remarks if one.path == "state.db"]
    assert "restored without its search index `messages_fts`, `messages_fts_trigram`" in remark.reason
    database = str(tmp_path / "restored") + os.path.join(home, "state.db")
    assert not any(searches(hermes_python, database, 20))
    subprocess.run(["/bin/sh", "-e", "-c", "\n".join(section.commands)], cwd=tmp_path, check=True)
    assert searches(hermes_python, database, 20) == expected
    # And again, after the agent went on: it does no harm.
    searches(hermes_python, database, 0, ("one more axolotl",))
    subprocess.run(["/bin/sh", "-e", "-c", "\n".join(section.commands)], cwd=tmp_path, check=True)
    sound_indexes(database)


@pytest.mark.soak("lean")
def test_a_database_beyond_the_lock_byte_is_stored_lean(tmp_path, small):
    """SQLite never uses the page at 1 GiB; pages around it hold rows that are kept and rows that are not."""
    here, home = copied(tmp_path, small)
    database = os.path.join(home, "state.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("pragma synchronous=off")
        connection.execute("create table bulk(id integer primary key, data blob)")
        while os.path.getsize(database) < (1 << 30) - (30 << 20):
            connection.execute(
                "with n(x) as (values(1) union all select x + 1 from n where x < 40)"
                " insert into bulk(data) select randomblob(900000) from n"
            )
            connection.execute("pragma wal_checkpoint(truncate)")
        while os.path.getsize(database) < (1 << 30) + (30 << 20):
            connection.execute(
                "insert into messages(session_id, role, content, timestamp)"
                " select session_id, role, content || ' again', timestamp from messages where content <> ''"
                " order by id limit 4000"
            )
            connection.execute("insert into bulk(data) values (randomblob(900000))")
            connection.execute("pragma wal_checkpoint(truncate)")
    result = take(here, home)
    assert result.databases["state.db"]["lean"]["bytes"] > 0
    came_back = restored_into(here, tmp_path)
    assert rows(came_back, "messages", "bulk") == rows(database, "messages", "bulk")
    sound_indexes(came_back)
