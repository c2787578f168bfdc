"""The command that `connect` wrote, run as each host runs it: the file as it was comes back by `rollback`."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from conftest import run_safekept
from support.hosts.connected import JSON_HOSTS, read, write

#: What each host sends before it writes the file, and the event that it is.
SENT = {
    "claude-code": (
        "PreToolUse",
        {"tool_name": "Write", "tool_input": {"file_path": "FILE", "content": "new"}},
    ),
    "codex": (
        "PreToolUse",
        {
            "tool_name": "apply_patch",
            "turn_id": "t",
            "tool_input": {
                "command": "*** Begin Patch\n*** Update File: FILE\n@@\n-old\n+new\n*** End Patch"
            },
        },
    ),
    "gemini": (
        "BeforeTool",
        {"tool_name": "write_file", "tool_input": {"file_path": "FILE", "content": "new"}},
    ),
    "cursor": (
        "preToolUse",
        {"tool_name": "Write", "tool_input": {"file_path": "FILE"}, "workspace_roots": ["PROJECT"]},
    ),
}


def run_as_the_host_does(handler: dict, told: bytes, environment: dict[str, str], directory: str) -> bytes:
    """Exec form where there are `args`; through a shell elsewhere."""
    if "args" in handler:
        command: list[str] = [handler["command"], *handler["args"]]
    else:
        command = ["sh", "-c", handler["command"]]
    done = subprocess.run(
        command, input=told, capture_output=True, env=environment, cwd=directory, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr  # 2 would block; Cursor takes 0 for a permission
    return done.stdout


@pytest.mark.parametrize("name", sorted(SENT))
def test_what_a_connected_host_is_about_to_change_comes_back(tmp_path, launcher_environment, name):
    environment = {**launcher_environment, "SAFEKEPT_HELPER": "0"}
    user, project = environment["HOME"], str(tmp_path / "my project")
    path = os.path.join(project, "notes.txt")
    write(path, b"old\n")
    subprocess.run(["git", "init", "-q", project], check=True, env=environment)
    assert run_safekept("connect", name, "--yes", environment=environment).returncode == 0
    event, told = SENT[name]
    entries = json.loads(read(os.path.join(user, JSON_HOSTS[name])) or b"")["hooks"][event]
    handler = entries[0]["hooks"][0] if "hooks" in entries[0] else entries[0]
    message = {"hook_event_name": event, "session_id": "s", "cwd": project, **told}
    sent = json.dumps(message).replace("FILE", path).replace("PROJECT", project).encode()
    assert run_as_the_host_does(handler, sent, environment, user).strip() in (b"", b"{}")
    write(path, b"new\n")
    done = run_safekept("rollback", "1", "--dir", project, environment=environment)
    assert done.returncode == 0, done.stderr
    assert read(path) == b"old\n"
    (one,) = [
        host
        for host in json.loads(run_safekept("connect", "--json", environment=environment).stdout)["hosts"]
        if host["host"] == name
    ]
    assert one["connected"] and one["troubles"] == [] and one["calls"] == 1
    assert one["last_checkpoint"] is not None
