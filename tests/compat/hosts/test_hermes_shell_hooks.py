"""`safekept hook hermes` run by the real Hermes 0.19.0 as a shell hook, on its true dispatch path."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from support.hosts.recorded_hosts import new_user

_DRIVER = """
import json, sys
from agent.shell_hooks import register_from_config
from hermes_cli.config import load_config
from model_tools import handle_function_call
print(len(register_from_config(load_config(), accept_hooks=True)), file=sys.stderr)
for number, (tool, given) in enumerate(json.load(sys.stdin)):
    ids = {"task_id": "t", "session_id": "session-1", "tool_call_id": str(number), "turn_id": "turn-1"}
    print(json.dumps(handle_function_call(tool, given, **ids)), flush=True)
"""
_PATCH = "*** Begin Patch\n*** Update File: {}/src/main.py\n@@\n-old main\n+new main\n*** End Patch"


@pytest.fixture
def user(tmp_path):
    return new_user(str(tmp_path), {"a.txt": "old a\n", "src/main.py": "old main\n"})


def test_before_each_tool_of_the_real_hermes_a_point_holds_the_old_bytes(user, hermes_python):
    hook = shlex.join([sys.executable, "-I", "-m", "safekept", "hook", "hermes"])
    home = os.path.join(user.home, ".hermes")
    os.makedirs(home)
    events = ("pre_tool_call", "post_tool_call")
    config = {"hooks": {event: [{"command": hook, "timeout": 60}] for event in events}}
    with open(os.path.join(home, "config.yaml"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    calls = [
        ("read_file", {"path": f"{user.project}/a.txt"}),
        ("write_file", {"path": f"{user.project}/a.txt", "content": "new a\n"}),
        ("patch", {"mode": "patch", "patch": _PATCH.format(user.project)}),
        ("terminal", {"command": "rm a.txt", "workdir": user.project}),
    ]
    done = subprocess.run(
        [hermes_python, "-c", _DRIVER],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=user.project,
        env={**user.environment, "HERMES_HOME": home},
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(calls), done.stderr
    assert not os.path.exists(os.path.join(user.project, "a.txt")), "Hermes's own tools did their work"
    points = user.points()
    assert [point.reason for point in points] == [
        "before terminal: rm a.txt",
        "before patch src/main.py",
        "before write_file a.txt",
    ]
    assert {(point.session, point.turn) for point in points} == {("session-1", "turn-1")}
    held = [{name: content.decode() for name, content in user.held(number).items()} for number in (3, 2, 1)]
    assert held[0] == {"a.txt": "old a\n", "src/main.py": "old main\n"}
    assert held[1]["src/main.py"] == "old main\n"
    assert held[2] == {"a.txt": "new a\n", "src/main.py": "new main\n"}
    assert user.calls("hermes")["last_failure"] == {}
