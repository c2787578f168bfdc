"""Codex: hooks.json beside its config.toml, of the user or of one project.

The command goes through a shell, so it is quoted. Its matchers know no lookahead; without one every tool
that fires is told, and Codex fires for shell, patches and MCP only. Versions that do not know an event yet
(`Interrupt`, `SessionEnd`) pass over it; those that do give a hook three seconds for it, and say so at every
start to hooks that ask for more. A new or changed hook runs only after
the user has trusted it, which safekept cannot do in their place.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ..hook_entries import Wanted
from ..host import SECONDS, SHARED, HostSettings, JsonHooks
from ..program import Program
from ..settings_file import Unfit, read_settings

#: The most that Codex gives an event that its user is waiting behind.
_AT_THE_END = 3


def _wanted(program: Program) -> list[Wanted]:
    handler = {"type": "command", "command": program.line("codex"), "timeout": SECONDS}
    at_the_end = {**handler, "timeout": _AT_THE_END}
    return [
        Wanted("SessionStart", {"hooks": [handler]}),
        Wanted("UserPromptSubmit", {"hooks": [handler]}),
        Wanted("PreToolUse", {"hooks": [handler]}),
        Wanted("PostToolUse", {"hooks": [handler]}),
        Wanted("Stop", {"hooks": [handler]}),
        Wanted("Interrupt", {"hooks": [at_the_end]}),
        Wanted("SessionEnd", {"hooks": [at_the_end]}),
    ]


def directory(context: UserContext) -> str:
    own = context.caller.environment.get("CODEX_HOME", "")
    return own or os.path.join(context.places.user_home, ".codex")


def files(context: UserContext, project: str) -> list[JsonHooks]:
    above = os.path.join(project, ".codex") if project else directory(context)
    return [
        JsonHooks(os.path.join(above, "hooks.json"), "codex", _wanted, new_mode=0o644 if project else 0o600)
    ]


def switched_off(context: UserContext, project: str) -> str:
    above = [directory(context), *([os.path.join(project, ".codex")] if project else [])]
    for path in (os.path.join(one, "config.toml") for one in above):
        features = _read_toml(path).get("features")
        if isinstance(features, dict):
            for name in ("hooks", "codex_hooks"):
                if features.get(name) is False:
                    return f"`[features] {name} = false` in {path}"
    return ""


def _read_toml(path: str) -> dict[str, object]:
    """A look at the user's settings; empty where they cannot be read."""
    import tomllib

    try:
        return tomllib.loads((read_settings(path).content or b"").decode())
    except (Unfit, ValueError, RecursionError):
        return {}


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    trusted = (
        ("Codex reads the hooks of a project only where you trust the project", SHARED) if project else ()
    )
    above = os.path.join(project, ".codex") if project else directory(context)
    inline = _read_toml(os.path.join(above, "config.toml")).get("hooks")
    both = isinstance(inline, dict) and bool(inline.keys() - {"state"})
    return (
        "Codex runs a hook only after you trusted it: type `/hooks` in Codex, look at the entries of "
        "safekept, and trust them; until then nothing is protected",
        *trusted,
        *(
            ("Its config.toml has hooks, too; Codex runs both and mentions it when it starts",)
            if both
            else ()
        ),
    )


HOST = HostSettings(
    "codex", "Codex", ("codex",), directory, files, notes, switched_off, waiting="trust it: `/hooks` in Codex"
)
