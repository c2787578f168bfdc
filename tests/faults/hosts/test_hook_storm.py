"""Hooks in a crowd: twenty at once of all hosts, hosts that kill them, an agent that deletes under them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from safekept.checkpoints.store.store import Store
from support.hosts.recorded_hosts import HOSTS, neutral_exit, new_user
from support.projects.checkpoints import contents_in_store, fsck, put
from support.vault.closed import open_below

_WRITES = {
    "claude-code": ("PreToolUse", "Write", "file_path"),
    "codex": ("PreToolUse", "Write", "file_path"),
    "gemini": ("BeforeTool", "write_file", "file_path"),
    "hermes": ("pre_tool_call", "write_file", "path"),
    "cursor": ("preToolUse", "Write", "file_path"),
    "qwen": ("PreToolUse", "write_file", "file_path"),
    "copilot": ("PreToolUse", "Write", "path"),
    "cline": ("tool_call", "editor", "path"),
    "opencode": ("tool.execute.before", "write", "filePath"),
}


def about_to_write(host, user, name, session="s"):
    event, tool, field = _WRITES[host]
    path = os.path.join(user.project, name)
    if host == "opencode":
        fields = {"hook": event, "tool": tool, "args": {field: path}, "sessionID": session}
        return json.dumps({**fields, "directory": user.project}).encode()
    if host == "cline":
        fields = {"hookName": event, "tool_call": {"name": tool, "input": {field: path}}, "taskId": session}
        return json.dumps({**fields, "workspaceRoots": [user.project]}).encode()
    fields = {"hook_event_name": event, "tool_name": tool, "tool_input": {field: path}, "cwd": user.project}
    return json.dumps({**fields, "session_id": session, "conversation_id": session}).encode()


def start(host, user, raw, **environment):
    command = [sys.executable, "-I", "-m", "safekept", "hook", host]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, env={**user.environment, **environment}, cwd=user.project, **pipes)
    child.stdin.write(raw)
    child.stdin.close()
    return child


def ended(host, child):
    with child:
        out, errors = child.stdout.read(), child.stderr.read()
        code = child.wait(300)
    assert (out, code) == (b"{}\n" if host == "gemini" else b"", neutral_exit(host, "preToolUse")), errors


def every_version(user):
    """name -> all contents of it that any point holds."""
    found: dict[str, set[bytes]] = {}
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        for point in store.checkpoints(user.project):
            for name, content in contents_in_store(store, point).items():
                found.setdefault(name, set()).add(content)
        fsck(store)
    return found


def crowd(user, rounds, **environment):
    for turn in range(rounds):
        names = [f"{turn}-{number}.txt" for number in range(20)]
        for name in names:
            put(os.path.join(user.project, name), f"old {name}")
        hosts = [HOSTS[number % len(HOSTS)] for number in range(20)]
        pairs = zip(names, hosts, strict=True)
        running = [
            (host, start(host, user, about_to_write(host, user, name), **environment)) for name, host in pairs
        ]
        for host, child in running:
            ended(host, child)
        for name in names:
            put(os.path.join(user.project, name), f"new {name}")
    held = every_version(user)
    for turn in range(rounds):
        for number in range(20):
            name = f"{turn}-{number}.txt"
            assert f"old {name}".encode() in held[name], name
    for host in HOSTS:
        assert user.calls(host)["last_failure"] == {}, host


def test_twenty_hooks_of_all_hosts_at_once_each_hold_the_old_bytes(tmp_path):
    crowd(new_user(str(tmp_path), {}), rounds=1)


@pytest.mark.soak("hooks")
@pytest.mark.parametrize("helper", ["0", "1"])
def test_five_hundred_hooks_twenty_at_a_time(tmp_path, helper):
    user = new_user(str(tmp_path), {})
    try:
        crowd(user, rounds=25, SAFEKEPT_HELPER=helper)
    finally:
        command = [sys.executable, "-I", "-m", "safekept", "helper", "stop"]
        subprocess.run(command, env=user.environment, capture_output=True)


def killed_hooks(user, count, seed):
    """A host ends a hook at its timeout: whatever was going on, the next one works."""
    chance = random.Random(seed)
    for number in range(count):
        put(os.path.join(user.project, "a.txt"), f"old {number}")
        host = chance.choice(HOSTS)
        raw = about_to_write(host, user, "a.txt", f"s{number}")
        child = start(host, user, raw)
        time.sleep(chance.uniform(0, 0.25))
        child.send_signal(signal.SIGKILL)
        with child:
            child.wait(300)
        ended(host, start(host, user, raw))
        held = every_version(user)
        assert f"old {number}".encode() in held["a.txt"], number
    for host in HOSTS:
        assert user.calls(host).get("last_failure", {}) == {}, host


def test_a_hook_killed_at_any_moment_leaves_nothing_that_stops_the_next(tmp_path):
    killed_hooks(new_user(str(tmp_path), {"b.txt": "b"}), 6, seed=7)


@pytest.mark.soak("hooks")
def test_two_hundred_hooks_killed_at_any_moment(tmp_path):
    killed_hooks(new_user(str(tmp_path), {"b.txt": "b"}), 200, seed=11)


@pytest.mark.parametrize("gone", ["project", "store", "settings"])
def test_an_agent_that_deletes_everything_in_mid_turn_stops_no_hook(tmp_path, gone):
    user = new_user(str(tmp_path), {"a.txt": "old"})
    put(
        os.path.join(user.home, ".config", "safekept", "config.toml"), "[checkpoints]\nmax_file_size_mb = 5\n"
    )
    ended("codex", start("codex", user, about_to_write("codex", user, "a.txt")))
    place = {"project": user.project, "store": user.data, "settings": os.path.join(user.home, ".config")}[
        gone
    ]
    shutil.rmtree(open_below(place))
    if gone == "project":
        os.mkdir(user.project)  # a process cannot stand nowhere; the hook of another directory can
    raw = about_to_write("codex", user, "a.txt")
    child = start("codex", user, raw)
    with child:
        out, code = child.stdout.read(), child.wait(300)
    assert code == 0
    assert out == b"" or set(json.loads(out)) == {"systemMessage"}
    assert b"old" in every_version(user)["a.txt"], "what was kept is still there, or was kept again"
    if gone != "project":
        assert user.held() == {"a.txt": b"old"}
