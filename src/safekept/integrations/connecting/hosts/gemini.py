"""Gemini CLI: hooks in settings.json, of the user or of one project. Its timeouts are milliseconds.

It takes any exit code but 0 and 1 for a no as soon as something was written, a shell's 127 for a program
that is gone among them: every tool would be denied. So the line ends in `|| exit 1`, which is a warning.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ...hosts.gemini import TOOLS
from ..hook_entries import Wanted
from ..host import SECONDS, SHARED, HostSettings, JsonHooks
from ..program import Program
from .claude_code import read_json

_NAME = "safekept"
_CHANGING = f"^(?!(?:{'|'.join(sorted(TOOLS.reads))})$).*$"


def _wanted(program: Program) -> list[Wanted]:
    handler = {
        "type": "command",
        "name": _NAME,
        "command": program.line_that_stops_nothing("gemini"),
        "timeout": SECONDS * 1000,
    }
    return [
        Wanted("SessionStart", {"hooks": [handler]}),
        Wanted("BeforeAgent", {"hooks": [handler]}),
        Wanted("BeforeTool", {"matcher": _CHANGING, "hooks": [handler]}),
        Wanted("AfterTool", {"matcher": _CHANGING, "hooks": [handler]}),
        Wanted("AfterAgent", {"hooks": [handler]}),
        Wanted("SessionEnd", {"hooks": [handler]}),
    ]


def directory(context: UserContext) -> str:
    above = context.caller.environment.get("GEMINI_CLI_HOME", "") or context.places.user_home
    return os.path.join(above, ".gemini")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    above = os.path.join(project, ".gemini") if project else directory(context)
    path = os.path.join(above, "settings.json")
    return [JsonHooks(path, "gemini", _wanted, new_mode=0o644 if project else 0o600)]


def switched_off(context: UserContext, project: str) -> str:
    """The flag has had three names; each of them, where it says no, is believed."""
    above = [directory(context), *([os.path.join(project, ".gemini")] if project else [])]
    for path in (os.path.join(one, "settings.json") for one in above):
        settings = read_json(path)
        for section, flag in (("hooksConfig", "enabled"), ("hooks", "enabled"), ("tools", "enableHooks")):
            found = settings.get(section)
            if isinstance(found, dict) and found.get(flag) is False:
                return f"`{section}.{flag}` in {path}"
            disabled = found.get("disabled") if isinstance(found, dict) else None
            if isinstance(disabled, list) and _NAME in disabled:
                return f"`{section}.disabled` in {path}"
    return ""


def _trust(context: UserContext, project: str) -> str:
    """Whether Gemini reads what stands in a project: only in a folder that its user trusted."""
    trusted = read_json(os.path.join(directory(context), "trustedFolders.json"))
    above, places = project, [project]
    while (above := os.path.dirname(above)) != places[-1]:
        places.append(above)
    said = [(place, trusted[place]) for place in places if isinstance(trusted.get(place), str)]
    own = ("TRUST_FOLDER", "TRUST_PARENT")
    if said and said[0][1] in own:
        return ""
    return (
        "Gemini CLI runs the hooks of a project only in a folder that you trust, and this one is not "
        "trusted yet: start it there and agree, or say `/permissions`; until then nothing is protected"
    )


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    untrusted = _trust(context, project) if project else ""
    return (
        *((untrusted,) if untrusted else ()),
        "Sessions that run now take it up with their next start; `/hooks panel` in Gemini CLI lists them",
        "Early versions run hooks only with `tools.enableHooks` and `hooks.enabled` set to true",
        *((SHARED,) if project else ()),
    )


HOST = HostSettings("gemini", "Gemini CLI", ("gemini",), directory, files, notes, switched_off)
