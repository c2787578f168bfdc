"""More doors for the bad agent: the real Hermes with the plugin, MCP, `safekept run`, and the Python API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

from conftest import HERMES, missing_part, run_safekept
from safekept.actions.projects.project import checkpoint_directory
from support.bad_agent.deeds import Action
from support.bad_agent.doors import Door, Went, went
from support.bad_agent.hosts import hermes_tool
from support.bad_agent.project import hold, make_project
from support.hosts.real_hermes import HermesProcess, User
from support.places import TESTS


class InOnePlace(Door):
    """A door whose project is always at the same place, for hosts that are started in it."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        keep = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        self.environment = {**keep, "HOME": self.context.places.user_home, "LANG": "C.UTF-8"}
        self.ground = os.path.join(self.place, "ground")
        self.project = os.path.join(self.ground, "project")
        os.makedirs(self.ground)

    def fresh(self) -> str:
        self.release()
        shutil.rmtree(self.ground)
        os.makedirs(self.ground)
        make_project(self.ground)
        self.holder = hold(self.project)
        return self.project


class ThroughHermes(Door):
    """The plugin in the real Hermes, whose own tools do what the agent wants."""

    name = "hermes plugin"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        python = os.path.join(os.path.dirname(HERMES), "python")
        if not os.access(python, os.X_OK):
            missing_part("hermes-agent 0.19.0 is not installed; `workshop/prepare test` installs it")
        self.user = User(place)
        self.user.connect()
        self.hermes = HermesProcess(python, self.user)
        self.turn = 0

    def fresh(self) -> str:
        project = super().fresh()
        self.hermes("enter", os.path.dirname(project))
        return project

    def act(self, action: Action) -> None:
        self.turn += 1
        task = f"task-{self.turn}"  # with a shell of its own, which stands in the project
        self.hermes("workspace", task, self.project)
        words = {"session_id": "session", "turn_id": f"turn-{self.turn}", "task_id": task}
        self.hermes("hook", "pre_llm_call", **words, user_message="do it", platform="cli")
        tool, given = hermes_tool(action)
        said = self.hermes.tool(tool, given, task=task, turn=words["turn_id"])
        assert not said.get("error") and not said.get("exit_code"), said
        self.hermes("hook", "on_session_end", **words, completed=True, interrupted=False, platform="cli")

    def close(self) -> None:
        super().close()
        self.hermes.close()
        self.user.stop_helper()


class ThroughMcp(InOnePlace):
    """An agent that asks for a checkpoint itself, and goes back with plan and token: `safekept mcp`."""

    name = "mcp"
    named_only = True  # a point of named files does not know the times of the directories around them

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.server = subprocess.Popen(
            [sys.executable, "-I", "-m", "safekept", "mcp", "--root", self.ground],
            env=self.environment,
            cwd=self.place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.number = 0
        who = {"name": "bad agent", "version": "1"}
        self._send("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, object]) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(message).encode() + b"\n")
        self.server.stdin.flush()

    def _send(self, method: str, **parameters: object) -> dict[str, Any]:
        assert self.server.stdout is not None
        self.number += 1
        self._write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        while True:
            line = self.server.stdout.readline()
            assert line, "the server ended"
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return dict(answer["result"])

    def tool(self, tool: str, **arguments: object) -> dict[str, Any]:
        answer = self._send("tools/call", name=tool, arguments={"directory": self.project, **arguments})
        assert not answer.get("isError"), answer["content"]
        return dict(answer["structuredContent"])

    def act(self, action: Action) -> None:
        names = list(action.paths) if action.kind in ("edit", "patch") else []
        self.last = self.tool("checkpoint", reason=f"before {action.kind}", files=names)["checkpoint"]["id"]
        action.perform(self.project)

    def point(self) -> str:
        return str(self.last)

    def _confirmed(self, tool: str, **arguments: object) -> Went:
        plan = self.tool(tool, **arguments)
        done = self.tool(tool, **arguments, confirm=plan["confirm"])
        return went(done["rolled_back"])

    def back(self, target: str) -> Went:
        return self._confirmed("roll_back", checkpoint=target)

    def undo(self) -> Went:
        return self._confirmed("undo")

    def close(self) -> None:
        super().close()
        self.server.communicate(timeout=300)


_AGENT = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from support.bad_agent.deeds import ACTIONS
from safekept.checkpoints.store.store import Store
store, project = sys.argv[2:4]
known = {action.name: action for action in ACTIONS}

def points():
    with Store.open(store) as opened:
        return len(opened.checkpoints(project))

for number, name in enumerate(sys.argv[4:]):
    if number:
        ends = time.monotonic() + 300
        while points() <= seen and time.monotonic() < ends:
            time.sleep(0.1)
    seen = points()
    known[name].perform(project)
"""


class ThroughRun(InOnePlace):
    """An agent without hooks, under `safekept run`; the whole run is rolled back."""

    name = "run"
    full_only = True

    def act(self, *actions: Action) -> None:
        """One burst for each; between two of them the agent waits until the first one was kept."""
        report = os.path.join(self.place, "report.json")
        names = [action.name for action in actions]
        agent = [sys.executable, "-c", _AGENT, TESTS, checkpoint_directory(self.context), self.project]
        words = ("run", "--quiet", "0.3", "--report", report, "--", *agent, *names)
        done = run_safekept(*words, environment=self.environment, cwd=self.project)
        assert done.returncode == 0, (names, done.stderr)
        with open(report, encoding="utf-8") as file:
            self.first = json.load(file)["checkpoint"]

    def point(self) -> str:
        return str(self.first)


_PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import safekept
from support.bad_agent.deeds import ACTIONS
checkpoints = safekept.Checkpoints(sys.argv[2])
for line in sys.stdin:
    said = None
    exec(json.loads(line))
    print(json.dumps(said), flush=True)
"""


class ThroughPython(InOnePlace):
    """A program that keeps its own turns with `import safekept`, as this user."""

    name = "python"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, TESTS, self.project],
            env=self.environment,
            cwd=self.place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def act(self, action: Action) -> None:
        words = list(action.paths) if action.kind in ("edit", "patch") else None
        self._run(
            "with checkpoints.turn('session') as turn:\n"
            f"    words = {words!r}\n"
            "    kept = turn.before_shell() if words is None else turn.before(words)\n"
            "    assert kept.complete, kept\n"
            f"    next(one for one in ACTIONS if one.name == {action.name!r}).perform({self.project!r})\n"
        )

    def back(self, target: str) -> Went:
        return self._went(f"checkpoints.rollback({target!r})")

    def undo(self) -> Went:
        return self._went("checkpoints.undo()")

    def _went(self, words: str) -> Went:
        target, complete, names = self._run(
            f"done = {words}\n"
            "names = [one.path for part in (done.left, done.not_covered, done.gone) for one in part]\n"
            "said = [done.checkpoint, done.complete, names]\n"
        )
        return Went(target, complete, tuple(names))

    def _run(self, words: str) -> Any:
        assert self.program.stdin is not None and self.program.stdout is not None
        self.program.stdin.write(json.dumps(words) + "\n")
        self.program.stdin.flush()
        line = self.program.stdout.readline()
        assert line, "the program ended"
        return json.loads(line)

    def close(self) -> None:
        super().close()
        self.program.communicate(timeout=300)
