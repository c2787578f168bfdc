"""The plugin's own decisions, without Hermes: what a tool can change, whose work it is, what is said."""

from __future__ import annotations

import json
import os
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as some

from safekept import __version__
from safekept.integrations.hermes.plugin import elsewhere, places
from safekept.integrations.hermes.plugin.commands import _in_our_words
from safekept.integrations.hermes.plugin.elsewhere import named_projects, of_the_system
from safekept.integrations.hermes.plugin.hooks import Hooks, _opened
from safekept.integrations.hermes.plugin.link import Link
from safekept.integrations.hermes.plugin.messages import UserMessages, one_shot
from safekept.integrations.hermes.plugin.patches import named_in
from safekept.integrations.hermes.plugin.record import remember_failure
from safekept.integrations.hermes.plugin.sessions import Sessions
from safekept.integrations.hermes.plugin.tools import HARMLESS, goes_back, reason, touched
from support.commands.waiting import wait_until


@pytest.mark.parametrize(
    ("tool", "arguments", "named", "shell", "of_home"),
    [
        ("write_file", {"path": "a", "content": "x"}, ("a",), False, ()),
        ("patch", {"mode": "replace", "path": "a", "patch": "*** Update File: b"}, ("a",), False, ()),
        ("patch", {"mode": "patch", "patch": "*** Update File: b\n"}, ("b",), False, ()),
        ("patch", {"patch": "*** Update File: b\n", "path": "a"}, ("a", "b"), False, ()),
        ("patch", {"mode": "patch", "patch": "in words that nobody here reads"}, (), True, ()),
        ("terminal", {"command": "rm x"}, (), True, ()),
        ("execute_code", {"code": "x"}, (), True, ()),
        ("delegate_task", {"goal": "x"}, (), True, ()),
        ("mcp__files__write", {"path": "a"}, (), True, ()),
        ("never_heard_of", None, (), True, ()),
        ("never_heard_of", [1, 2], (), True, ()),
        ("process", {"action": "submit", "data": "rm x"}, (), True, ()),
        ("process", {"action": "poll"}, (), False, ()),
        ("cronjob", {"action": "list"}, (), False, ()),
        ("cronjob", {"action": "remove"}, (), False, ("cron/jobs.json",)),
        ("cronjob_manage", {"action": "list"}, (), False, ()),
        ("cronjob_manage", {"action": "remove"}, (), False, ("cron/jobs.json",)),
        ("process_manage", {"action": "submit", "data": "rm x"}, (), True, ()),
        ("process_manage", {"action": "poll"}, (), False, ()),
        ("todo_list", {"action": "add"}, (), False, ()),
        ("desktop_project", {"action": "switch"}, (), False, ()),
        ("browser_exec", {"code": "x"}, (), True, ()),
        ("memory", {"action": "add"}, (), False, ("memories/MEMORY.md", "memories/USER.md")),
        ("text_to_speech", {"text": "x"}, (), False, ()),
        ("text_to_speech", {"text": "x", "output_path": "a.ogg"}, ("a.ogg",), False, ()),
        ("write_file", {"path": "a\0b"}, (), False, ()),
        ("write_file", {"path": ["a"]}, (), False, ()),
    ],
)
def test_what_a_tool_can_change_is_known(tool, arguments, named, shell, of_home):
    touch = touched(tool, arguments)
    assert (touch.named, touch.shell, touch.of_home) == (named, shell, of_home)
    assert touch.nothing == (not (named or shell or of_home))


def test_no_tool_that_writes_is_taken_for_harmless():
    assert not HARMLESS & {
        *("write_file", "patch", "terminal", "execute_code", "skill_manage", "cronjob", "memory"),
        *("delegate_task", "process", "computer_use", "text_to_speech"),
    }


def test_the_reason_names_the_command_and_is_one_short_line():
    words = reason("terminal", touched("terminal", {"command": "rm  -rf\n build " + "x" * 100}))
    assert words.startswith("before terminal: rm -rf build xxx") and len(words) <= 80 and "\n" not in words
    assert reason("execute_code", touched("execute_code", {"code": "secret = 1"})) == "before execute_code"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*** Begin Patch\n*** Update File: a b.txt\n@@\n-x\n+y\n*** End Patch", ["a b.txt"]),
        ("***Update File:a\n***  Delete   File:  b  \n", ["a", "b"]),
        ("*** Move File: a -> dir/b\n", ["a", "dir/b"]),
        ("*** Update File: a\n*** Move to: b\n", ["a", "b"]),
        ("  *** Add File: indented\r\n+*** Add File: quoted\n", ["indented"]),
        ("*** update file: lower\n", ["lower"]),
        ("", []),
        ("nothing of the kind", []),
    ],
)
def test_every_file_of_a_patch_text_is_found(text, expected):
    assert named_in(text) == expected


