"""A folder without `.git` or any other marker, told of in the words of each host: it is a project because an
agent works in it, unless it holds too much."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.store import Store
from safekept.integrations.hosts import handle
from support.commands.in_process import spoken
from support.hosts.recorded_hosts import User, filled_in, new_user, recorded
from support.projects.checkpoints import put

#: A host, its tool that writes, and its shell.
HOSTS = {
    "claude-code": ("Write", "Bash"),
    "codex": ("apply_patch", "Bash"),
    "gemini": ("write_file", "run_shell_command"),
    "cursor": ("Write", "Shell"),
    "opencode": ("write", "bash"),
    "qwen": ("write_file", "run_shell_command"),
    "copilot": ("Write", "Bash"),
}
DATA = {"data/one.csv": "1\n", "data/deep/two.csv": "2\n"}


@pytest.fixture
def user(tmp_path) -> User:
    made = new_user(str(tmp_path), recorded("claude-code/turn")["project"])
    made.change(dict(DATA))
    shutil.rmtree(os.path.join(made.project, ".git"))
    return made


def event_of(user: User, host: str, kind: str, tool: str = "") -> dict:
    return next(
        filled_in(step["event"], user.project)
        for step in recorded(f"{host}/turn")["steps"]
        if step["call"]["kind"] == kind and step["call"].get("tool", "") == tool
    )


def tell(user: User, host: str, event: dict) -> str:
    return handle(host, json.dumps(event).encode(), user.place(), user.project).stdout.decode()


def prompt(user: User, host: str) -> None:
    tell(user, host, event_of(user, host, "before" if host == "cursor" else "turn"))


def content(user: User) -> dict[str, str]:
    found = {}
    for above, _, names in os.walk(user.project):
        for name in names:
            path = os.path.join(above, name)
            with open(path, encoding="utf-8") as file:
                found[os.path.relpath(path, user.project)] = file.read()
    return found


def projects(user: User) -> list[str]:
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        return sorted(store.projects())


def roll_back_one(user: User) -> None:
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        roll_back(store, plan_rollback(store, user.project, "1"))


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_command_deleted_comes_back(host, user):
    """`find data -delete`, as it was run in Claude Code, Codex, Gemini and opencode: nothing came back."""
    before = content(user)
    prompt(user, host)
    command = event_of(user, host, "before", HOSTS[host][1])
    said = tell(user, host, command)
    assert "not kept" not in said and "is no project" not in said
    shutil.rmtree(os.path.join(user.project, "data"))
    os.unlink(os.path.join(user.project, "src", "main.py"))
    roll_back_one(user)
    assert content(user) == before


@pytest.mark.parametrize("host", HOSTS)
def test_edits_in_two_subdirectories_are_of_one_project(host, user):
    prompt(user, host)
    name = HOSTS[host][0]
    for path in ("src/main.py", "sub/new.py"):
        written = event_of(user, host, "before", name)
        where = "args" if host == "opencode" else "tool_input"
        key = "command" if host == "codex" else "filePath" if host == "opencode" else "file_path"
        named = os.path.join(user.project, path)
        text = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch" if host == "codex" else named
        tell(user, host, {**written, where: {key: text}})
    assert projects(user) == [user.project]
    assert user.held()["data/one.csv"] == b"1\n"


def test_a_shell_that_went_into_a_subdirectory_is_still_in_the_same_project(user):
    """Claude Code's `cwd` follows the `cd` of its shell."""
    prompt(user, "claude-code")
    command = event_of(user, "claude-code", "before", "Bash")
    tell(user, "claude-code", command)
    tell(user, "claude-code", {**command, "cwd": os.path.join(user.project, "data")})
    assert projects(user) == [user.project]
    tell(
        user, "claude-code", {**event_of(user, "claude-code", "session-start"), "cwd": user.project + "/src"}
    )
    user.change({"src/main.py": "other\n"})
    tell(user, "claude-code", {**command, "cwd": user.project + "/src"})
    assert projects(user) == [user.project, user.project + "/src"], "a session that begins elsewhere"


