"""Whole turns of the real Hermes against a scripted model, on each of its surfaces, with the plugin in it."""

from __future__ import annotations

import os
import shlex
import sqlite3
import sys
from collections.abc import Iterator

import pytest

from support.hosts.real_hermes import HermesProcess, User, hermes_process, put, read, run_hermes
from support.hosts.scripted_model import ScriptedModel, scripted_model

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as made:
        yield made


@pytest.fixture(scope="module")
def agent(
    hermes_python: str, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HermesProcess]:
    user = User(str(tmp_path_factory.mktemp("turns")), model.config())
    user.connect()
    with hermes_process(hermes_python, user) as process:
        yield process


@pytest.fixture
def user(agent: HermesProcess, model: ScriptedModel, request: pytest.FixtureRequest) -> User:
    user = agent.user
    user.project = os.path.join(user.directory, "projects", request.node.name[:80])
    put(f"{user.project}/pyproject.toml", "")
    agent("enter", user.project)
    assert model.steps == [], "the last test left something unsaid"
    return user


def points(user: User) -> list[dict]:
    """The numbered points of the project, newest first."""
    user.settled()
    return user.ask("rollback")["checkpoints"]


def test_a_whole_turn_is_kept_change_by_change_and_undone_as_one(agent, model, user):
    before = {"a.txt": b"a\n", "src/b.txt": b"b\n", "c.bin": bytes(range(256))}
    for name, content in before.items():
        put(f"{user.project}/{name}", content)
    model.say(
        [("write_file", {"path": "a.txt", "content": "changed"})],
        [("terminal", {"command": "rm -rf src"})],
        [("execute_code", {"code": "open('c.bin', 'wb').write(b''); open('new', 'w').write('x')"})],
        "I have done it",
    )
    turn = agent("turn", "please do it", session="whole")
    assert turn["said"] == "I have done it"
    found = points(user)
    assert [one["reason"] for one in found] == [
        "before execute_code",
        "before terminal: rm -rf src",
        "before write_file a.txt",
    ]
    assert {one["session"] for one in found} == {turn["session"]}
    assert len({one["turn"] for one in found}) == 1 and found[0]["turn"]
    user.settled()
    assert [one["words"] for one in user.ask("rollback")["turns"]] == ["please do it"]
    assert user.safekept("rollback", "1").code == 0
    assert read(f"{user.project}/c.bin") == before["c.bin"] and read(f"{user.project}/src/b.txt") is None
    assert user.safekept("rollback", found[-1]["id"]).code == 0
    assert {name: read(f"{user.project}/{name}") for name in before} == before
    assert read(f"{user.project}/new") is None


def test_the_next_turn_is_another_and_the_users_edit_between_them_is_the_users(agent, model, user):
    put(f"{user.project}/a.txt", "0")
    model.say([("write_file", {"path": "a.txt", "content": "1"})], "one")
    agent("turn", "first", session="two-turns")
    user.settled()
    put(f"{user.project}/mine.txt", "my own")
    model.say([("write_file", {"path": "b.txt", "content": "2"})], "two")
    agent("turn", "second", session="two-turns")
    found = points(user)
    assert len({one["turn"] for one in found}) == 2
    assert user.safekept("rollback", found[-1]["id"]).code == 0
    assert read(f"{user.project}/a.txt") == b"0"
    assert read(f"{user.project}/mine.txt") == b"my own"


def test_of_calls_made_together_all_are_kept_before_any_runs(agent, model, user):
    for name in ("a", "b", "c"):
        put(f"{user.project}/{name}", f"old {name}")
    model.say([("write_file", {"path": name, "content": "new"}) for name in ("a", "b", "c")], "done")
    agent("turn", "all at once", session="batch")
    first = points(user)[-1]
    assert user.safekept("rollback", first["id"]).code == 0
    assert [read(f"{user.project}/{name}") for name in ("a", "b", "c")] == [b"old a", b"old b", b"old c"]


def test_what_a_subagent_does_is_its_own_and_part_of_the_users_turn(agent, model, user):
    put(f"{user.project}/a.txt", "old")
    model.say(
        [("delegate_task", {"goal": "change a.txt"})],
        [("write_file", {"path": f"{user.project}/a.txt", "content": "by the subagent"})],
        "the subagent is done",
        "all is done",
    )
    turn = agent("turn", "let somebody do it", session="parent")
    assert read(f"{user.project}/a.txt") == b"by the subagent"
    newest = points(user)[0]
    assert newest["session"] == turn["session"]
    assert newest["reason"].startswith("before write_file a.txt (by ")
    assert user.safekept("rollback", "1").code == 0
    assert read(f"{user.project}/a.txt") == b"old"