@given(some.text(max_size=300))
def test_no_patch_text_breaks_anything(text):
    assert isinstance(named_in("*** Update File: a\n" + text), list)


def test_memory_is_anybodys_scratch_and_devices_are_the_machines():
    assert all(of_the_system(path) for path in ("/dev", "/dev/null", "/usr/bin/env", "/proc/1"))
    assert not any(of_the_system(path) for path in ("/dev/shm/x", "/device", "/home/ada/dev/x"))


def test_projects_that_a_command_names_are_found_and_nothing_else(tmp_path, monkeypatch):
    home = tmp_path / "home"
    for name in ("app", "other", "third"):
        (home / name / "src").mkdir(parents=True)
        (home / name / "pyproject.toml").write_text("")
    (home / "other" / "src" / "a.txt").write_text("x")
    (home / "plain").mkdir()
    monkeypatch.setenv("HOME", str(home))
    here = str(home / "app" / "src")

    def found(said: str) -> list[str]:
        return [os.path.relpath(path, home) for path in named_projects(said, here)]

    assert found("rm -rf build ../tests ./x a/b") == []
    assert found("cd ../../other && rm -rf src") == ["other"]
    assert found(f"sed -i s/a/b/ {home}/other/src/a.txt") == ["other/src/a.txt"]
    assert found("rm ~/third/gone.txt; cat /etc/passwd /usr/bin/env") == ["third"]
    assert found(f"open('{home}/other/src/a.txt', 'w')") == ["other/src/a.txt"]
    assert found("ls ~/plain / ..") == []
    assert found("x" * 200_000) == []


def test_a_subagents_work_is_part_of_the_turn_that_started_it():
    sessions = Sessions()
    sessions.subagent_began("user", "turn 1", "child", "sa-1")
    sessions.subagent_began("child", "its own", "grandchild", "sa-2")
    for session, name in (("user", ""), ("child", "sa-1"), ("grandchild", "sa-1/sa-2")):
        worker = sessions.worker(session, "turn 1")
        assert (worker.session, worker.turn, worker.agent) == ("user", "turn 1", name)
    sessions.subagent_ended("child")
    assert sessions.worker("child", "t").agent == ""


def test_a_tool_called_by_code_counts_for_the_task_that_runs_the_code():
    sessions = Sessions()
    sessions.worker("user", "turn 1", "task")
    assert sessions.worker("", "", "task").session == "user"
    assert sessions.worker("", "", "unknown").session == ""


def test_a_conversation_means_where_it_last_changed_something():
    sessions = Sessions()
    sessions.works_in("a", "/home/agent", unless_known=True)
    assert sessions.latest() == ("a", "/home/agent")
    sessions.works_in("a", "/project")
    sessions.works_in("a", "/home/agent", unless_known=True)
    assert sessions.place_of("a") == "/project" and sessions.place_of("b") == ""


def test_what_is_remembered_has_a_bound():
    sessions, voice = Sessions(), UserMessages()
    for number in range(5_000):
        sessions.begins(str(number))
        sessions.works_in(str(number), "/x")
        sessions.worker(str(number), "t", str(number))
        voice.heard_on(str(number), "telegram")
        voice.say("x", str(number))
    tables = (sessions._begun, sessions._places, sessions._tasks, voice._said, voice._platforms)
    assert all(len(table) <= 2_001 for table in tables)


def test_each_thing_is_said_once_in_a_session_and_only_at_a_terminal(capsys):
    voice = UserMessages()
    voice.heard_on("a", "cli")
    voice.heard_on("b", "telegram")
    assert [voice.say("one", "a"), voice.say("one", "a"), voice.say("two", "a")] == [True, False, True]
    assert voice.say("one", "b")
    assert capsys.readouterr().err == "safekept: one\nsafekept: two\n"


def test_what_hermes_says_it_opened_is_understood():
    assert _opened('{"resolved_path": "/a", "files_modified": ["/a", "/b", 3]}') == ["/a", "/b"]
    for result in ("", "not json", "[1]", '{"error": "x", "resolved_path": "/a"}', None, 7):
        assert _opened(result) == []


def test_the_same_verbs_have_other_names_at_the_terminal():
    text = "/rollback <N>\n/snapshot restore <N>, /snapshot list\n/home/u/rollback/x stays; a/snapshot too"
    assert _in_our_words(text) == (
        "/rewind <N>\n/restore <N>, /safekept snapshot list\n/home/u/rollback/x stays; a/snapshot too"
    )


