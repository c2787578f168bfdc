"""safekept from a wheel: everything is in it, and what agents and timers call is there after an upgrade."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from safekept import __version__
from safekept.cli.main import COMMANDS
from support.commands.wheels import Source, installed, run
from support.home.homes import make_hermes_home

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Built:
    """Two wheels of one version, built from two commits."""

    wheels: tuple[str, str]
    commits: tuple[str, str]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheels")
    source = Source(str(place / "source"))
    first = source.commit()
    one = source.build(str(place / "one"))
    second = source.commit()
    return Built((one, source.build(str(place / "two"))), (first, second))


@dataclass
class User:
    """Somebody who installed it as pipx and uv do: an environment, and a link to it on the PATH."""

    home: str
    wheels: tuple[str, str]

    @property
    def link(self) -> str:
        return os.path.join(self.home, ".local", "bin", "safekept")

    @property
    def environment(self) -> dict[str, str]:
        path = f"{os.path.dirname(self.link)}:{os.environ['PATH']}"
        return {"HOME": self.home, "PATH": path, "NO_COLOR": "1", "SAFEKEPT_HELPER": "0"}

    def install(self, number: int, place: str) -> str:
        program = installed(self.wheels[number], os.path.join(self.home, "tools", place))
        os.makedirs(os.path.dirname(self.link), exist_ok=True)
        if os.path.lexists(self.link):
            os.unlink(self.link)
        os.symlink(program, self.link)
        return program

    def safekept(self, *words: str, code: int | None = 0) -> str:
        return run(self.link, *words, cwd=self.home, environment=self.environment, code=code)


@pytest.fixture(scope="module")
def user(tmp_path_factory, built):
    home = str(tmp_path_factory.mktemp("installed") / "user")
    make_hermes_home(os.path.join(home, ".hermes"), profiles=(), awkward=False)
    user = User(home, built.wheels)
    user.install(0, "first")
    return user


def test_a_wheel_brings_everything_along(user):
    tools = os.path.join(user.home, "tools", "first")
    pages = os.listdir(os.path.join(tools, "share", "man", "man1"))
    assert sorted(pages) == sorted(["safekept.1", *(f"safekept-{name}.1" for name in COMMANDS)])
    assert "complete" in user.safekept("completion", "bash")
    assert json.loads(user.safekept("snapshot", "--json"))["complete"] is True
    load = "from importlib.metadata import entry_points as e; print(e(group='hermes_agent.plugins'))"
    found = run(os.path.join(tools, "bin", "python"), "-I", "-c", load)
    assert "safekept.integrations.hermes.entry" in found, "Hermes finds the plugin by itself"


def test_hooks_plugin_and_schedule_work_after_an_upgrade_into_another_place(user, built):
    os.makedirs(os.path.join(user.home, ".claude"))
    for host in ("claude-code", "hermes"):
        user.safekept("connect", host, "--yes")
    timer = json.loads(user.safekept("schedule", "install", "--host", "cron", "--dry-run", "--json"))
    with open(os.path.join(user.home, ".claude", "settings.json"), encoding="utf-8") as file:
        hooks = set(re.findall(r'"command": "([^"]*)"', file.read()))
    plugin = read_all(os.path.join(user.home, ".hermes"), "connection.json")
    assert hooks == {f"{user.link} hook claude-code"}
    assert plugin["command"] == [user.link]
    assert user.link in json.dumps(timer) and "tools/first" not in json.dumps(timer)

    assert user.safekept("--version") == f"safekept {__version__} ({built.commits[0][:12]})\n"
    user.install(1, "second")
    assert user.safekept("-V") == f"safekept {__version__} ({built.commits[1][:12]})\n", (
        "two builds of one version"
    )
    shutil.rmtree(os.path.join(user.home, "tools", "first"))
    project = os.path.join(user.home, "work")
    os.makedirs(os.path.join(project, ".git"))
    with open(os.path.join(project, "a.txt"), "w", encoding="utf-8") as file:
        file.write("before")
    call = {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "cwd": project,
        "tool_name": "Write",
        "tool_input": {"file_path": os.path.join(project, "a.txt"), "content": "after"},
    }
    for line in hooks:
        done = subprocess.run(
            shlex.split(line), input=json.dumps(call), text=True, capture_output=True, env=user.environment
        )
        assert done.returncode == 0, done.stderr
    with open(os.path.join(project, "a.txt"), "w", encoding="utf-8") as file:
        file.write("after")
    kept = json.loads(user.safekept("rollback", "--dir", project, "--json"))["checkpoints"]
    assert len(kept) == 1, "the agent's change was kept by the safekept of today"
    connected = {one["host"]: one for one in json.loads(user.safekept("connect", "--json"))["hosts"]}
    assert all(place["trouble"] is None for place in connected["hermes"]["places"])


def read_all(directory: str, name: str) -> dict[str, object]:
    (path,) = (
        os.path.join(place, name) for place, _, files in os.walk(directory) for file in files if file == name
    )
    with open(path, encoding="utf-8") as file:
        return json.load(file)