def test_a_memory_that_was_changed_comes_back_by_the_same_timeline(agent, model, user):
    put(f"{user.home}/memories/MEMORY.md", "The user likes tea.\n")
    model.say(
        [("write_file", {"path": "a.txt", "content": "x"})],
        [("memory", {"action": "add", "target": "memory", "content": "The user likes coffee."})],
        "noted",
    )
    agent("turn", "remember that", session="memory")
    assert b"coffee" in (read(f"{user.home}/memories/MEMORY.md") or b"")
    assert user.safekept("rollback", user.home_point("before memory")).code == 0
    assert read(f"{user.home}/memories/MEMORY.md") == b"The user likes tea.\n"


# ── what a person says in the chat ─────────────────────────────────────────────────────────────────


def test_the_verbs_of_the_chat_speak_the_dispatchers_grammar(agent, model, user):
    put(f"{user.project}/my file.txt", "old")
    model.say([("write_file", {"path": "my file.txt", "content": "new"})], "done")
    agent("turn", "go", session="chat")
    user.settled()
    listed = agent("command", "rewind")
    assert f"Checkpoints for {user.project}" in listed and "before write_file" in listed
    assert "/rewind <N>" in listed and "/rollback" not in listed
    assert "+new" in agent("command", "rewind", "diff 1")
    assert "Restored" in agent("command", "rewind", '1 "my file.txt"')
    assert read(f"{user.project}/my file.txt") == b"old"
    assert agent("command", "rewind", "undo").startswith("✅")
    assert read(f"{user.project}/my file.txt") == b"new"
    assert "Checkpoints are on in this session" in agent("command", "safekept", "status")
    assert agent("command", "checkpoint", "by hand").startswith("✅")
    assert "/restore [ID|N [PATH]]" in agent("command", "safekept", "help")
    assert agent("command", "restore", "no-such-id").startswith("❌")
    assert agent("command", "safekept", "snapshot create before lunch").startswith("✅ Snapshot")
    assert "before lunch" in agent("command", "restore")


def test_a_session_that_is_switched_off_takes_no_checkpoint_and_says_so(agent, model, user):
    put(f"{user.project}/a.txt", "old")
    model.say([("write_file", {"path": "b.txt", "content": "x"})], "done")
    agent("turn", "go", session="off")
    before = len(points(user))
    agent("command", "safekept", "off")
    assert "off" in agent("command", "safekept")
    model.say([("write_file", {"path": "a.txt", "content": "new"})], "done")
    agent("turn", "go on", session="off")
    assert read(f"{user.project}/a.txt") == b"new" and len(points(user)) == before
    agent("command", "safekept", "on")
    model.say([("write_file", {"path": "a.txt", "content": "newer"})], "done")
    agent("turn", "go on", session="off")
    assert len(points(user)) == before + 1


# ── a gateway ──────────────────────────────────────────────────────────────────────────────────────


def test_a_gateway_is_protected_and_its_own_names_lead_to_ours(agent, model, user):
    """Hermes's gateway takes no checkpoints at all, and answers `/snapshot` at its terminal only."""
    put(f"{user.project}/a.txt", "old")
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "new"})], "done in the gateway")
    assert agent("gateway", "please do it") == "done in the gateway"
    user.settled()
    listed = agent("gateway", "/rollback")
    assert f"Checkpoints for {user.project}" in listed and "/rollback <N>" in listed
    assert agent("gateway", "/rollback@some_bot 1").startswith("✅ Restored")
    assert read(f"{user.project}/a.txt") == b"old"
    assert agent("gateway", "/snapshot create from afar").startswith("✅ Snapshot")
    assert "from afar" in agent("gateway", "/snap")
    assert "from afar" in agent("gateway", "/snapshot list")
    assert "Checkpoints are on" in agent("gateway", "/safekept")


