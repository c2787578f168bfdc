"""What a tool may touch, read from what a host says of it: patches, commands, homes, other back ends."""

from __future__ import annotations

import os

import pytest

from safekept.integrations.entry import HOSTS
from safekept.integrations.hosts.answers import ShownMessages
from safekept.integrations.hosts.commands import named_by
from safekept.integrations.hosts.event import Event, one_line, reason
from safekept.integrations.hosts.handling import find_host
from safekept.integrations.hosts.host import paths_in
from safekept.integrations.in_process import hook_here
from safekept.integrations.places import Place
from support.projects.checkpoints import put


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("*** Begin Patch\n*** Update File: a b.txt\n@@\n-x\n+y\n*** End Patch", ("a b.txt",)),
        ("\t  *** Add File: new/ä.md  \r\n+text", ("new/ä.md",)),
        ("*** Update File: old\n*** Move to: new", ("old", "new")),
        ("*** Move File: old -> new", ("old", "new")),
        ("*** Delete File: /abs/path", ("/abs/path",)),
        ("*** Update File: a\n*** Update File: a", ("a",)),
        ("--- a/old.c\t2026-01-01\n+++ b/new.c\n@@ -1 +1 @@", ("old.c", "new.c")),
        ("--- /dev/null\n+++ b/made.c", ("made.c",)),
        ("diff --git a/x b/y\nrename from x\nrename to y", ("x", "y")),
        ("*** Update File:   \n*** Updated File: a\n+*** Update File: b", ()),
        ("", ()),
        ("*** Update File: a\ud800b", ("a\ufffdb",)),
    ],
)
def test_a_patch_names_every_file_it_touches(text, paths):
    assert paths_in(text) == paths


def test_a_patch_of_many_thousand_files_is_bounded():
    assert len(paths_in("\n".join(f"*** Update File: f{number}" for number in range(10_000)))) == 2000


def test_a_patch_that_names_nothing_is_like_a_command():
    call = codex("apply_patch", {"command": "*** Begin Patch\nnonsense\n*** End Patch"})
    assert (call.kind, call.shell, call.paths) == ("before", True, ())


def codex(tool, given):
    fields = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given, "cwd": "/p"}
    return find_host("codex").call(Event(fields), "/cwd")


def test_a_command_may_be_a_list_of_words():
    call = codex("Bash", {"command": ["bash", "-lc", "rm a"]})
    assert (call.shell, call.reason) == (True, "before Bash: bash -lc rm a")
    call = codex(
        "apply_patch", {"command": ["apply_patch", "*** Begin Patch\n*** Delete File: a\n*** End Patch"]}
    )
    assert call.paths == ("a",)
    assert codex("Bash", {"command": [1, None]}).reason == "before Bash"


@pytest.mark.parametrize("given", [{}, {"file_path": 5}, {"file_path": ""}, {"path": None}, None, [], "text"])
@pytest.mark.parametrize("host", ["claude-code", "cursor", "gemini", "opencode"])
def test_a_tool_that_writes_and_does_not_say_where_is_like_a_command(host, given):
    tool = {"gemini": "write_file", "opencode": "write"}.get(host, "Write")
    event = {"claude-code": "PreToolUse", "cursor": "preToolUse", "gemini": "BeforeTool"}.get(host)
    fields = {"hook_event_name": event, "tool_name": tool, "tool_input": given, "cwd": "/p"}
    if host == "opencode":
        fields = {"hook": "tool.execute.before", "tool": tool, "args": given, "directory": "/p"}
    call = find_host(host).call(Event(fields), "/cwd")
    assert (call.kind, call.shell, call.directory) == ("before", True, "/p")


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_command_names_files_that_a_full_pass_would_leave(tmp_path):
    place = str(tmp_path)
    for name in ("x.cfg", "sub/y.cfg", "a b"):
        put(os.path.join(place, name), "1")
    os.symlink("/etc/hostname", os.path.join(place, "outside"))
    command = (
        "sed -i s/1/2/ x.cfg && rm -f ./sub/y.cfg 'sub' --flag outside /etc/hostname >x.cfg; cat nowhere"
    )
    assert named_by(command, place) == (f"{place}/x.cfg", f"{place}/sub/y.cfg")
    assert named_by("--file=x.cfg", place) == (f"{place}/x.cfg",)
    assert named_by("FILE=x.cfg", place) == (f"{place}/x.cfg",)
    assert named_by("cat x.cfg\0", place) == (f"{place}/x.cfg",)
    assert named_by("cat x.cfg", "relative") == named_by("cat x.cfg", "/a\0b") == named_by("", place) == ()
    assert named_by("x.cfg " * 10**6, place) == (f"{place}/x.cfg",)