def test_what_the_turn_left_is_marked_whole_so_that_later_edits_are_the_persons(user):
    prompt(user, "claude-code")
    tell(user, "claude-code", event_of(user, "claude-code", "before", "Bash"))
    user.change({"data/one.csv": "by the agent\n"})
    tell(user, "claude-code", event_of(user, "claude-code", "end"))
    user.change({"data/deep/two.csv": "mine\n"})
    roll_back_one(user)
    assert content(user)["data/one.csv"] == "1\n"
    assert content(user)["data/deep/two.csv"] == "mine\n"


def in_directory(user: User, directory: str) -> list[str]:
    """What a Claude Code that works there says of a write and of a command."""
    put(os.path.join(directory, "notes.txt"), "old\n")
    named = {"file_path": os.path.join(directory, "notes.txt"), "content": "new\n"}
    write = {**event_of(user, "claude-code", "before", "Write"), "cwd": directory, "tool_input": named}
    command = {
        **event_of(user, "claude-code", "before", "Bash"),
        "cwd": directory,
        "tool_input": {"command": "find data -delete"},
    }
    prompted = {**event_of(user, "claude-code", "turn"), "cwd": directory}
    return [tell(user, "claude-code", event) for event in (prompted, write, command)]


@pytest.mark.parametrize("which", ["home", "above a home", "an agent's home", "secrets"])
def test_a_directory_that_holds_too_much_is_kept_by_name_only_and_that_is_said(which, user, tmp_path):
    os.makedirs(os.path.join(user.home, ".hermes", "memories"))
    put(os.path.join(user.home, ".hermes", "config.yaml"), "model: x\n")
    directory = {
        "home": user.home,
        "above a home": os.path.dirname(user.home),
        "an agent's home": os.path.join(user.home, ".hermes", "memories"),
        "secrets": os.path.join(user.home, ".ssh"),
    }[which]
    put(os.path.join(directory, "data", "one.csv"), "1\n")
    _, _, said = in_directory(user, directory)
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        held = {
            name
            for one in store.projects()
            for point in store.checkpoints(one)
            for name in names(store, point)
        }
    assert not any("one.csv" in name for name in held), "nothing that nobody named"
    if which in ("home", "above a home", "secrets"):
        assert "only files that a tool names are kept" in said


def names(store, point) -> list[str]:
    return [path for path, _ in store.state(point).items()]


def test_a_rollback_where_only_named_files_are_kept_says_so(user, monkeypatch):
    """After `find data -delete` in the home directory it said "Went back", and nothing else."""
    put(os.path.join(user.home, "data", "one.csv"), "1\n")
    in_directory(user, user.home)
    shutil.rmtree(os.path.join(user.home, "data"))
    put(os.path.join(user.home, "notes.txt"), "new\n")
    say = spoken(monkeypatch, user.home)
    for words in (("--dry-run",), ()):
        said = say("rollback", "1", *words)
        assert said.code == 0
        assert (
            "Note only files that a tool named are kept here: whatever else was changed or deleted stays so"
            in (" ".join(said.out.split()))
        )
    with open(os.path.join(user.home, "notes.txt"), encoding="utf-8") as file:
        assert file.read() == "old\n"
    said = say("status")
    assert "only files that a tool names are kept" in " ".join(said.out.split())


def test_a_command_before_which_nothing_could_be_kept_makes_no_point(user):
    """A file that was named and is not there yet is no reason for a point of its own before every command."""
    named = {"file_path": os.path.join(user.home, "new.txt"), "content": "new\n"}
    write = {**event_of(user, "claude-code", "before", "Write"), "cwd": user.home, "tool_input": named}
    command = {**event_of(user, "claude-code", "before", "Bash"), "cwd": user.home}
    tell(user, "claude-code", write)
    tell(user, "claude-code", command)
    tell(user, "claude-code", command)
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        assert [point.reason for point in store.checkpoints(user.home)] == ["before Write new.txt"]
