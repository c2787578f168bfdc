"""Copilot CLI: a file of ours among its hook files, of the user or of one project.

Its user's directory is `.copilot`, which COPILOT_HOME moves. The names of the events are those of Claude Code
(PascalCase): only then does what it sends say which event it is. Before a tool every exit code but 0 is a no,
so the command ends with 0 whatever became of us.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ...hosts.copilot import TOOLS
from ..hook_entries import Wanted
from ..host import SECONDS, SHARED, HostSettings, JsonHooks
from ..program import Program
from .claude_code import read_json

#: A subagent changes nothing by being started; each tool that it calls is told by itself.
_CHANGING = f"^(?!(?:{'|'.join(sorted(TOOLS.reads | {'Agent', 'Task', 'task'}))})$).*$"


def _wanted(program: Program) -> list[Wanted]:
    handler = {
        "type": "command",
        "bash": program.line_that_stops_nothing("copilot", 0),
        "timeoutSec": SECONDS,
    }

    def entry(event: str, matcher: str = "") -> Wanted:
        return Wanted(event, {**handler, **({"matcher": matcher} if matcher else {})})

    return [
        entry("SessionStart"),
        entry("UserPromptSubmit"),
        entry("PreToolUse", _CHANGING),
        entry("PostToolUse", _CHANGING),
        entry("PostToolUseFailure", _CHANGING),
        entry("Stop"),
        entry("ErrorOccurred"),
        entry("SessionEnd"),
    ]


def directory(context: UserContext) -> str:
    own = context.caller.environment.get("COPILOT_HOME", "")
    return own or os.path.join(context.places.user_home, ".copilot")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    above = os.path.join(project, ".github") if project else directory(context)
    path = os.path.join(above, "hooks", "safekept.json")
    return [JsonHooks(path, "copilot", _wanted, {"version": 1}, 0o644 if project else 0o600)]


def switched_off(context: UserContext, project: str) -> str:
    path = os.path.join(directory(context), "settings.json")
    return f"`disableAllHooks` in {path}" if read_json(path).get("disableAllHooks") is True else ""


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    return (
        "Sessions that run now take it up with their next start",
        *(
            ("Copilot CLI runs the hooks of a project only in a folder that you trust", SHARED)
            if project
            else ()
        ),
    )


HOST = HostSettings("copilot", "Copilot CLI", ("copilot",), directory, files, notes, switched_off)