def test_a_command_that_works_in_the_home_or_names_it_is_known(tmp_path, monkeypatch):
    home, user = str(tmp_path / "u" / ".hermes"), str(tmp_path / "u")
    os.makedirs(f"{home}/skills")
    monkeypatch.setenv("HOME", user)
    for said in (f"rm -rf {home}/skills", "rm -rf ~/.hermes/skills", 'rm "$HERMES_HOME/SOUL.md"'):
        assert places.mentions_home(said, home, user)
    assert places.mentions_home("rm -rf .", home, f"{home}/skills")
    assert not places.mentions_home("rm -rf build", home, user)


def test_a_failure_is_written_down_whatever_was_there(tmp_path):
    place = tmp_path / "data" / "integrations" / "hermes.json"
    for content in (None, b"", b"[]", b'{"calls": "x"}', b"\xff"):
        if content is not None:
            place.write_bytes(content)
        assert remember_failure(str(tmp_path / "data"), "why " * 500)
        assert b'"calls": 1' in place.read_bytes() and len(place.read_bytes()) < 1000
        assert place.stat().st_mode & 0o077 == 0
    assert sorted(os.listdir(place.parent)) == ["hermes.json"]
    (tmp_path / "file").write_text("")
    assert not remember_failure(str(tmp_path / "file"), "x")


def test_the_plugin_says_the_version_of_the_package():
    path = os.path.join(os.path.dirname(places.__file__), "plugin.yaml")
    with open(path, encoding="utf-8") as file:
        assert f'version: "{__version__}"' in file.read()


def test_a_patch_of_any_shape_is_read_in_one_go():
    """Hermes waits for it: a pattern that could match blanks in two ways took minutes."""
    blanks = " " * 100_000
    text = "\n" * 100_000 + f"*** Update File: a{blanks}b\n*** Move File: {blanks}\n*** Move File: c -> d\n"
    assert named_in(text) == [f"a{blanks}b", "c", "d"]


