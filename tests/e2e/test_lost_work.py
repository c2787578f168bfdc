"""Forty ways to lose work, each run by a shell behind an agent's connection, and undone by one command.

Through the hook of Claude Code it is the command that `connect` writes, with a helper as users have one;
through the plugin it is the real Hermes, whose own terminal runs the command. After the first pass in the
background every way is the same: the agent's turn, then one `safekept rollback 1` (`--git` where it is the
repository); then everything is compared. Hermes gets a sample of them; `--soak lost` gives it all.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator

import pytest

from conftest import HERMES, missing_part, run_safekept
from support.commands.waiting import wait_until
from support.hosts.real_hermes import HermesProcess, User
from support.projects.lost_work import REPOSITORY_WAYS, WAYS, make_victim, state

EVERY = {**WAYS, **REPOSITORY_WAYS}
SAMPLE = random.Random(17).sample(sorted(WAYS), 5) + random.Random(17).sample(sorted(REPOSITORY_WAYS), 2)


class Agent:
    """One user, one project, and an agent that runs commands in it."""

    def __init__(self, directory: str) -> None:
        self.project, self.aside = os.path.join(directory, "project"), os.path.join(directory, "aside")
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.environment = {
            **keep,
            "HOME": os.path.join(directory, "user"),
            "PYTHONUTF8": "1",
            "NO_COLOR": "1",
        }
        for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
            self.environment |= {f"{name}_NAME": "a", f"{name}_EMAIL": "a@b.c"}
        make_victim(self.project, self.aside)
        self.calls = 0
        self.connect(directory)
        place = os.path.join(self.environment["HOME"], ".local/share/safekept/checkpoints/projects")
        wait_until(lambda: os.path.isdir(place) and self._kept(place), "the first pass")

    def _kept(self, place: str) -> bool:
        return any(os.path.exists(os.path.join(place, name, "hidden.jsonl")) for name in os.listdir(place))

    def connect(self, directory: str) -> None:
        raise NotImplementedError

    def run(self, command: str) -> None:
        """A turn of the agent in which it runs this."""
        raise NotImplementedError

    def safekept(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_safekept(*words, environment=self.environment, cwd=self.project, timeout=300)

    def close(self) -> None:
        self.safekept("helper", "stop")

    def lose(self, way: str) -> None:
        repository = way in REPOSITORY_WAYS
        before = state(self.project, self.aside, repository)
        self.run(EVERY[way])
        assert state(self.project, self.aside, repository) != before, "the command destroyed nothing"
        done = self.safekept("rollback", "1", *(["--git"] if repository else []))
        assert done.returncode == 0, done.stdout + done.stderr
        assert state(self.project, self.aside, repository) == before


class Claude(Agent):
    """Behind the hooks that `connect` writes into Claude Code's settings."""

    def connect(self, directory: str) -> None:
        os.makedirs(self.environment["HOME"])
        assert self.safekept("connect", "claude-code", "--yes").returncode == 0
        with open(os.path.join(self.environment["HOME"], ".claude", "settings.json")) as file:
            self.hooks = json.load(file)["hooks"]
        self.tell("SessionStart", source="startup")
        self.tell("UserPromptSubmit", prompt="work")

    def tell(self, event: str, **more: object) -> None:
        message = {"hook_event_name": event, "session_id": "s", "cwd": self.project, **more}
        for entry in self.hooks.get(event, ()):
            for hook in entry["hooks"]:
                done = subprocess.run(
                    ["sh", "-c", hook["command"]],
                    input=json.dumps(message).encode(),
                    env=self.environment,
                    cwd=self.project,
                    capture_output=True,
                    timeout=300,
                )
                assert done.returncode == 0, done.stderr

    def run(self, command: str) -> None:
        self.calls += 1
        told = {"tool_name": "Bash", "tool_use_id": str(self.calls), "tool_input": {"command": command}}
        self.tell("PreToolUse", **told)
        subprocess.run(["bash", "-c", command], env=self.environment, cwd=self.project, check=True)
        self.tell("PostToolUse", **told, tool_response={})


class Hermes(Agent):
    """Behind the plugin, in the real Hermes."""

    def connect(self, directory: str) -> None:
        python = os.path.join(os.path.dirname(HERMES), "python")
        if not os.access(python, os.X_OK):
            missing_part("hermes-agent 0.19.0 is not installed; `workshop/prepare test` installs it")
        self.user = User(directory)
        self.user.environment |= self.environment
        self.environment = self.user.environment
        self.user.connect()
        self.hermes = HermesProcess(python, self.user)
        self.hermes("enter", self.project)
        self._turn()

    def _turn(self) -> dict[str, str]:
        self.calls += 1
        task = f"task-{self.calls}"
        self.hermes("workspace", task, self.project)
        words = {"session_id": "session", "turn_id": f"turn-{self.calls}", "task_id": task}
        self.hermes("hook", "pre_llm_call", **words, user_message="do it", platform="cli")
        return words

    def run(self, command: str) -> None:
        words = self._turn()
        said = self.hermes.tool(
            "terminal", {"command": command}, task=words["task_id"], turn=words["turn_id"]
        )
        assert not said.get("error") and not said.get("exit_code"), said
        self.hermes("hook", "on_session_end", **words, completed=True, interrupted=False, platform="cli")

    def close(self) -> None:
        self.hermes.close()
        self.user.stop_helper()


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Claude]:
    found = Claude(str(tmp_path_factory.mktemp("claude")))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    found = Hermes(str(tmp_path_factory.mktemp("hermes")))
    try:
        yield found
    finally:
        found.close()


def test_there_are_forty_of_them() -> None:
    assert len(EVERY) == len(WAYS) + len(REPOSITORY_WAYS) == 40


@pytest.mark.parametrize("way", EVERY)
def test_what_a_command_destroyed_comes_back_whole(claude: Claude, way: str) -> None:
    claude.lose(way)


@pytest.mark.real
@pytest.mark.parametrize("way", SAMPLE)
def test_and_through_the_plugin_of_hermes(hermes: Hermes, way: str) -> None:
    hermes.lose(way)


@pytest.mark.real
@pytest.mark.soak("lost")
@pytest.mark.parametrize("way", [way for way in EVERY if way not in SAMPLE])
def test_and_every_other_one_through_the_plugin_of_hermes(hermes: Hermes, way: str) -> None:
    hermes.lose(way)
