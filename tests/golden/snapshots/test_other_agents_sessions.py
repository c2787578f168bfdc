"""Conversations of Claude Code, Codex, Gemini CLI and opencode: listed, found, read, back as they were.

The homes are what the real programs wrote, made small (workshop/record_conversations.py). That the programs
resume what came back is shown where they run: tests/hosts/test_conversations.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
from contextlib import closing

import pytest

from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import tree_facts
from support.places import CHECKOUT
from support.users.contexts import throwaway
from support.vault.snapshots import take

RECORDED = os.path.join(CHECKOUT, "tests", "recorded", "conversations")
HOMES = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "opencode": ".local/share/opencode",
}
#: What makes such a home known, beside its conversations.
MARKERS = {"claude-code": "history.jsonl", "codex": "installation_id", "gemini": "GEMINI.md"}
FILES = tuple(MARKERS)


class Agent:
    """One agent's home in a throwaway user's directory, and a snapshot of it."""

    def __init__(self, here, name, say):
        self.name, self.home = name, os.path.join(here.places.user_home, HOMES[name])
        self._say = say
        if name == "opencode":
            os.makedirs(self.home)
            with (
                open(os.path.join(RECORDED, name, "opencode.db.sql"), encoding="utf-8") as file,
                closing(sqlite3.connect(self.database)) as connection,
            ):
                connection.executescript(file.read())
        else:
            shutil.copytree(os.path.join(RECORDED, name), self.home)
            with open(os.path.join(self.home, MARKERS[name]), "w", encoding="utf-8") as file:
                file.write("x\n")
            for above, _, names in os.walk(self.home):  # as the programs write them, and as they come back
                for one in names:
                    os.chmod(os.path.join(above, one), 0o600)
        self.kept = take(here, self.home).id[:8]

    @property
    def database(self):
        return os.path.join(self.home, "opencode.db")

    def run(self, *words):
        """A command as it was printed."""
        return self._say(*words)

    def say(self, *words):
        return self._say("sessions", *words, "--home", self.home)

    def json(self, *words):
        said = self.say(*words, "--json")
        assert said.code == 0, said.err
        return json.loads(said.out)

    def listed(self):
        return {one["title"]: one for one in self.json("list")["sessions"]}

    def first(self):
        """The id of the conversation about kumquats."""
        (one,) = self.json("search", "KUMquats")["sessions"]
        return one["id"]

    def transcript(self, session):
        found = [
            os.path.join(above, name)
            for above, _, names in os.walk(self.home)
            for name in names
            if session in name or f"-{session[:8]}.json" in name
        ]
        (path,) = found
        return path

    def lose(self, session):
        if self.name != "opencode":
            os.unlink(self.transcript(session))
            return
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("pragma foreign_keys = on")
            connection.execute("delete from session where id = ?", (session,))
            connection.execute("delete from event where aggregate_id = ?", (session,))
            connection.execute("delete from event_sequence where aggregate_id = ?", (session,))
            connection.commit()

    def state(self):
        """Everything that the agent has, to the byte or the row."""
        if self.name != "opencode":
            return tree_facts(self.home, times=False)
        with closing(sqlite3.connect(self.database)) as connection:
            names = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
            return {name: sorted(map(repr, connection.execute(f"select * from {name}"))) for (name,) in names}


@pytest.fixture
def agent(request, tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    return Agent(here, request.param, spoken(monkeypatch, here.places.user_home))


every = pytest.mark.parametrize("agent", list(HOMES), indirect=True)
of_files = pytest.mark.parametrize("agent", FILES, indirect=True)


@every
def test_conversations_are_listed_found_and_read(agent):
    first = agent.first()
    every = agent.json("list")["sessions"]
    assert len(every) == 2 and every[-1]["id"] == first
    assert all(one["messages"] == one["live_messages"] > 0 and one["started"] > 1.7e9 for one in every)
    shown = agent.json("show", first)
    said = [(one["role"], one["text"]) for one in shown["said"]]
    assert any(role == "user" and "please play scene=first" in text for role, text in said)
    assert ("assistant", "remember kumquats") in said and ("assistant", "yes") in said
    assert any(one["tool"] for one in shown["said"])
    out = agent.say("search", "kumquats").out
    assert out.startswith(f"1 session of snapshot {agent.kept} with 'kumquats'\n  {first}")
    assert "    assistant: remember kumquats\n" in out
    assert agent.json("search", "nobody said this")["sessions"] == []


@every
def test_lost_conversation_comes_back_as_it_was_and_can_be_taken_out_again(agent):
    first, before = agent.first(), agent.state()
    agent.lose(first)
    without = agent.state()
    assert without != before
    (gone,) = [one for one in agent.json("list")["sessions"] if one["live_messages"] is None]
    assert gone["id"] == first
    done = agent.json("restore", first, "--from", agent.kept)
    assert done["session"] == first and not done["already_there"] and done["messages"] == gone["messages"]
    assert agent.state() == before
    undone = agent._say("undo", done["operation"], "--home", agent.home)
    assert undone.code == 0, undone.err
    assert agent.state() == without
    again = agent._say("undo", "--home", agent.home)
    assert again.code == 0, again.err
    assert agent.state() == before


@every
def test_conversation_that_is_there_is_left_alone(agent):
    first, before = agent.first(), agent.state()
    done = agent.json("restore", first)
    assert done["already_there"] and done["undo"] == ""
    assert agent.state() == before


@of_files
def test_conversation_that_went_on_is_not_overwritten(agent):
    first = agent.first()
    with open(agent.transcript(first), "ab") as file:
        file.write(b'{"type": "later"}\n')
    before = agent.state()
    done = agent.json("restore", first)
    assert done["already_there"] and done["notes"] == ["the live one has all of it, and more"]
    assert agent.state() == before


@of_files
def test_another_state_is_refused_and_comes_back_under_a_new_id(agent):
    first, new = agent.first(), "11111111-2222-4333-8444-555555555555"
    path = agent.transcript(first)
    with open(path, "rb") as file:
        stored = file.read()
    with open(path, "wb") as file:
        file.write(stored.replace(b"kumquats", b"oranges"))
    before = agent.state()
    refused = agent.say("restore", first, "--yes")
    assert refused.code == 1 and error_code(refused.err) == "session-differs"
    assert agent.state() == before
    look, beside = (shlex.split(one) for one in re.findall(r"`safekept ([^`]*)`", refused.err))
    assert look[:3] == ["sessions", "show", first] and beside[:3] == ["sessions", "restore", first]
    proposed = beside[beside.index("--as") + 1]
    assert proposed != first and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", proposed)
    assert "--home" in beside, "it is run for the same agent"
    assert agent.run(*look).code == 0 and agent.run(*beside, "--yes").code == 0
    assert os.path.exists(agent.transcript(proposed))
    assert agent.run("undo", "--home", agent.home).code == 0 and agent.state() == before
    bad = agent.say("restore", first, "--as", "mine", "--yes")
    assert bad.code == 2 and error_code(bad.err) == "bad-session-id" and agent.state() == before
    done = agent.json("restore", first, "--as", new)
    assert done["session"] == new
    with open(agent.transcript(new), "rb") as file:
        assert file.read() == stored.replace(first.encode(), new.encode())
    live = {one["id"] for one in agent.json("list")["sessions"]}
    assert first in live
    assert {path: one for path, one in agent.state().items() if path in before} == before


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_codex_knows_the_name_that_a_conversation_was_given(agent, tmp_path):
    first = agent.first()
    index = os.path.join(agent.home, "session_index.jsonl")
    line = json.dumps({"id": first, "thread_name": "the fruit", "updated_at": "2026-11-18T15:00:00Z"}) + "\n"
    other = json.dumps({"id": "other", "thread_name": "another", "updated_at": "2026-11-18T15:00:00Z"}) + "\n"
    with open(index, "w", encoding="utf-8") as file:
        file.write(line)
    taken = agent._say("snapshot", "--home", agent.home)
    assert taken.code == 0, taken.err
    agent.lose(first)
    with open(index, "w", encoding="utf-8") as file:
        file.write(other)
    assert agent.listed()["the fruit"]["id"] == first
    done = agent.json("restore", "the fruit")
    with open(index, encoding="utf-8") as file:
        assert file.read() == other + line
    assert done["notes"] == ["session_index.jsonl knows it again"]
    assert agent._say("undo", "--home", agent.home).code == 0
    with open(index, encoding="utf-8") as file:
        assert file.read() == other


@pytest.mark.parametrize("agent", ["gemini"], indirect=True)
@pytest.mark.parametrize(
    ("now", "name"),
    [
        ({}, "project"),
        ({"/home/user/work/project": "renamed"}, "renamed"),
        ({"/home/user/else/project": "project"}, "project-2"),
    ],
)
def test_gemini_finds_it_under_the_name_that_its_directory_has_now(agent, now, name):
    first = agent.first()
    shutil.rmtree(os.path.join(agent.home, "tmp"))
    with open(os.path.join(agent.home, "projects.json"), "w", encoding="utf-8") as file:
        json.dump({"projects": now}, file)
    agent.json("restore", first)
    assert f"/tmp/{name}/chats/" in agent.transcript(first)
    with open(os.path.join(agent.home, "projects.json"), encoding="utf-8") as file:
        assert json.load(file)["projects"] == {**now, "/home/user/work/project": name}
    with open(os.path.join(agent.home, "tmp", name, ".project_root"), encoding="utf-8") as file:
        assert file.read() == "/home/user/work/project"


@pytest.mark.parametrize("agent", ["opencode"], indirect=True)
def test_opencode_gets_the_project_back_that_it_forgot(agent):
    first = agent.first()
    with closing(sqlite3.connect(agent.database)) as connection:
        for table in ("part", "message", "session", "event", "event_sequence", "project"):
            connection.execute(f"delete from {table}")
        connection.commit()
    agent.json("restore", first)
    with closing(sqlite3.connect(agent.database)) as connection:
        rows = connection.execute(
            "select s.id, p.worktree from session s join project p on p.id = s.project_id"
        )
        assert rows.fetchall() == [(first, "/home/user/work/project")]
        assert connection.execute("pragma foreign_key_check").fetchall() == []


@pytest.mark.parametrize("agent", ["opencode"], indirect=True)
def test_opencode_conversation_without_its_end_is_refused(agent):
    first = agent.first()
    with closing(sqlite3.connect(agent.database)) as connection:
        connection.execute(
            "delete from message where id = (select max(id) from message where session_id = ?)", (first,)
        )
        connection.commit()
    before = agent.state()
    refused = agent.say("restore", first, "--yes")
    assert refused.code == 1 and error_code(refused.err) == "session-differs"
    assert "without 1 of the messages" in refused.err and agent.state() == before
    other = agent.say("restore", first, "--as", "ses_new", "--yes")
    assert other.code == 1 and error_code(other.err) == "session-not-restored" and agent.state() == before


@of_files
def test_lines_that_are_no_json_are_passed_over(agent):
    first = agent.first()
    with open(agent.transcript(first), "ab") as file:
        file.write(
            b"\xff\xfe not json\n[1, 2]\n" + b"[" * 100_000 + b'\n{"type": 7, "payload": [], "$set": 3}\n'
        )
    assert agent._say("snapshot", "--home", agent.home).code == 0
    assert agent.first() == first
