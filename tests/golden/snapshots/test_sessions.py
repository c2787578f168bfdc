"""One conversation out of an older database into the live one: whole or not at all, nothing overwritten."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from contextlib import closing

import pytest

from safekept.cli.console import Console
from safekept.home.conversations.returning import bring_back
from support.commands.error_texts import error_code
from support.home.database_holder import held
from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)


def state(home, profile=""):
    return os.path.join(home, "profiles", profile, "state.db") if profile else os.path.join(home, "state.db")


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def ask(path, statement, *values):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def messages(path, session):
    return ask(
        path, "select role, content, timestamp from messages where session_id = ? order by id", session
    )


def soul_of(home):
    with open(os.path.join(home, "SOUL.md")) as file:
        return file.read()


def every_row(path):
    """All rows of all tables; not how full-text indexes and sequences are kept inside."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        return {
            name: sorted(map(repr, connection.execute(f'select rowid, * from "{name}"').fetchall()))
            for (name,) in names
            if not name.startswith(("messages_fts_", "sqlite_"))
        }


def sound(path):
    """Nothing wrong with the database, and its full-text indexes agree with their own content."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        for name in ("messages_fts", "messages_fts_trigram"):
            connection.execute(f"insert into {name}({name}) values ('integrity-check')")
            lacking = "select count(*) from messages where id not in (select rowid from {0})"
            assert connection.execute(lacking.format(name)).fetchone() == (0,)
            strays = "select count(*) from {0} where rowid not in (select id from messages)"
            assert connection.execute(strays.format(name)).fetchone() == (0,)


def drop(path, session):
    change(
        path,
        f"delete from messages where session_id = '{session}'",
        f"update sessions set parent_session_id = null where parent_session_id = '{session}'",
        f"delete from sessions where id = '{session}'",
    )


def test_a_deleted_conversation_comes_back_whole_and_can_be_found(here, home, say):
    live = state(home)
    change(
        live, "update messages set content = 'the zebra crossed' where id = 2 and session_id = 'session-1'"
    )
    before, others = messages(live, "session-1"), messages(live, "session-2")
    short = take(here, home).id[:8]
    drop(live, "session-1")
    listed = say("sessions", "list").out
    assert f"4 sessions in state.db of snapshot {short}\n" in listed
    assert f"Bring one back: `safekept sessions restore session-1 --from {short}`\n" in listed
    done = say("sessions", "restore", "session-1", "--from", short)
    assert done.code == 0, done.err
    assert done.out.startswith(f"Session session-1 is back in {live}\n  Messages   10\n")
    assert messages(live, "session-1") == before and messages(live, "session-2") == others
    assert ask(live, "select rowid from messages_fts where messages_fts match 'zebra'") == [(2,)]
    sound(live)


def test_a_conversation_can_be_read_without_bringing_it_back(here, home, say):
    take(here, home)
    said = messages(state(home), "session-0")
    drop(state(home), "session-0")
    out = say("sessions", "show", "session-0").out
    assert said[0][1] in out and "session-0, 10 messages)" in out.splitlines()[0]
    document = json.loads(say("sessions", "show", "session-0", "--json").out)
    assert [one["text"] for one in document["said"]] == [row[1] for row in said]
    assert ask(state(home), "select count(*) from sessions where id = 'session-0'") == [(0,)]


def test_the_database_as_it_was_before_is_kept_as_a_quick_snapshot(here, home, say):
    take(here, home)
    drop(state(home), "session-1")
    done = say("sessions", "restore", "session-1", "--json")
    document = json.loads(done.out)
    newest = json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]
    assert newest["id"] == document["undo_point"]
    assert (newest["kind"], newest["label"]) == ("pre-restore", "before session session-1")
    assert document["undo"] == f"safekept undo {document['operation']}"
    assert say(*document["undo"].split()[1:]).code == 0
    assert messages(state(home), "session-1") == []


def test_at_a_terminal_it_is_shown_and_asked_and_the_way_back_is_printed(here, home, say, monkeypatch):
    short = take(here, home).id[:8]
    drop(state(home), "session-1")
    asked, answers = [], [False, True]
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr(Console, "ask", lambda _, question: asked.append(question) or answers.pop(0))
    done = say("sessions", "restore", "session-1")
    assert done.code == 1 and "nothing was changed" in done.err and messages(state(home), "session-1") == []
    for line in (f"Bring session session-1 back into {state(home)}\n", f"{short} (manual, ", "10 come; "):
        assert line in done.out, done.out
    done = say("sessions", "restore", "session-1")
    assert done.code == 0 and asked == ["Continue?"] * 2 and len(messages(state(home), "session-1")) == 10
    assert re.search(r"^Take it back with: `safekept undo [0-9a-f-]+`$", done.out, re.MULTILINE), done.out
    assert "is there already" in say("sessions", "restore", "session-1").out, "and nobody was asked"
    drop(state(home), "session-1")
    assert say("sessions", "restore", "session-1", "--yes").code == 0 and len(asked) == 2


def test_message_ids_that_are_taken_are_given_anew_in_order(here, home, say):
    live = state(home)
    before = messages(live, "session-1")
    take(here, home)
    taken = [row[0] for row in ask(live, "select id from messages where session_id = 'session-1'")]
    drop(live, "session-1")
    change(
        live,
        "insert into messages(id, session_id, role, content, timestamp)"
        f" values ({taken[3]}, 'session-2', 'user', 'mine now', 0)",
    )
    done = say("sessions", "restore", "session-1")
    assert done.code == 0, done.err
    assert "  Note       1 message ids are taken by others; its messages got new ones\n" in done.out
    assert messages(live, "session-1") == before, "the order stays"
    assert ask(live, f"select content from messages where id = {taken[3]}") == [("mine now",)]
    sound(live)


def test_what_is_there_already_is_left_alone(here, home, say):
    live = state(home)
    take(here, home)
    count = ask(live, "select count(*) from messages")
    done = say("sessions", "restore", "session-1")
    assert done.code == 0
    assert done.out.startswith("Session session-1 is there already; nothing was changed\n")
    change(
        live,
        "insert into messages(session_id, role, content, timestamp) values ('session-1', 'user', 'hi', 9)",
    )
    done = say("sessions", "restore", "session-1")
    assert "the live one has all of it, and 1 messages more" in done.out
    assert ask(live, "select count(*) from messages")[0][0] == count[0][0] + 1


def test_another_conversation_with_the_same_id_is_refused_and_can_be_brought_back_beside_it(here, home, say):
    live = state(home)
    before = messages(live, "session-1")
    short = take(here, home).id[:8]
    change(live, "update messages set content = 'rewritten' where session_id = 'session-1' and id = 10")
    now = ask(live, "select * from messages")
    done = say("sessions", "restore", "session-1")
    assert done.code == 1
    assert done.err == (
        f"`{live}` has another session `session-1`: 10 messages there, 10 in the snapshot, "
        "and they part at message 3\n"
        "\n"
        "  Kept       The live database is as it was\n"
        f"  Next       Look at the older one: `safekept sessions show session-1 --from {short}`\n"
        "             Bring it back beside the live one, under a new id: "
        f"`safekept sessions restore session-1 --from {short} --as session-1-{short}`\n"
        "  Error      session-differs\n"
    )
    assert ask(live, "select * from messages") == now
    for printed in re.findall(
        r"`safekept ([^`]*)`", done.err
    ):  # as they are printed, with nothing to fill in
        done = say(*shlex.split(printed))
        assert done.code == 0, done.err
    older = f"session-1-{short}"
    assert "its title is taken, so it is called" in done.out
    assert messages(live, older) == before
    assert [row for row in ask(live, "select * from messages") if row[1] != older] == now
    sound(live)


def test_missing_parents_come_along_and_those_that_are_there_do_not(here, home, say):
    live = state(home)
    change(
        live,
        "update sessions set parent_session_id = 'session-1' where id = 'session-2'",
        "update sessions set parent_session_id = 'session-0' where id = 'session-1'",
    )
    take(here, home)
    drop(live, "session-2")
    drop(live, "session-1")
    count = len(messages(live, "session-0"))
    done = say("sessions", "restore", "session-2")
    assert done.code == 0, done.err
    assert "  Parents    1 session came with it: session-1\n" in done.out
    chain = ask(live, "select id, parent_session_id from sessions where id in ('session-1', 'session-2')")
    assert sorted(chain) == [("session-1", "session-0"), ("session-2", "session-1")]
    assert len(messages(live, "session-0")) == count and len(messages(live, "session-1")) == 10
    sound(live)


def test_a_live_table_with_new_columns_takes_what_it_knows(here, home, say):
    live = state(home)
    change(live, "alter table messages add column vanished text", "update messages set vanished = 'x'")
    take(here, home)
    drop(live, "session-3")
    change(
        live,
        "alter table messages drop column vanished",
        "alter table messages add column later text",
        "alter table sessions add column mood text not null default 'calm'",
    )
    done = say("sessions", "restore", "session-3")
    assert done.code == 0, done.err
    assert "the live table has no column `vanished`; 10 values were left out" in done.out
    assert ask(live, "select mood from sessions where id = 'session-3'") == [("calm",)]
    sound(live)


def test_a_live_table_that_needs_more_than_the_older_one_has_is_refused(here, home, say, tmp_path):
    copy = str(tmp_path / "old.db")
    take(here, home)
    with closing(sqlite3.connect(state(home))) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        target.execute("pragma journal_mode=delete")
    change(copy, "drop trigger messages_fts_insert", "alter table messages rename column role to part")
    drop(state(home), "session-1")
    from safekept.home.conversations.tables import SchemaDiffers

    with pytest.raises(SchemaDiffers) as caught:
        bring_back(copy, state(home), "session-1")
    assert caught.value.what == (
        f"The table messages of `{state(home)}` needs role, which the older database does not have"
    )
    assert caught.value.kept == "The live database is as it was"
    assert messages(state(home), "session-1") == []


def test_a_search_index_that_does_not_take_the_messages_stops_everything(here, home, say):
    live = state(home)
    take(here, home)
    drop(live, "session-1")
    change(
        live,
        "drop trigger messages_fts_insert",
        "create trigger messages_fts_insert after insert on messages when new.role = 'never' begin"
        " insert into messages_fts(rowid, content) values (new.id, new.content); end",
    )
    done = say("sessions", "restore", "session-1")
    assert done.code == 1 and error_code(done.err) == "session-not-restored", done.err
    assert "did not take 10 of the messages" in done.err
    assert ask(live, "select count(*) from sessions where id = 'session-1'") == [(0,)]


def test_a_database_that_stays_locked_is_given_up_and_names_who_locks_it(here, home, say, monkeypatch):
    live = state(home)
    take(here, home)
    drop(live, "session-1")
    monkeypatch.setenv("SAFEKEPT_DATABASE_DEADLINE", "1")
    with held(live, "begin immediate") as holder:
        done = say("sessions", "restore", "session-1")
        holder.run("rollback")
    assert done.code == 11, done.err
    assert error_code(done.err) == "database-locked"
    assert f"was locked for 1 s by pid {holder.pid} " in done.err
    assert "Kept       The live database is as it was\n" in done.err
    assert messages(live, "session-1") == []


def test_a_running_agent_goes_on_while_a_conversation_comes_back(here, home, say, live_writer):
    live = state(home)
    before = messages(live, "session-1")
    take(here, home)
    drop(live, "session-1")
    inode = os.stat(live).st_ino
    writer = live_writer(live)
    writer.wait_for(10)
    done = say("sessions", "restore", "session-1")
    assert done.code == 0, done.err
    writer.wait_for(10)
    writer.stop()
    turns = writer.committed()
    assert messages(live, "session-1") == before
    assert len(messages(live, "live")) == 2 * turns, "not one row of the agent is lost"
    assert os.stat(live).st_ino == inode
    sound(live)


def test_the_conversations_of_a_profile_are_its_own(here, home, say):
    coder = state(home, "coder")
    before = messages(coder, "session-1")
    take(here, home)
    drop(coder, "session-1")
    assert say("sessions", "restore", "session-1", "--profile", "coder").code == 0
    assert messages(coder, "session-1") == before
    assert messages(state(home), "session-1") != before


def test_an_unknown_session_a_missing_database_and_no_chat_database_are_said(here, home, say):
    short = take(here, home).id[:8]
    done = say("sessions", "show", "nobody")
    assert done.code == 1
    assert done.err == (
        "There is no session `nobody` in `state.db` of that snapshot\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       No other snapshot of this home has it either\n"
        f"             See those that there are: `safekept sessions list --from {short}`\n"
        "  Error      no-such-session\n"
    )
    done = say("sessions", "show", "session-")
    assert "4 sessions of `state.db` are called or start with `session-`" in done.err
    os.unlink(state(home))
    done = say("sessions", "restore", "session-1")
    assert done.code == 1 and error_code(done.err) == "no-live-database"
    assert "state.db` to bring a conversation back into" in done.err
    change(state(home), "create table something (x)")
    short = take(here, home).id[:8]
    done = say("sessions", "list")
    assert done.code == 1 and error_code(done.err) == "no-conversations"
    assert "`state.db` has no conversations in it: no table sessions" in done.err
    assert f"as a whole instead: `safekept snapshot restore {short} state.db`" in done.err


def test_a_session_that_one_snapshot_lacks_is_named_with_the_newest_that_has_it(here, home, say):
    take(here, home)
    older = take(here, home).id[:8]
    drop(state(home), "session-1")
    take(here, home)
    for verb in ("show", "restore"):
        done = say("sessions", verb, "session-1")
        assert done.code == 1
        asked = f"safekept sessions {verb} session-1 --from {older}"
        assert f"  Next       The newest snapshot that has it is {older}: `{asked}`\n" in done.err
        assert say(*asked.split()[1:]).code == 0
    assert messages(state(home), "session-1")


def test_undo_takes_a_conversation_that_came_back_out_again_and_nothing_older(here, home, say):
    live = state(home)
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("mine")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    soul = soul_of(home)
    drop(live, "session-1")
    before = every_row(live)
    assert say("sessions", "restore", "session-1").code == 0
    there = every_row(live)
    plan = say("undo", "--dry-run").out
    assert plan.startswith("Would take back the return of a conversation of ")
    assert plan.splitlines()[1] == "Session session-1 would be taken out of state.db"
    assert "Messages   10" in plan
    assert every_row(live) == there
    done = say("undo")
    assert done.code == 0, done.err
    assert done.out.startswith("Taking back the return of a conversation of ")
    assert "Session session-1 was taken out of state.db\n" in done.out
    assert every_row(live) == before and soul_of(home) == soul
    sound(live)
    again = say("undo")
    assert again.code == 0 and "Session session-1 is back in state.db\n" in again.out, again.err
    assert every_row(live) == there
    sound(live)
    assert say("undo").code == 0, "and out once more"
    assert every_row(live) == before


def test_a_conversation_that_went_on_since_is_not_taken_out(here, home, say):
    live = state(home)
    take(here, home)
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("mine")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    drop(live, "session-1")
    document = json.loads(say("sessions", "restore", "session-1", "--json").out)
    change(
        live,
        "insert into messages(session_id, role, content, timestamp) values ('session-1', 'user', 'hi', 9)",
    )
    there, soul = every_row(live), soul_of(home)
    for words in (["undo"], ["undo", "--dry-run"], ["undo", document["operation"][-6:]]):
        done = say(*words)
        assert done.code == 1 and every_row(live) == there and soul_of(home) == soul
        command = f"safekept snapshot restore {document['undo_point'][:8]} state.db"
        older = done.err.rpartition("`safekept undo ")[2].partition("`")[0]
        assert done.err == (
            f"Session `session-1` cannot be taken out of `{live}` again: "
            "it was changed after it came back\n"
            "\n"
            "  Kept       The live database is as it was\n"
            "  Next       Delete it with the agent itself if it shall go: `hermes sessions delete ID`\n"
            f"             To have the whole database as it was before, later messages lost: `{command}`\n"
            f"             To take back what was done before that: `safekept undo {older}`\n"
            "  Error      session-not-taken-out\n"
        )
    assert say("undo", older).code == 0
    assert soul_of(home) == "mine"
    assert say(*command.split()[1:], "--yes").code == 0
    assert messages(live, "session-1") == []
    assert say("undo").code == 0, "what was restored since can be taken back"


def test_a_conversation_with_its_parents_is_taken_out_whole_and_not_from_under_a_later_one(here, home, say):
    live = state(home)
    change(live, "update sessions set parent_session_id = 'session-1' where id = 'session-2'")
    take(here, home)
    drop(live, "session-2")
    drop(live, "session-1")
    before = every_row(live)
    assert say("sessions", "restore", "session-2").code == 0
    assert say("undo").code == 0
    assert every_row(live) == before
    assert say("undo").code == 0
    change(live, "update sessions set parent_session_id = 'session-1' where id = 'session-3'")
    done = say("undo")
    assert done.code == 1 and "again: 1 later sessions go on from it" in done.err