def test_after_a_rollback_from_a_chat_the_agent_hears_of_it_once(agent, model, user):
    """Hermes #78603: the files came back, the agent did not know, and did it all again."""
    put(f"{user.project}/a.txt", "old")
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "new"})], "done")
    agent("gateway", "please do it")
    user.settled()
    assert agent("gateway", "/rollback 1").startswith("✅ Restored")
    heard = []
    for _ in range(2):
        before = len(model.requests)
        model.say("I see")
        agent("gateway", "go on")
        asked = [one for one in model.requests[before:] if one.get("tools")]
        heard.append(str(asked[0]["messages"][-1]["content"]))
    assert f"the files in `{user.project}` were restored on purpose to checkpoint" in heard[0]
    assert "(before write_file a.txt)" in heard[0] and "Do not redo" in heard[0] and "go on" in heard[0]
    assert "safekept" not in heard[1], "once"


def test_a_rollback_that_the_agent_ran_itself_is_not_told_to_it(agent, model, user):
    put(f"{user.project}/a.txt", "old")
    write = ("write_file", {"path": f"{user.project}/a.txt", "content": "new"})
    setting = " ".join(f"{name}={shlex.quote(value)}" for name, value in user.environment.items())
    command = f"env {setting} {sys.executable} -m safekept rollback 1 --dir {user.project}"
    model.say([write], [("terminal", {"command": command})], "done")
    agent("turn", "go", session="own")
    assert read(f"{user.project}/a.txt") == b"old", "the command went back"
    model.say("I see")
    agent("turn", "go on", session="own")
    asked = [one for one in model.requests if one.get("tools")]
    assert "restored on purpose" not in str(asked[-1]["messages"][-1]["content"])


def test_a_gateway_that_was_started_anew_knows_where_a_chat_last_worked(agent, hermes_python, model, user):
    put(f"{user.project}/a.txt", "old")
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "new"})], "done")
    agent("gateway", "please do it")
    user.settled()
    with hermes_process(hermes_python, user) as again:
        again("enter", user.directory)
        assert f"Checkpoints for {user.project}" in again("gateway", "/rollback")
        assert again("gateway", "/rollback 1").startswith("✅ Restored")
    assert read(f"{user.project}/a.txt") == b"old"


def test_while_the_agent_works_hermes_itself_answers(agent, model, user):
    """Our names it would take for a message to its agent, and stop it."""
    for text in ("/rollback 1", "/snapshot create x", "/snap"):
        assert "Agent is running" in agent("gateway", text, busy=True)


def test_a_stranger_can_undo_nothing(agent, model, user):
    put(f"{user.project}/a.txt", "old")
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "new"})], "done")
    agent("gateway", "please do it")
    agent("environment", GATEWAY_ALLOW_ALL_USERS=None)
    try:
        assert "Restored" not in str(agent("gateway", "/rollback 1", user="stranger"))
    finally:
        agent("environment", GATEWAY_ALLOW_ALL_USERS="1")
    assert read(f"{user.project}/a.txt") == b"new"


def test_other_messages_reach_hermes_as_they_are(agent, user):
    for text in ("hello", "/help", "/rollbacks", "rollback 1", "/"):
        event = {"text": text}
        assert agent("rewritten", event) == []


# ── its databases ──────────────────────────────────────────────────────────────────────────────────


def many_turns(agent: HermesProcess, model: ScriptedModel, user: User, count: int) -> None:
    """Turns with changes, and a snapshot of the live home after each fifth of them."""
    for number in range(count):
        write = {"path": f"{user.project}/a.txt", "content": str(number)}
        model.say([("write_file", write)], f"turn {number}")
        assert agent("turn", f"say {number}", session="long")["said"] == f"turn {number}"
        if number % 5 == 0:
            agent("command", "safekept", f"snapshot create turn {number}")
    user.settled()
    assert len(points(user)) >= min(count, 20)
    assert agent("messages", "long") >= 2 * count
    with sqlite3.connect(f"file:{user.home}/state.db?mode=ro", uri=True) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    assert not [name for name in os.listdir(user.home) if "malformed" in name or "corrupt" in name]


def test_after_many_turns_with_snapshots_its_database_is_sound(agent, model, user):
    many_turns(agent, model, user, 10)


@pytest.mark.soak("hooks")
def test_after_a_hundred_turns_with_snapshots_its_database_is_sound(hermes, agent, model, user):
    many_turns(agent, model, user, 100)
    done = run_hermes(hermes, user, "sessions", "repair", "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr
