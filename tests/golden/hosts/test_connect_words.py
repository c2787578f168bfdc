"""`safekept connect` and `disconnect` in words: the diff first, the refusal, the lines, the way back."""

from __future__ import annotations

import json
import os
import shlex
import sys

import pytest

from safekept.integrations import in_process
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.commands.terminals import Terminal
from support.hosts.connected import read, write
from support.projects.hidden_halves import git

THEIRS = b'{\n  "model": "opus"\n}\n'


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user with Claude Code, and a program called `safekept` by which it is called."""
    home = str(tmp_path / "user")
    write(os.path.join(home, ".claude", "settings.json"), THEIRS)
    launcher = str(tmp_path / "bin" / "safekept")
    write(launcher, b"#!/bin/sh\n", 0o755)
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", launcher)
    monkeypatch.setenv("PATH", os.path.dirname(launcher))
    return home


@pytest.fixture
def say(user, monkeypatch):
    return spoken(monkeypatch, user)


def settings_of(user: str) -> str:
    return os.path.join(user, ".claude", "settings.json")


def test_alone_it_lists_the_agents_and_how_to_connect_them(say, user):
    os.mkdir(os.path.join(user, ".codex"))
    assert say("connect").out == (
        "0 of 2 agents on this machine connected\n"
        "  claude-code  not connected: `safekept connect claude-code`\n"
        "  codex        not connected: `safekept connect codex`\n"
        "Not found here: hermes, gemini, cursor, opencode, qwen, copilot, cline\n"
    )
    assert say("connect", "codex", "--yes").code == 0
    told = "  codex        connected, has not called yet (trust it: `/hooks` in Codex)\n"
    assert told in say("connect").out
    document = json.loads(say("connect", "--json").out)
    assert [one["host"] for one in document["hosts"] if one["connected"]] == ["codex"]


def test_where_no_agent_is_that_is_said(say, user):
    os.rename(os.path.join(user, ".claude"), os.path.join(user, "gone"))
    said = say("connect")
    assert said.code == 0
    assert said.out == (
        "No agent that can be connected was found on this machine\n"
        "Not found here: hermes, claude-code, codex, gemini, cursor, opencode, qwen, copilot, cline\n"
    )


def test_without_a_terminal_and_without_yes_nothing_is_changed_and_the_command_is_printed(say, user):
    said = say("connect", "claude-code")
    assert said.code == 1
    assert said.out.startswith(f"--- {settings_of(user)}\n+++ {settings_of(user)}\n@@ -1,3 +1,")
    assert said.err == (
        "Changing the settings of Claude Code needs your consent\n\n"
        "  Kept       Nothing was changed\n"
        "  Next       See what would change: `safekept connect claude-code --dry-run`\n"
        "             Agree to it: `safekept connect claude-code --yes`\n"
        "  Error      consent-needed\n"
    )
    assert read(settings_of(user)) == THEIRS and not os.path.exists(os.path.join(user, ".local"))


def test_a_dry_run_shows_the_diff_and_changes_nothing(say, user):
    said = say("connect", "claude-code", "--dry-run")
    assert said.code == 0 and said.out.endswith("\nNothing was changed\n")
    added = [line[1:] for line in said.out.splitlines() if line.startswith("+") and "+++" not in line]
    assert '    "PreToolUse": [' in added
    assert read(settings_of(user)) == THEIRS and not os.path.exists(os.path.join(user, ".local"))


def test_it_says_what_was_done_where_the_copy_is_and_how_to_undo_it(say, user):
    said = say("connect", "claude-code", "--yes")
    assert said.code == 0 and said.err == ""
    tail = said.out[said.out.index("Connected Claude Code") :].splitlines()
    assert tail[0] == "Connected Claude Code"
    copy = tail[1].removeprefix("  Copy       what was there: ")
    assert read(copy) == THEIRS
    assert tail[-2:] == [
        "  See it     after its next change: `safekept connect`",
        "  Undo       `safekept connect claude-code --remove`",
    ]
    again = say("connect", "claude", "--yes")
    assert again.code == 0 and again.out == "Claude Code is connected already; nothing was changed\n"
    back = say("connect", "--remove", "claude-code", "--yes")
    assert back.out.endswith("\nDisconnected Claude Code\n  Again      `safekept connect claude-code`\n")
    assert read(settings_of(user)) == THEIRS
    once_more = say("connect", "--remove", "claude-code", "--yes")
    assert once_more.code == 0 and once_more.out == "Claude Code is not connected; nothing was changed\n"


def test_disconnecting_asks_too(say, user):
    say("connect", "claude-code", "--yes")
    connected = read(settings_of(user))
    said = say("connect", "--remove", "claude-code")
    assert said.code == 1 and "Agree to it: `safekept connect claude-code --remove --yes`" in said.err
    assert say("connect", "--remove", "claude-code", "--dry-run").out.endswith("\nNothing was changed\n")
    assert read(settings_of(user)) == connected


def test_the_document_has_the_diff_the_copy_and_the_notes(say, user):
    document = json.loads(say("connect", "claude-code", "--json", "--yes").out)
    (file,) = document["files"]
    assert document["changed"] is True and file["path"] == settings_of(user) and file["changes"] is True
    assert file["diff"].startswith(f"--- {settings_of(user)}\n")
    assert document["command"][1:] == ["hook", "claude-code"] and os.path.isabs(document["command"][0])
    assert [read(copy) for copy in document["copies"]] == [THEIRS]
    assert document["switched_off"] is None and len(document["notes"]) == 2
    again = json.loads(say("connect", "claude-code", "--json").out)
    assert again["changed"] is False and again["files"][0]["diff"] == ""
    back = json.loads(say("connect", "--remove", "claude-code", "--json", "--yes").out)
    assert back["changed"] is True and back["files"][0]["path"] == settings_of(user)


def test_a_file_with_comments_is_left_alone_and_the_lines_are_printed(say, user):
    commented = b'{\n  // mine\n  "model": "opus"\n}\n'
    write(settings_of(user), commented)
    said = say("connect", "claude-code", "--yes")
    assert said.code == 1 and read(settings_of(user)) == commented
    head, _, rest = said.out.partition("\n\n")
    assert head == f"To put into {settings_of(user)}:"
    lines = json.loads(rest)
    assert lines["hooks"]["PreToolUse"][0]["hooks"][0]["command"].endswith("safekept hook claude-code")
    assert said.err == (
        f"`{settings_of(user)}` has comments, which an edit would endanger (line 2: there is a comment)\n\n"
        "  Kept       The file is as it was; nothing was changed\n"
        "  Next       Put these lines into it yourself, then look whether Claude Code calls: "
        "`safekept connect`\n"
        "             Or mend the file and run `safekept connect claude-code` again\n"
        "  Error      settings-left-alone\n"
    )
    document = json.loads(say("connect", "claude-code", "--yes", "--json").out)
    assert document["error"]["code"] == "settings-left-alone"
    assert json.loads(document["error"]["facts"]["lines"]) == lines


def test_a_host_that_nobody_knows_is_said_with_those_that_are_known(say):
    said = say("connect", "emacs")
    assert said.code == 2
    assert "safekept does not know how to connect `emacs`" in said.err
    assert (
        "Name one of: hermes, claude-code, codex, gemini, cursor, opencode, qwen, copilot, cline" in said.err
    )


def test_hermes_is_not_connected_in_a_project_and_others_not_in_a_home(say, user):
    said = say("connect", "hermes", "--project", user)
    assert said.code == 2 and "Hermes is connected for all projects at once, not for one" in said.err
    said = say("connect", "codex", "--home", user)
    assert said.code == 2 and "--home is for Hermes" in said.err
    assert say("connect", "--project", user).code == 2
    assert say("connect", "codex", "--project", "/nowhere/at all").code == 2


def test_in_a_project_the_plan_says_what_is_kept_and_the_first_pass_begins(say, tmp_path, monkeypatch):
    project, begun = str(tmp_path / "project"), []
    for name, text in {".gitignore": b"data/\n", ".env": b"KEY=1\n", "data/a": b"a", "b.txt": b"b"}.items():
        write(os.path.join(project, name), text)
    monkeypatch.setenv("PATH", os.environ["PATH"] + os.pathsep + os.defpath)
    git(project, "init", "-q")
    monkeypatch.setattr(in_process, "run_apart", lambda call, environment: begun.append(call))
    words = ("connect", "claude-code", "--project", project)
    dry = say(*words, "--dry-run")
    assert dry.code == 0 and begun == [] and "What is kept of" not in dry.out
    said = say(*words, "--yes")
    assert said.code == 0, said
    assert f"What is kept of {project}" in said.out and "Hidden" in said.out
    assert [(call.kind, call.directory) for call in begun] == [("hidden", project)]
    document = json.loads(say(*words, "--yes", "--json").out)
    visible, hidden = document["coverage"]["visible"]["files"], document["coverage"]["hidden"]["files"]
    assert (visible, hidden) == (3, 2), "the settings that connecting wrote are one more"


def test_without_a_home_of_hermes_nothing_is_made(say, user):
    said = say("connect", "hermes", "--yes")
    assert said.code == 1 and error_code(said.err) == "home-not-found"
    assert not os.path.exists(os.path.join(user, ".hermes"))


def test_hermes_is_told_with_its_commands_and_that_it_must_be_restarted(say, user):
    write(os.path.join(user, ".hermes", "config.yaml"), b"# mine\nmodel: x  # keep\n")
    said = say("connect", "hermes", "--yes")
    assert said.code == 0, said.err
    assert "+plugins:\n+  enabled:\n+    - safekept\n" in said.out
    for words in ("Restart Hermes", "`/rollback`, `/snapshot` and `/snap`", "`/rewind`, `/checkpoint`"):
        assert words in said.out
    plugin = os.path.join(user, ".hermes", "plugins", "safekept")
    count = len(os.listdir(plugin)) - 1  # how it is called on this machine is shown in full
    assert said.out.startswith(f"+++ {plugin}/ (safekept's own plugin, {count} files new)\n"), said.out
    assert "plugin.yaml" not in said.out and "def register" not in said.out
    assert say("connect", "hermes", "--yes").out == "Hermes is connected already; nothing was changed\n"
    assert say("connect", "--remove", "hermes", "--yes").code == 0
    assert read(os.path.join(user, ".hermes", "config.yaml")) == b"# mine\nmodel: x  # keep\n"
    assert os.listdir(os.path.join(user, ".hermes")) == ["config.yaml"]


def test_a_profile_of_hermes_that_is_not_connected_yet_is_named(say, user):
    root = os.path.join(user, ".hermes")
    write(os.path.join(root, "config.yaml"), b"a: 1\n")
    profile = os.path.join(root, "profiles", "my coder")
    write(os.path.join(profile, "config.yaml"), b"b: 1\n")
    mend = f"safekept connect hermes --home '{profile}'"
    assert f"The profile my coder is not connected: `{mend}`\n" in say("connect", "hermes", "--yes").out
    words = shlex.split(mend)[1:]
    assert say(*words, "--yes").code == 0
    assert read(os.path.join(profile, "config.yaml")) == b"b: 1\nplugins:\n  enabled:\n    - safekept\n"
    document = json.loads(say("connect", "--json").out)
    assert {place["scope"] for place in document["hosts"][0]["places"]} == {root, profile}
    removed = say("connect", "--remove", "hermes", "--yes")
    away = f"{profile} is connected; there, too: `{mend} --remove`"
    assert removed.code == 0 and f"  Stays      {away}\n" in removed.out, removed.out
    assert say(*words, "--remove", "--yes").out.count("Stays") == 0
    assert read(os.path.join(profile, "config.yaml")) == b"b: 1\n"


def test_codex_must_be_told_to_trust_it_and_that_is_said(say, user):
    said = say("connect", "codex", "--yes")
    assert "Codex runs a hook only after you trusted it: type `/hooks` in Codex" in said.out
    assert "Codex was not found on this machine" in said.out


def test_a_host_that_is_switched_off_is_connected_and_that_is_said(say, user):
    write(settings_of(user), b'{"disableAllHooks": true}')
    said = say("connect", "claude-code", "--yes")
    where = f"`disableAllHooks` in {settings_of(user)}"
    assert f"Switched off by {where}: until that is taken back, nothing is protected\n" in said.out
    assert "connected, but switched off by `disableAllHooks`" in say("connect").out


def test_status_and_doctor_say_how_it_stands(say, user):
    say("connect", "claude-code", "--yes")
    assert "\nAgents       claude-code connected, has not called yet\n" in say("status").out
    write(settings_of(user), THEIRS)
    told = say("status").out
    assert "Claude Code was connected, but the entry is gone from" in told
    assert "`safekept connect claude-code`" in say("doctor").out
    document = json.loads(say("status", "--json").out)
    assert "connection-gone" in [one["code"] for one in document["verdict"]["reasons"]]
    assert document["hosts"][0]["troubles"][0]["kind"] == "gone"
    codes = [one["code"] for one in json.loads(say("doctor", "--json").out)["findings"]]
    assert "connection-gone" in codes
    say("connect", "claude-code", "--yes")
    assert "connection-gone" not in say("status", "--json").out


@pytest.mark.parametrize(("answer", "code", "ends"), [("y", 0, "Connected Claude Code"), ("n", 1, "")])
def test_at_a_terminal_it_asks_after_the_diff(user, launcher_environment, answer, code, ends):
    environment = {**launcher_environment, "HOME": user}
    with Terminal(
        sys.executable, "-I", "-m", "safekept", "connect", "claude", environment=environment
    ) as one:
        one.until("Connect Claude Code? [y/N]")
        assert '"PreToolUse"' in one.seen and read(settings_of(user)) == THEIRS
        one.type(f"{answer}\n")
        assert one.end() == code
        assert ends in one.seen
    assert (read(settings_of(user)) == THEIRS) == (answer == "n")


def test_the_log_has_who_was_connected_and_when(say):
    say("connect", "claude-code", "--yes")
    say("connect", "--remove", "claude-code", "--yes")
    rows = json.loads(say("log", "--json").out)["operations"]
    verbs = ("decline", "disconnect", "connect")  # who disconnects an agent has declined its protection
    assert [(row["verb"], row["outcome"]) for row in rows] == [(verb, "done") for verb in verbs]
    assert [line.split()[-1] for line in say("log").out.splitlines()[1:]] == ["claude-code"] * 3


def test_what_is_written_is_the_launcher_wherever_it_was_called_from(say, user, tmp_path, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", "../bin/safekept")
    command = json.loads(say("connect", "claude-code", "--json", "--yes").out)["command"]
    assert command[0] == str(tmp_path / "bin" / "safekept")
    (line,) = {
        one["command"]
        for event in json.loads(read(settings_of(user)))["hooks"].values()
        for group in event
        for one in group["hooks"]
    }
    assert shlex.split(line) == command == [command[0], "hook", "claude-code"]
