"""Qwen Code: hooks in settings.json, of the user or of one project, written as for Claude Code.

Its user's directory is `.qwen`, which QWEN_HOME moves. A project's file counts only in a trusted folder.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ...hosts.qwen import TOOLS
from ..hook_entries import Wanted
from ..host import SECONDS, SHARED, HostSettings, JsonHooks
from ..program import Program
from .claude_code import read_json

#: A subagent changes nothing by being started; each tool that it calls is told by itself.
_CHANGING = f"^(?!(?:{'|'.join(sorted(TOOLS.reads | {'agent'}))})$).*$"


def _wanted(program: Program) -> list[Wanted]:
    handler = {
        "type": "command",
        "name": "safekept",
        "command": program.line("qwen"),
        "timeout": SECONDS,
    }

    def entry(event: str, matcher: str = "") -> Wanted:
        return Wanted(event, {**({"matcher": matcher} if matcher else {}), "hooks": [handler]})

    return [
        entry("SessionStart"),
        entry("UserPromptSubmit"),
        entry("PreToolUse", _CHANGING),
        entry("PostToolUse", _CHANGING),
        entry("PostToolUseFailure", _CHANGING),
        entry("Stop"),
        entry("StopFailure"),
        entry("SessionEnd"),
    ]


def directory(context: UserContext) -> str:
    own = context.caller.environment.get("QWEN_HOME", "")
    return own or os.path.join(context.places.user_home, ".qwen")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    above = os.path.join(project, ".qwen") if project else directory(context)
    path = os.path.join(above, "settings.json")
    return [JsonHooks(path, "qwen", _wanted, new_mode=0o644 if project else 0o600)]


def switched_off(context: UserContext, project: str) -> str:
    above = [directory(context), *([os.path.join(project, ".qwen")] if project else [])]
    for path in (os.path.join(one, "settings.json") for one in above):
        if read_json(path).get("disableAllHooks") is True:
            return f"`disableAllHooks` in {path}"
    return ""


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    return (
        "Sessions that run now take it up with their next start, or when you open `/hooks` in Qwen Code",
        *(
            ("Qwen Code runs the hooks of a project only in a folder that you trust", SHARED)
            if project
            else ()
        ),
    )


HOST = HostSettings("qwen", "Qwen Code", ("qwen",), directory, files, notes, switched_off)