def test_a_command_names_another_project(tmp_path):
    put(str(tmp_path / "here" / "pyproject.toml"), "")
    put(str(tmp_path / "other" / ".git" / "HEAD"), "")
    put(str(tmp_path / "other" / "src" / "a"), "")
    found = named_by("cd ../other && rm -rf src", str(tmp_path / "here"))
    assert found == (str(tmp_path / "other"),)


def hermes(tool, given, environment=(), cwd="/w"):
    fields = {"hook_event_name": "pre_tool_call", "tool_name": tool, "tool_input": given, "session_id": "s"}
    event = Event({**fields, "cwd": cwd, "extra": {"turn_id": "t"}})
    event.environment, event.user_home = dict(environment), "/home/u"
    return find_host("hermes").call(event, "/cwd")


def test_hermes_changes_its_home_by_tools_of_its_own():
    call = hermes("cronjob", {"action": "create"})
    assert (call.kind, call.shell, call.home) == ("before", False, "/home/u/.hermes")
    assert call.paths == ("/home/u/.hermes/cron/jobs.json",)
    assert hermes("cronjob", {"action": "list"}).kind == "nothing"
    call = hermes("skill_manage", {"action": "edit", "name": "brew"}, {"HERMES_HOME": "/h"})
    assert (call.home, call.paths) == ("/h", ("/h/skills/brew",))


def test_hermes_works_where_it_was_configured_to(tmp_path):
    place = str(tmp_path)
    call = hermes("write_file", {"path": "a"}, {"TERMINAL_CWD": place}, cwd="/opt/hermes")
    assert (call.directory, call.paths) == (place, ("a",))
    put(str(tmp_path / "cwd" / "a"), "1")
    call = hermes("write_file", {"path": "a"}, {"TERMINAL_CWD": place}, cwd=f"{place}/cwd")
    assert call.paths == ("a", f"{place}/cwd/a"), "in doubt both"
    for said in ("", ".", "auto", "/no/such/place"):
        assert hermes("write_file", {"path": "a"}, {"TERMINAL_CWD": said}).directory == "/w"


@pytest.mark.parametrize(
    ("name", "words"), [("docker", "a Docker container"), ("SSH", "another machine (ssh)"), ("local", "")]
)
def test_a_back_end_that_nobody_can_reach_is_said(name, words):
    assert hermes("terminal", {"command": "ls"}, {"TERMINAL_ENV": name}).out_of_reach == words
    assert hermes("write_file", {"path": "a"}, {"TERMINAL_ENV": name}).out_of_reach == words
    assert hermes("cronjob", {"action": "create"}, {"TERMINAL_ENV": name}).out_of_reach == ""


@pytest.mark.parametrize(
    ("fields", "cwd", "directory"),
    [
        ({"cwd": "/p/sub", "workspace_roots": ["/p"]}, "/home/u/.cursor", "/p/sub"),
        ({"cwd": "", "workspace_roots": ["/p"]}, "/home/u/.cursor", "/p"),
        ({"workspace_roots": []}, "/home/u/.cursor", ""),
        ({}, "/p", "/p"),
        ({"cwd": "sub", "workspace_roots": ["/p", "/q"]}, "/x", "/p/sub"),
        ({"cwd": 5, "workspace_roots": "no"}, "/x", "/x"),
    ],
)
def test_cursor_says_where_it_works_since_its_hooks_run_elsewhere(fields, cwd, directory):
    event = Event({"hook_event_name": "beforeShellExecution", "command": "ls", **fields})
    assert find_host("cursor").call(event, cwd).directory == directory


