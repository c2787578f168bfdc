"""Every host that can be connected, by name; one file for each says what goes into its settings."""

from __future__ import annotations

import importlib
import os

from safekept.actions.base.context import UserContext
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ...entry import HOSTS as NAMES
from ..host import HostSettings

HOSTS: dict[str, HostSettings] = {
    name: importlib.import_module(f".{name.replace('-', '_')}", __name__).HOST for name in NAMES
}
_SHORT = {
    "claude": "claude-code",
    "copilot-cli": "copilot",
    "gemini-cli": "gemini",
    "hermes-agent": "hermes",
    "qwen-code": "qwen",
}


class UnknownHost(SafekeptError):
    code, exit_code = "unknown-host", 2


class NotInProjects(SafekeptError):
    code, exit_code = "not-in-projects", 2


def host_named(name: str) -> HostSettings:
    """The host of that name, or of a name that people use for it."""
    host = HOSTS.get(_SHORT.get(name, name))
    if host is None:
        raise UnknownHost(
            f"safekept does not know how to connect `{name}`",
            kept="Nothing was changed",
            next_steps=(
                f"Name one of: {', '.join(HOSTS)}",
                NextStep("run", ("--", "AGENT"), "An agent without hooks can be watched instead:"),
            ),
        )
    return host


def scope_of(context: UserContext, host: HostSettings, project: str, home: str) -> str:
    """Where it is to be connected: in a project, in a home of Hermes, or "" for everywhere."""
    if project and not host.in_projects:
        raise NotInProjects(
            f"{host.title} is connected for all projects at once, not for one",
            kept="Nothing was changed",
            next_steps=(NextStep("connect", (host.name,), before="Connect it:"),),
        )
    if home and host.in_projects:
        raise NotInProjects(
            f"{host.title} has one home, which its own settings name; --home is for Hermes",
            kept="Nothing was changed",
            next_steps=(NextStep("connect", (host.name,), before="Connect it:"),),
        )
    named = project or home
    return os.path.realpath(os.path.expanduser(named)) if named else host.scope(context)