def test_a_command_with_thousands_of_paths_is_looked_at_up_to_a_bound(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(elsewhere, "project_of", lambda path: looked.append(path) or "")
    named_projects(" ".join(f"/x/{number}" for number in range(10_000)), str(tmp_path))
    assert len(looked) <= 201


class Heard:
    """A link that remembers what was sent."""

    trouble, command = "", ()

    def __init__(self, home="/home/u/.hermes", **outcome):
        self.home, self.calls, self.outcome = home, [], outcome

    def call(self, call, session="", deadline=0.0):
        self.calls.append(call)
        return self.outcome


def hooks_with(link):
    hooks = Hooks(link, UserMessages())
    hooks.take_over()
    return hooks


def test_each_home_of_a_process_has_a_registration_of_its_own(monkeypatch):
    """From 0.21 on several profiles share a process: the first one's hooks told safekept nothing."""
    monkeypatch.setitem(sys.modules, "_safekept_in_hermes", None)
    given = {"tool_name": "terminal", "session_id": "s", "args": {"command": "rm x"}}
    one, two = Heard("/home/u/.hermes"), Heard("/home/u/.hermes/profiles/two")
    first, second = hooks_with(one), hooks_with(two)
    first.before_tool(**given)
    second.before_tool(**given)
    assert [call["home"] for call in one.calls + two.calls] == [one.home, two.home]
    again = hooks_with(Heard(one.home))
    first.before_tool(**given)
    again.before_tool(**given)
    assert (len(one.calls), len(again.link.calls)) == (1, 1), "of two copies for one home the last acts"


def test_a_copy_of_the_plugin_serves_the_home_that_it_lies_in(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", "/elsewhere")
    monkeypatch.delitem(sys.modules, "hermes_constants", raising=False)
    place = tmp_path / "home" / "plugins" / "safekept"
    place.mkdir(parents=True)
    assert Link(UserMessages(), str(place)).home == "/elsewhere", "nobody connected it there"
    (place / "connection.json").write_text('{"command": ["/bin/safekept"]}')
    link = Link(UserMessages(), str(place))
    assert link.home == str(tmp_path / "home")
    assert link.environment()["HERMES_HOME"] == link.home


def test_a_safekept_that_hangs_keeps_a_tool_waiting_for_seconds_only(tmp_path, monkeypatch):
    """From 0.21 on Hermes ends a hook after 30 s, and then blocks every tool for a minute."""
    place = tmp_path / "home" / "plugins" / "safekept"
    place.mkdir(parents=True)
    (tmp_path / "sleep").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "sleep").chmod(0o755)
    (place / "connection.json").write_text(json.dumps({"command": [str(tmp_path / "sleep")]}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SAFEKEPT_HELPER", "0")
    monkeypatch.setattr("safekept.integrations.hermes.plugin.link.DEADLINE", 0.2)
    link = Link(UserMessages(), str(place))
    assert link.call({"kind": "before", "directory": "/"}) == {}
    assert link.trouble == "it took too long, and the tool was not kept waiting"


def test_the_end_of_a_session_is_told_also_where_no_helper_answers_in_time(tmp_path, monkeypatch):
    """On a machine that is busy with other things; Hermes is about to end, and waits for nothing."""
    place = tmp_path / "home" / "plugins" / "safekept"
    place.mkdir(parents=True)
    told = tmp_path / "told"
    script = f'#!/bin/sh\n[ "$2" = call ] && cat > {told}.new && mv {told}.new {told}\n'
    (tmp_path / "program").write_text(script)
    (tmp_path / "program").chmod(0o755)
    (place / "connection.json").write_text(json.dumps({"command": [str(tmp_path / "program")]}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SAFEKEPT_HELPER", raising=False)
    link = Link(UserMessages(), str(place))
    assert link.call({"kind": "end", "directory": "/"}, deadline=0.2) == {}
    assert link.call({"kind": "session-end", "directory": "/"}, deadline=0.2) == {} and not link.trouble
    wait_until(told.exists, "the call")
    assert json.loads(told.read_text())["kind"] == "session-end"
    wait_until(lambda: [one.poll() for one in link._behind] == [0], "its end")


def test_a_one_shot_is_known_on_a_thread_of_hermes_too(tmp_path):
    said = []
    worker = "import threading\nthread = threading.Thread(target=ask)\nthread.start()\nthread.join()\n"
    for name in ("hermes_cli.oneshot", "hermes_cli.main"):
        exec(worker, {"__name__": name, "ask": lambda: said.append(one_shot())})
    assert said == [True, False]


@pytest.mark.parametrize("module", ["tools.file_tools", "tools.file_tools_paths"])
def test_the_back_end_is_asked_for_where_hermes_has_it(monkeypatch, module):
    monkeypatch.delenv("TERMINAL_ENV", raising=False)
    known = types.SimpleNamespace(_terminal_env_type_for_task=lambda task: "docker")
    monkeypatch.setitem(sys.modules, module, known)
    assert places.back_end("t") == "a Docker container"


def test_the_end_of_a_background_command_is_not_told_as_an_end(monkeypatch):
    monkeypatch.setitem(sys.modules, "_safekept_in_hermes", None)
    hooks = hooks_with(link := Heard())
    given = {"tool_name": "terminal", "session_id": "s", "turn_id": "t", "status": "ok", "result": "{}"}
    for background in (True, False, "true", None):
        hooks.after_tool(**given, args={"command": "serve", "background": background})
    assert [call["kind"] for call in link.calls] == ["after"] * 3


def test_a_turn_is_told_with_the_beginning_of_what_the_person_said(monkeypatch):
    hooks = hooks_with(link := Heard())
    for said, words in (
        ("Tidy up\nplease", "Tidy up\nplease"),
        ("x" * 9000, "x" * 4000),
        ([{"image": 1}], ""),
    ):
        hooks.turn_began(session_id="s", turn_id="t", platform="x", user_message=said)
        assert link.calls[-1]["kind"] == "turn" and link.calls[-1]["words"] == words
    hooks.turn_ended(session_id="s", turn_id="t")
    assert link.calls[-1]["kind"] == "end" and not link.calls[-1]["words"]


def test_what_the_agent_has_to_know_is_returned_to_hermes_and_nothing_else(monkeypatch):
    monkeypatch.setitem(sys.modules, "_safekept_in_hermes", None)
    told = {"session_id": "s", "turn_id": "t", "platform": "x"}
    assert hooks_with(Heard(context="restored")).turn_began(**told) == {"context": "restored"}
    for outcome in ({}, {"context": ""}, {"context": ["x"]}, {"notices": ["for the person"]}):
        assert hooks_with(Heard(**outcome)).turn_began(**told) is None


@pytest.mark.parametrize(
    ("tool", "command", "expected"),
    [
        ("terminal", "safekept rollback 1", True),
        ("mcp_safekept_roll_back", "", True),
        ("mcp_safekept_undo", "", True),
        ("terminal", "safekept status", False),
        ("terminal", "git rollback", False),
        ("terminal", "safekept " * 100_000, False),
    ],
)
def test_a_command_that_goes_back_is_known(tool, command, expected):
    assert goes_back(tool, command) is expected