def test_every_folder_of_a_workspace_is_looked_at_before_a_command():
    fields = {"hook_event_name": "beforeShellExecution", "command": "ls", "workspace_roots": ["/p", "/q"]}
    assert find_host("cursor").call(Event(fields), "/x").paths == ("/q",)


@pytest.mark.parametrize(
    ("tasks", "kind"),
    [
        (None, "end"),
        ([], "end"),
        ("strange", "end"),
        ([7, {"type": "shell", "status": "running"}], "end"),
        ([{"id": "a1", "type": "subagent", "status": "running", "agent_type": "general-purpose"}], "nothing"),
    ],
)
def test_turn_of_claude_code_is_not_over_while_a_subagent_goes_on(tasks, kind):
    """As 2.1.325 says it. A mark at that moment made a subagent's change the person's own."""
    fields = {"hook_event_name": "Stop", "session_id": "s", "cwd": "/p"}
    fields |= {} if tasks is None else {"background_tasks": tasks}
    assert find_host("claude-code").call(Event(fields), "/cwd").kind == kind


def test_names_are_one_line_and_of_bounded_length():
    assert one_line("a\n b\tc\x1b[31m\ud800", 50) == "a b c [31m?"
    assert one_line("x" * 500, 60) == "x" * 59 + "…"
    assert reason("Bash", "rm -rf\n build") == "before Bash: rm -rf build"
    assert reason("", "") == "before a tool"


def not_shown_yet(data, host, session, sentences):
    return ShownMessages(data, host, session).not_shown_yet(sentences)


def test_what_cannot_be_said_now_waits_for_the_next_event(tmp_path):
    said = ShownMessages(str(tmp_path), "codex", "s")
    said.keep_for_later(["a", "b"])
    said.keep_for_later(["b"])
    assert ShownMessages(str(tmp_path), "codex", "other").not_shown_yet([]) == []
    assert said.not_shown_yet(["c"]) == ["a", "b", "c"]
    assert said.not_shown_yet(["a"]) == said.not_shown_yet([]) == []
    for number in range(5000):
        said.keep_for_later([f"sentence {number}"])
    assert 100 < len(said.not_shown_yet([])) < 3000, "bounded"


def test_a_sentence_is_said_once_in_a_session_and_again_in_the_next(tmp_path):
    data = str(tmp_path / "data")
    assert not_shown_yet(data, "codex", "s", ["a", "b"]) == ["a", "b"]
    assert not_shown_yet(data, "codex", "s", ["b", "c"]) == ["c"]
    assert not_shown_yet(data, "codex", "t", ["a"]) == ["a"]
    assert not_shown_yet(data, "gemini", "s", ["a"]) == ["a"]
    files = os.listdir(os.path.join(data, "integrations", "said"))
    assert len(files) == 3
    for name in files:
        os.utime(os.path.join(data, "integrations", "said", name), (0, 0))
    assert not_shown_yet(data, "codex", "u", ["a"]) == ["a"]
    assert len(os.listdir(os.path.join(data, "integrations", "said"))) == 1, "old sessions are forgotten"


def test_what_cannot_be_remembered_is_said_again(tmp_path):
    data = put(str(tmp_path / "data"), "a file is in the way")
    assert not_shown_yet(data, "codex", "s", ["a"]) == not_shown_yet(data, "codex", "s", ["a"]) == ["a"]


@pytest.mark.parametrize("host", HOSTS)
def test_where_nothing_of_ours_can_be_loaded_the_host_goes_on_and_hears_why(host, monkeypatch):
    def broken(*words: object) -> Place:
        raise ImportError("half an update")

    monkeypatch.setattr(Place, "load", broken)
    out, errors, code = hook_here(host, b"{}", {}, "/")
    assert out == b"" and b"nothing was kept before this: ImportError: half an update" in errors
    assert code == (1 if host == "cursor" else 0), "to Cursor an empty answer with 0 may be a refusal"
