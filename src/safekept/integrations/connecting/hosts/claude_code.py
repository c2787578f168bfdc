"""Claude Code: hooks in settings.json. In a project the file that is not shared, since the command is of
this machine.

The command is one quoted line for a shell. The form with `args` came in 2.1.139; versions before it, and
other programs that run the hooks of Claude Code (Cursor, among others), know only `command` and would call
safekept without a word (anthropics/claude-code#77160). A matcher with more than names in it is a JavaScript
expression; ours names the tools that only read, so that one which is not known yet is covered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from safekept.actions.base.context import UserContext

from ...hosts.claude_code import TOOLS
from ..hook_entries import Wanted
from ..host import SECONDS, HostSettings, JsonHooks
from ..program import Program
from ..settings_file import Unfit, read_settings

#: A subagent changes nothing by being started; each tool that it calls is told by itself.
_CHANGING = f"^(?!(?:{'|'.join(sorted(TOOLS.reads | {'Agent', 'Task'}))})$).*$"


def _wanted(program: Program) -> list[Wanted]:
    handler = {"type": "command", "command": program.line("claude-code"), "timeout": SECONDS}

    def entry(event: str, matcher: str = "") -> Wanted:
        return Wanted(event, {**({"matcher": matcher} if matcher else {}), "hooks": [handler]})

    return [
        entry("SessionStart"),
        entry("UserPromptSubmit"),
        entry("PreToolUse", _CHANGING),
        entry("PostToolUse", _CHANGING),
        entry("PostToolUseFailure", _CHANGING),
        entry("Stop"),
        entry("SessionEnd"),
    ]


def directory(context: UserContext) -> str:
    own = context.caller.environment.get("CLAUDE_CONFIG_DIR", "")
    return own or os.path.join(context.places.user_home, ".claude")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    if project:
        path = os.path.join(project, ".claude", "settings.local.json")
        return [JsonHooks(path, "claude-code", _wanted, new_mode=0o644)]
    return [JsonHooks(os.path.join(directory(context), "settings.json"), "claude-code", _wanted)]


def switched_off(context: UserContext, project: str) -> str:
    paths = [os.path.join(directory(context), "settings.json")]
    if project:
        above = os.path.join(project, ".claude")
        paths += [os.path.join(above, name) for name in ("settings.json", "settings.local.json")]
    for path in paths:
        if read_json(path).get("disableAllHooks") is True:
            return f"`disableAllHooks` in {path}"
    return ""


def read_json(path: str) -> Mapping[str, object]:
    """A look at the user's settings; empty where they cannot be read."""
    try:
        found = json.loads((read_settings(path).content or b"{}").decode("utf-8-sig"))
    except (Unfit, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    return (
        "Sessions that run now take it up with their next start; `/hooks` in Claude Code lists what is set",
        "In a folder that you have not trusted yet, Claude Code runs no hooks",
    )


HOST = HostSettings("claude-code", "Claude Code", ("claude",), directory, files, notes, switched_off)
