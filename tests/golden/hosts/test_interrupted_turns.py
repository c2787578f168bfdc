"""A turn that a person interrupts, in the words of each host: what he edits afterwards is his own.

Only those events are told that `safekept connect` registers, as it does: an adapter that understands an
event which nobody sends protects nothing.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.store import Store
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.program import Program
from safekept.integrations.hosts import handle
from support.hosts.recorded_hosts import filled_in, new_user, recorded

#: A host, its tool that writes `a.txt`, and what a prompt is called.
WRITERS = {
    "claude-code": "Write",
    "codex": "apply_patch",
    "gemini": "write_file",
    "cursor": "Write",
    "opencode": "write",
    "qwen": "write_file",
    "copilot": "Write",
}


def is_registered(user, host: str, event: dict) -> bool:
    """Whether the host would call us with this event."""
    (file,) = HOSTS[host].files(user.place().context, "")
    program = Program(("/opt/safekept",))
    if host == "opencode":
        return f'"{event["hook"]}"'.encode() in file.put(None, program)
    tool = event.get("tool_name", "")
    entries = [one.entry for one in file.wanted(program) if one.event == event["hook_event_name"]]
    return any(re.search(str(one.get("matcher", "")), tool) for one in entries)


class Host:
    """One that runs a recorded conversation, or parts of it."""

    def __init__(self, name: str, tmp_path) -> None:
        self.name, self.steps = name, recorded(f"{name}/turn")["steps"]
        self.user = new_user(str(tmp_path), recorded(f"{name}/turn")["project"])

    def event(self, kind: str, tool: str = "") -> dict:
        """The first recorded event of that meaning."""
        return next(
            filled_in(step["event"], self.user.project)
            for step in self.steps
            if step["call"]["kind"] == kind and step["call"].get("tool", "") == tool
        )

    def after(self, before: dict) -> dict:
        """The event with which this host tells that the tool of another event has ended."""
        names = {
            "PreToolUse": "PostToolUse",
            "BeforeTool": "AfterTool",
            "preToolUse": "postToolUse",
            "tool.execute.before": "tool.execute.after",
        }
        key = "hook" if self.name == "opencode" else "hook_event_name"
        return {**before, key: names[before[key]]}

    def tells(self, event: dict) -> None:
        if is_registered(self.user, self.name, event):
            handle(self.name, json.dumps(event).encode(), self.user.place(), self.user.project)

    def prompts(self, **other: str) -> None:
        kind = "before" if self.name == "cursor" else "turn"
        self.tells({**self.event(kind), **other})

    def writes(self) -> None:
        """The agent writes `a.txt`, which nobody stops; then the person presses Escape."""
        before = self.event("before", WRITERS[self.name])
        self.tells(before)
        self.user.change({"a.txt": "new a\n"})
        self.tells(self.after(before))

    def holds(self) -> dict[str, str]:
        found = {}
        for name in ("a.txt", "src/main.py", "mine.txt"):
            path = os.path.join(self.user.project, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found[name] = file.read()
        return found

    def rolls_back(self) -> dict[str, str]:
        with Store.open(os.path.join(self.user.data, "checkpoints")) as store:
            roll_back(store, plan_rollback(store, self.user.project, "1"))
        return self.holds()


MINE = {"src/main.py": "what I wrote\n", "mine.txt": "mine\n"}


@pytest.mark.parametrize("name", WRITERS)
def test_what_a_person_edits_after_an_interrupted_turn_is_not_rolled_back(name, tmp_path):
    """Escape between two tools: no host tells of it, or (Claude Code) only with the next prompt."""
    host = Host(name, tmp_path)
    host.prompts()
    host.writes()
    host.user.change(MINE)
    assert host.rolls_back() == {"a.txt": "old a\n", **MINE}


@pytest.mark.parametrize("name", ["claude-code", "gemini", "cursor", "qwen", "copilot"])
def test_nor_when_the_session_ends_after_those_edits(name, tmp_path):
    host = Host(name, tmp_path)
    host.prompts()
    host.writes()
    host.user.change(MINE)
    host.tells(host.event("session-end"))
    assert host.rolls_back() == {"a.txt": "old a\n", **MINE}


@pytest.mark.parametrize("name", ["codex", "opencode"])
def test_a_host_that_tells_of_an_interrupted_command_is_heard(name, tmp_path):
    """As Codex 0.166.0 and opencode 1.18 tell it: the command itself never ends."""
    host = Host(name, tmp_path)
    host.prompts()
    host.tells(host.event("before", {"codex": "Bash", "opencode": "bash"}[name]))
    host.user.change({"a.txt": "by the command\n"})
    end = host.event("end")
    host.tells(
        {**end, **({"hook_event_name": "Interrupt"} if name == "codex" else {"hook": "session.error"})}
    )
    host.user.change(MINE)
    assert host.rolls_back() == {"a.txt": "old a\n", **MINE}


@pytest.mark.parametrize(
    ("name", "turn"),
    [("claude-code", "prompt_id"), ("codex", "turn_id"), ("gemini", "prompt"), ("opencode", "messageID")],
)
def test_the_next_prompt_ends_a_turn_of_which_nobody_told_the_end(name, turn, tmp_path):
    host = Host(name, tmp_path)
    host.prompts()
    shell = {"claude-code": "Bash", "gemini": "run_shell_command", "codex": "Bash", "opencode": "bash"}
    host.tells(host.event("before", shell[name]))
    host.user.change({"a.txt": "by the command\n"})
    host.prompts(**{turn: "another"})
    host.user.change(MINE)
    assert host.rolls_back() == {"a.txt": "old a\n", **MINE}


@pytest.mark.parametrize("name", WRITERS)
def test_a_whole_turn_of_tools_that_ended_is_the_agents(name, tmp_path):
    """Marks between its tools make nothing of it a person's."""
    host = Host(name, tmp_path)
    host.prompts()
    host.writes()
    host.user.change({"src/main.py": "by a process that the agent left\n"})
    host.tells(host.event("end"))
    assert host.rolls_back() == {"a.txt": "old a\n", "src/main.py": "old main\n"}
