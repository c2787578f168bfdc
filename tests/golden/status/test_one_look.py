"""Status and doctor take one look: what is lost in settings and databases both see, or it is named."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3

import pytest

import safekept
from support.commands.in_process import spoken
from support.home.database_holder import held
from support.home.homes import make_hermes_home
from support.users.states import write
from support.vault.snapshots import take

NOT_LOOKED_AT = "Contents   of state.db in ~/.hermes not looked at: `safekept doctor`"


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def reasons(say):
    return json.loads(say("status", "--json").out)["verdict"]["reasons"]


def losses(say, command, within):
    found = json.loads(say(command, "--json").out)
    found = found["verdict"][within] if command == "status" else found[within]
    return [one["text"] for one in found if one["code"] == "lost-since"]


def seen_first_by_status(say):
    """What status says before any doctor looked, and doctor after it: the same."""
    status = losses(say, "status", "reasons")
    assert status == losses(say, "doctor", "findings")
    assert status == losses(say, "status", "reasons"), "and once, after the doctor wrote it down"
    return status


def forget_conversations(state, where="", but=1):
    path = os.path.join(state.home, where, "state.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        kept = [row[0] for row in database.execute("select id from sessions limit ?", (but,))]
        marks = ",".join("?" * len(kept))
        database.execute(f"delete from messages where session_id not in ({marks})", kept)
        database.execute(f"delete from sessions where id not in ({marks})", kept)
        database.commit()
        return database.execute("select count(*) from messages").fetchone()[0]


def test_settings_that_were_cut_off_are_seen_by_status_itself(state, say):
    assert losses(say, "status", "reasons") == []
    write(state, "config.yaml", "model: big\n")
    (text,) = seen_first_by_status(say)
    assert text.startswith(f"lost in {state.home}: ") and "settings are gone, " in text
    assert text.endswith("3 of 4 settings sections are gone")
    assert say("status", "--check").code == 4 and "ALARM" in say("status", "--short").out


def test_conversations_that_were_deleted_are_seen_by_status_itself(state, say):
    left = forget_conversations(state)
    (text,) = seen_first_by_status(say)
    assert text.startswith(f"lost in {state.home}: 3 of 4 sessions are gone, {40 - left} of 40 messages")
    assert "ALARM" in say("status", "--short").out


def test_so_are_those_of_a_profile(state, say):
    make_hermes_home(os.path.join(state.home, "profiles", "coder"), profiles=(), awkward=False)
    assert say("snapshot").code == 0
    forget_conversations(state, "profiles/coder")
    (text,) = seen_first_by_status(say)
    assert text.startswith(f"lost in {state.home}: profiles/coder: 3 of 4 sessions are gone")


def test_a_profile_that_lost_nearly_everything_comes_back_by_one_short_command(state, say):
    coder = os.path.join(state.home, "profiles", "coder")
    make_hermes_home(coder, profiles=(), awkward=False)
    assert say("snapshot").code == 0
    shutil.rmtree(coder)
    os.mkdir(coder)
    write(state, "profiles/coder/config.yaml", "plugins:\n  enabled:\n  - safekept\n")
    (one,) = [one for one in reasons(say) if one["code"] == "lost-since"]
    back, _ = one["commands"]
    assert back["verb"] == "snapshot restore" and back["arguments"][1:] == ["profiles/coder"]
    assert len(say("status").out.partition("  Also ")[0].splitlines()) <= 8
    assert say("snapshot", "restore", *back["arguments"], "--yes").code == 0
    assert losses(say, "status", "reasons") == losses(say, "doctor", "findings") == []


def test_beside_an_agent_that_is_writing_the_committed_rows_are_counted(state, say):
    path = os.path.join(state.home, "state.db")
    with held(path, "delete from sessions", "delete from messages", "select * from sessions") as agent:
        (text,) = losses(say, "status", "reasons")
        assert "all 4 sessions are gone, all 40 messages are gone" in text
        agent.run("insert into sessions (id, source, started_at) values ('new', 'cli', 1.0)")


def test_a_database_that_somebody_keeps_locked_is_not_waited_for_and_reported_as_not_looked_at(state, say):
    path = os.path.join(state.home, "state.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode=delete")
    with held(path, "begin exclusive"):
        shown = say("status")
        assert NOT_LOOKED_AT in shown.out and "lost in" not in shown.out
        (home,) = json.loads(say("status", "--json").out)["homes"]
        assert home["not_looked_at"] == ["state.db"]
    assert "not looked at" not in say("status").out


def test_in_a_process_that_may_have_it_open_itself_no_database_is_opened(state, say):
    forget_conversations(state)
    (home,) = safekept.status().homes
    assert home.now.unread == ("state.db",)


def test_what_did_not_change_since_the_snapshot_is_not_read(state, say, monkeypatch):
    def refused(*_):
        raise AssertionError("read again")

    monkeypatch.setattr("safekept.home.health.live_counts.look_quickly", refused)
    monkeypatch.setattr("safekept.home.census.count_document", refused)
    monkeypatch.setattr("safekept.home.health.live_counts._UNSURE", -3600 * 10**9)
    assert "not looked at" not in say("status").out


def test_the_line_of_a_snapshot_speaks_of_its_own_time(state, say):
    assert ", its databases sound, " in say("status").out


def test_going_back_to_an_older_snapshot_is_no_loss_and_what_is_gone_beyond_it_is_one(state, say):
    """A person chose it, and undo has what came after."""
    path = os.path.join(state.home, "state.db")
    older = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"]
    with contextlib.closing(sqlite3.connect(path)) as database:
        (start,) = database.execute("select started_at from sessions limit 1").fetchone()
        rows = [(f"later-{number}", "cli", start) for number in range(30)]
        database.executemany("insert into sessions(id, source, started_at) values(?, ?, ?)", rows)
        database.commit()
    assert say("snapshot").code == 0
    assert say("restore", older, "state.db", "--yes").code == 0
    assert losses(say, "status", "reasons") == losses(say, "doctor", "findings") == []
    again = say("snapshot")
    assert again.code == 0 and "ALARM" not in again.out, again.out
    forget_conversations(state)
    (text,) = losses(say, "status", "reasons")
    assert text.startswith(f"lost in {state.home}: 3 of 4 sessions are gone"), "beyond it, it is a loss"


def test_a_restore_that_was_undone_excuses_nothing(state, say):
    path = os.path.join(state.home, "state.db")
    older = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"]
    with contextlib.closing(sqlite3.connect(path)) as database:
        (start,) = database.execute("select started_at from sessions limit 1").fetchone()
        rows = [(f"later-{number}", "cli", start) for number in range(30)]
        database.executemany("insert into sessions(id, source, started_at) values(?, ?, ?)", rows)
        database.commit()
    assert say("snapshot").code == 0
    assert say("restore", older, "state.db", "--yes").code == 0
    assert say("undo").code == 0
    assert losses(say, "status", "reasons") == []
    forget_conversations(state, but=4)
    (text,) = losses(say, "status", "reasons")
    assert text.startswith(f"lost in {state.home}: 30 of 34 sessions are gone")


def test_of_a_home_that_is_gone_status_and_doctor_name_what_restore_takes(state, say):
    """The newest: that its databases were checked a moment before, and not again, makes it no worse."""
    take(state.context, state.home, check="always")
    write(state, "later.md", "made after it\n")
    with contextlib.closing(sqlite3.connect(os.path.join(state.home, "state.db"))) as database:
        database.execute("update sessions set source = 'telegram'")
        database.commit()
    newest = take(state.context, state.home, check="never").id[:8]
    shutil.rmtree(state.home)
    for command in ("status", "doctor"):
        assert f"is gone; snapshot {newest} has it" in " ".join(say(command).out.split()), command
    assert say("snapshot", "restore", newest, "--yes").code == 0
    assert os.path.exists(os.path.join(state.home, "later.md"))


def test_what_was_brought_back_after_a_loss_is_not_lost_with_the_home(state, say):
    """The newest snapshot was taken after the loss; no snapshot has it again when the home goes, too."""
    whole = take(state.context, state.home, check="always").id[:8]
    shutil.rmtree(os.path.join(state.home, "memories"))
    assert say("snapshot").code in (0, 3)
    assert say("snapshot", "restore", whole, "memories", "--yes").code == 0
    assert "ALARM" not in say("status", "--short").out
    shutil.rmtree(state.home)
    assert f"is gone; snapshot {whole} has it" in " ".join(say("status").out.split())
    again = say("restore", "--yes")
    if again.code:  # whoever agrees beforehand is told which one has it
        assert f"snapshot restore {whole} --yes" in " ".join(again.err.split()), again.err
        assert say("snapshot", "restore", whole, "--yes").code == 0
    assert os.path.exists(os.path.join(state.home, "memories", "MEMORY.md"))
