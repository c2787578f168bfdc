"""Cursor: hooks.json of the user or of one project, a flat list of commands for each event.

Before 2.x there is no `preToolUse`: the prompt takes a point of its own there. The tools are named, for
what a matcher may be beyond names is not documented.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ...hosts.cursor import TOOLS
from ..hook_entries import Wanted
from ..host import SECONDS, SHARED, HostSettings, JsonHooks
from ..program import Program
from .claude_code import directory as claude_directory
from .claude_code import read_json

_SHELL = "Shell|MCP:.*"
_CHANGING = "|".join([*sorted({*TOOLS.writes, *TOOLS.patches}), _SHELL])


def _wanted(program: Program) -> list[Wanted]:
    handler = {"command": program.line("cursor"), "timeout": SECONDS}
    return [
        Wanted("sessionStart", handler),
        Wanted("beforeSubmitPrompt", handler),
        Wanted("preToolUse", {**handler, "matcher": _CHANGING}),
        Wanted("postToolUse", {**handler, "matcher": _CHANGING}),
        Wanted("postToolUseFailure", {**handler, "matcher": _CHANGING}),
        Wanted("stop", handler),
        Wanted("sessionEnd", handler),
    ]


def directory(context: UserContext) -> str:
    return os.path.join(context.places.user_home, ".cursor")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    above = os.path.join(project, ".cursor") if project else directory(context)
    path = os.path.join(above, "hooks.json")
    return [JsonHooks(path, "cursor", _wanted, {"version": 1}, 0o644 if project else 0o600)]


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    found = ["Restart Cursor; its settings have a Hooks panel that lists what is set and what it said"]
    hooks = read_json(os.path.join(claude_directory(context), "settings.json")).get("hooks")
    if isinstance(hooks, dict) and "claude-code" in str(hooks):
        found.append(
            "Cursor can also run the hooks of Claude Code; where you switched that on, each change is kept "
            "twice, which costs time and nothing else"
        )
    return (*found, *((SHARED,) if project else ()))


HOST = HostSettings(
    "cursor", "Cursor", ("cursor", "cursor-agent"), directory, files, notes, waiting="restart Cursor"
)
