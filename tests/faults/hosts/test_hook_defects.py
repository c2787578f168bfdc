"""Defects that an attacker found in the ways in: a sequence of a host's own events, and what came back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from safekept.actions.hosts.calls import record_host_call
from safekept.actions.projects.rollback import RollbackOutcome, RollbackRequest, rollback
from safekept.checkpoints.store import Store
from safekept.checkpoints.take.taking import ProjectGone
from safekept.integrations import marks
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.settings_file import SettingsLeftAlone
from safekept.integrations.helper import client
from safekept.integrations.hosts import handle
from safekept.integrations.places import Place
from support.hosts.connected import connect, disconnect, program_in, tree
from support.hosts.recorded_hosts import User, new_user
from support.places import SOURCE
from support.projects.checkpoints import put
from support.users.contexts import throwaway


def event(user, name, tool="", given=None, *, cwd="", session="s", turn="t1", place=None, host="claude-code"):
    """One event of Claude Code, answered; what the person is told."""
    said = {"session_id": session, "prompt_id": turn, "cwd": cwd or user.project, "hook_event_name": name}
    if tool:
        said |= {"tool_name": tool, "tool_input": given or {}}
    answer = handle(host, json.dumps(said).encode(), place or user.place(), cwd or user.project)
    assert answer.exit == 0 and not answer.stderr
    return json.loads(answer.stdout).get("systemMessage", "") if answer.stdout else ""


def go_back(user: User, number: int = 1, project: str = "", **more: object) -> RollbackOutcome:
    request = RollbackRequest(project or user.project, str(number), settings=user.place().policy.take, **more)
    return rollback(user.place().context, request)


def content(path: str, name: str) -> str:
    with open(os.path.join(path, name)) as file:
        return file.read()


def project_at(place: str, **files: str) -> str:
    put(os.path.join(place, ".git", "HEAD"), "ref: refs/heads/main\n")
    for name, text in files.items():
        put(os.path.join(place, name), text)
    return place


# The directory around a project goes, too


def test_a_project_whose_parents_were_deleted_with_it_comes_back(tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    work = os.path.join(user.home, "work")
    project = project_at(os.path.join(work, "deep", "p"), a="old")
    event(user, "PreToolUse", "Bash", {"command": f"rm -rf {work}"}, cwd=project)
    shutil.rmtree(work)
    go_back(user, project=project)
    assert content(project, "a") == "old"


def test_a_dry_run_for_such_a_project_leaves_no_directory_behind(tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    work = os.path.join(user.home, "work")
    project = project_at(os.path.join(work, "deep", "p"), a="old")
    event(user, "PreToolUse", "Bash", {"command": "rm"}, cwd=project)
    shutil.rmtree(work)
    assert go_back(user, project=project, dry_run=True).plan.steps
    assert not os.path.lexists(work)


def test_where_the_disk_may_be_unmounted_the_way_on_is_another_than_the_command_that_failed(tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    work = os.path.join(user.home, "work")
    project = project_at(os.path.join(work, "p"), a="old")
    event(user, "PreToolUse", "Bash", {"command": "rm"}, cwd=project)
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        [point] = store.checkpoints(project)
    [record] = [
        os.path.join(above, "place.json")
        for above, _, names in os.walk(os.path.join(user.data, "checkpoints", "projects"))
        if "place.json" in names
    ]
    with open(record) as file:
        known = json.load(file)
    put(record, json.dumps({**known, "filesystem": known["filesystem"] + 1}))
    shutil.rmtree(work)
    with pytest.raises(ProjectGone) as refused:
        go_back(user, project=project)
    assert not os.path.lexists(work)
    assert (
        f"make `{work}` again, then `safekept rollback {point.id} --dir {project}`"
        in refused.value.advice()[1]
    )


# What a tool names is kept, in whichever project it lies


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Write", {"file_path": "~/other/a"}),
        ("mcp__files__write_file", {"path": "$OTHER/a"}),
        ("mcp__files__move", {"source": "$OTHER/a", "destination": "$OTHER/b"}),
        ("mcp__files__many", {"paths": ["$OTHER/a"]}),
        ("ToolOfTomorrow", {"file_path": "~/other/a"}),
        ("Bash", {"command": "rm -rf other"}),
        ("Bash", {"command": "cd other && rm a"}),
        ("Bash", {"command": "cd other/src; rm -rf ../a"}),
        ("Bash", {"command": "rm -rf $HOME/other"}),
        ("Bash", {"command": 'rm -rf "${HOME}/other"'}),
        ("Bash", {"command": "git -C other clean -fdx"}),
    ],
)
def test_what_is_named_in_another_project_is_kept(tool, given, tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    other = project_at(os.path.join(user.home, "other"), a="old", **{"src/b": "b"})
    filled = json.loads(json.dumps(given).replace("$OTHER", other))
    event(user, "PreToolUse", tool, filled, cwd=user.home)
    put(os.path.join(other, "a"), "new")
    go_back(user, project=other)
    assert content(other, "a") == "old"


@pytest.mark.parametrize("command", ["rm -rf work", "rm -rf work/", "cd work && rm -rf *", "mv work away"])
def test_a_directory_of_projects_that_a_command_names_is_kept_project_by_project(command, tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    work = os.path.join(user.home, "work")
    projects = [
        project_at(os.path.join(work, name), a=f"old {name}") for name in ("one", "two", "deep/three")
    ]
    event(user, "PreToolUse", "Bash", {"command": command}, cwd=user.home)
    shutil.rmtree(work)
    for project in projects:
        go_back(user, project=project)
        assert content(project, "a") == f"old {os.path.relpath(project, work)}"


# Calls that run at the same time


@pytest.mark.parametrize("remembering", [True, False], ids=["one helper", "a process for each hook"])
def test_of_two_commands_at_once_the_later_one_is_the_agents_too(remembering, tmp_path, monkeypatch):
    if not remembering:
        monkeypatch.setattr(marks, "_order", lambda data_directory, session: marks._Order())
    user = new_user(str(tmp_path), {"a": "a1", "b": "b1"})
    event(user, "PreToolUse", "Bash", {"command": "one"})
    event(user, "PreToolUse", "Bash", {"command": "two"})
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "one"})
    user.change({"b": "b2"})
    event(user, "PostToolUse", "Bash", {"command": "two"})
    event(user, "Stop")
    go_back(user)
    assert (content(user.project, "a"), content(user.project, "b")) == ("a1", "b1")


def test_a_mark_that_waits_is_not_made_while_another_command_of_the_session_runs(tmp_path):
    user = new_user(str(tmp_path), {"a": "a1", "b": "b1", "c": "c1"})
    waiting: dict[object, object] = {}
    place = Place.load(user.environment, waiting.__setitem__)

    def later():
        while waiting:
            waiting.pop(next(iter(waiting)))()

    event(user, "PreToolUse", "Bash", {"command": "one"}, place=place)
    event(user, "PreToolUse", "Bash", {"command": "two"}, place=place)
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "one"}, place=place)
    later()
    user.change({"b": "b2"})
    event(user, "PostToolUse", "Bash", {"command": "two"}, place=place)
    event(user, "PreToolUse", "Bash", {"command": "three"}, place=place)  # sooner than the mark
    later()
    user.change({"c": "c2"})
    event(user, "PostToolUse", "Bash", {"command": "three"}, place=place)
    event(user, "Stop", place=place)
    later()
    go_back(user, 2)
    assert [content(user.project, name) for name in "abc"] == ["a1", "b1", "c1"]


def test_what_a_command_left_running_writes_before_the_turn_ends_is_the_agents(tmp_path):
    user = new_user(str(tmp_path), {"a": "a1", "b": "b1"})
    event(user, "PreToolUse", "Bash", {"command": "build &"})
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "build &"})
    user.change({"b": "b2"})  # by what runs on
    event(user, "Stop")
    user.change({"mine": "m"})
    go_back(user)
    assert (content(user.project, "a"), content(user.project, "b")) == ("a1", "b1")
    assert content(user.project, "mine") == "m"


@pytest.mark.parametrize("remembering", [True, False], ids=["one helper", "a process for each hook"])
@pytest.mark.parametrize(
    ("host", "tool", "given"),
    [
        ("claude-code", "Bash", {"command": "serve", "run_in_background": True}),
        ("claude-code", "Agent", {"prompt": "do it", "run_in_background": True}),
        ("gemini", "run_shell_command", {"command": "serve", "is_background": True}),
        ("hermes", "terminal", {"command": "serve", "background": True}),
    ],
)
def test_what_a_background_command_writes_before_the_next_tool_is_the_agents(
    host, tool, given, remembering, tmp_path, monkeypatch
):
    if not remembering:
        monkeypatch.setattr(marks, "_order", lambda data_directory, session: marks._Order())
    before, after, end = {
        "claude-code": ("PreToolUse", "PostToolUse", "Stop"),
        "gemini": ("BeforeTool", "AfterTool", "AfterAgent"),
        "hermes": ("pre_tool_call", "post_tool_call", "on_session_end"),
    }[host]
    user = new_user(str(tmp_path), {"a": "a1", "b": "b1", "c": "c1"})
    event(user, before, tool, given, host=host)
    first = user.points()[0].id
    user.change({"a": "a2"})
    event(user, after, tool, given, host=host)
    user.change({"b": "b2"})  # by what runs on
    event(user, before, "other_tool", {"command": "x"}, host=host)
    user.change({"c": "c2"})
    event(user, end, host=host)
    user.change({"mine": "m"})
    done = go_back(user, first)
    assert [content(user.project, name) for name in "abc"] == ["a1", "b1", "c1"]
    assert content(user.project, "mine") == "m" and [left.path for left in done.plan.kept] == ["mine"]


def test_while_a_background_command_runs_no_other_command_of_the_turn_is_marked_and_its_end_is(tmp_path):
    user = new_user(str(tmp_path), {"a": "a1", "b": "b1", "c": "c1"})
    place = user.place()
    event(user, "PreToolUse", "Bash", {"command": "one"}, place=place)
    first = user.points()[0].id
    event(user, "PostToolUse", "Bash", {"command": "one"}, place=place)
    event(user, "PreToolUse", "Bash", {"command": "serve", "run_in_background": True}, place=place)
    event(user, "PostToolUse", "Bash", {"command": "serve", "run_in_background": True}, place=place)
    event(user, "PreToolUse", "Bash", {"command": "two"}, place=place)
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "two"}, place=place)
    user.change({"b": "b2"})  # by what runs on
    event(user, "PreToolUse", "Bash", {"command": "three"}, place=place)
    user.change({"c": "c2"})
    event(user, "PostToolUse", "Bash", {"command": "three"}, place=place)
    event(user, "Stop", place=place)
    user.change({"mine": "m"})
    go_back(user, first)
    assert [content(user.project, name) for name in "abc"] == ["a1", "b1", "c1"]
    assert content(user.project, "mine") == "m"


def test_a_tool_whose_end_is_never_told_holds_up_no_mark(tmp_path):
    user = new_user(str(tmp_path), {"a": "a1", "mine": "m1"})
    event(user, "PreToolUse", "Skill", {"skill": "x"})
    event(user, "PreToolUse", "Bash", {"command": "two"})
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "two"})
    user.change({"mine": "m2"})
    go_back(user)
    assert (content(user.project, "a"), content(user.project, "mine")) == ("a1", "m2")


def test_a_command_that_was_refused_does_not_make_the_users_edits_the_agents_for_good(tmp_path):
    user = new_user(str(tmp_path), {"a": "a1", "mine": "m1"})
    place = user.place()
    event(user, "PreToolUse", "Bash", {"command": "refused"}, place=place)  # and no end of it is ever told
    event(user, "UserPromptSubmit", turn="t2", place=place)
    event(user, "PreToolUse", "Bash", {"command": "two"}, turn="t2", place=place)
    user.change({"a": "a2"})
    event(user, "PostToolUse", "Bash", {"command": "two"}, turn="t2", place=place)
    user.change({"mine": "m2"})
    go_back(user)
    assert (content(user.project, "a"), content(user.project, "mine")) == ("a1", "m2")


# What is said is true


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_host_without_slash_commands_of_ours_is_not_told_to_use_one(host, tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    place = Place.load({**user.environment, "SAFEKEPT_CHECKPOINTS": "0"})
    said = event(user, "PreToolUse", "Bash", {"command": "x"}, place=place, host=host)
    assert "/safekept on" not in said
    assert "SAFEKEPT_CHECKPOINTS=0" in said and "without that variable" in said


def test_a_call_that_kept_its_files_under_broken_settings_is_not_called_unprotected(tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    put(os.path.join(user.home, ".config", "safekept", "config.toml"), "[[[")
    event(user, "PreToolUse", "Bash", {"command": "x"})
    os.unlink(os.path.join(user.home, ".config", "safekept", "config.toml"))
    event(user, "SessionStart", session="next")
    said = event(user, "PreToolUse", "Bash", {"command": "x"}, session="next")
    assert "was not protected" not in said and "cannot be read" in said


def test_a_call_that_kept_nothing_is_called_so_in_the_next_session(tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    record_host_call(user.data, "claude-code", kept=False, failure="No space left on device")
    event(user, "SessionStart", session="next")
    said = event(user, "PreToolUse", "Bash", {"command": "x"}, session="next")
    assert "the last time, claude-code was not protected: No space left on device" in said


@pytest.mark.parametrize("command", ["rm -f .env big", "echo x > .env; sed -i s/a/b/ big"])
def test_a_command_that_takes_away_what_cannot_be_kept_is_told_so_and_one_that_reads_is_not(
    command, tmp_path
):
    user = new_user(str(tmp_path), {".env": "KEY=1\n", "big": "x" * (11 << 20)})
    assert event(user, "PreToolUse", "Bash", {"command": "cat .env; wc -c big"}) == ""
    said = event(user, "PreToolUse", "Bash", {"command": command})
    assert "`.env` is not kept: holds secrets" in said and "`big` is not kept: larger than the limit" in said
    assert event(user, "PreToolUse", "Bash", {"command": command}) == ""


# Places that are no places


@pytest.mark.parametrize("name", ["XDG_DATA_HOME", "HOME"])
@pytest.mark.parametrize("value", ["data", "./data", "a/b", "~"])
def test_a_relative_place_in_the_environment_is_no_place_and_stops_no_hook(name, value, tmp_path):
    user = new_user(str(tmp_path), {"a": "x"})
    environment = {**user.environment, "SAFEKEPT_HELPER": "running", name: value}
    if name == "HOME":
        environment["XDG_DATA_HOME"] = os.path.join(user.home, "data")
        environment["XDG_CONFIG_HOME"] = os.path.join(user.home, "config")
    said = {"session_id": "s", "cwd": user.project, "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    start = "import sys; sys.path.append(sys.argv.pop(1)); from safekept.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, SOURCE, "hook", "claude-code"],
        input=json.dumps({**said, "tool_input": {"command": "x"}}).encode(),
        capture_output=True,
        cwd=user.project,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert sorted(os.listdir(user.project)) == [".git", "a"]
    data = client.data_directory(environment)
    assert data == Place.load(environment).data_directory and os.path.isabs(data)
    assert os.listdir(os.path.join(data, "checkpoints", "projects"))


# Somebody else's plugin


@pytest.mark.parametrize("names", [("plugin.yaml", "__init__.py"), ("__init__.py",), ("hooks.py",)])
def test_a_foreign_plugin_of_our_name_is_left_alone_to_the_byte(names, tmp_path):
    context = throwaway(tmp_path)
    home = os.path.join(context.places.user_home, ".hermes")
    put(os.path.join(home, "config.yaml"), "model: x\n")
    for name in names:
        put(os.path.join(home, "plugins", "safekept", name), "name: safekept\nauthor: me\n")
    before = tree(home)
    with pytest.raises(SettingsLeftAlone, match="belongs to another plugin of that name; move its directory"):
        connect(context, HOSTS["hermes"], program_in(tmp_path), home)
    assert tree(home) == before
    disconnect(context, HOSTS["hermes"], home)
    assert tree(home) == before


def test_our_own_plugin_of_an_older_version_or_changed_by_hand_is_renewed(tmp_path):
    context = throwaway(tmp_path)
    home = os.path.join(context.places.user_home, ".hermes")
    put(os.path.join(home, "config.yaml"), "model: x\n")
    before = tree(home)
    connect(context, HOSTS["hermes"], program_in(tmp_path), home)
    after = tree(home)
    put(os.path.join(home, "plugins", "safekept", "hooks.py"), "# an older one\n")
    connect(context, HOSTS["hermes"], program_in(tmp_path), home)
    assert tree(home) == after
    disconnect(context, HOSTS["hermes"], home)
    assert tree(home) == before
