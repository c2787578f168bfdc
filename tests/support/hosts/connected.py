"""Connecting in this process, for tests: a throwaway user, a host, and what its files say."""

from __future__ import annotations

import os
from collections.abc import Mapping

from safekept.actions.base.context import UserContext
from safekept.integrations.connecting.carrying_out import carry_out
from safekept.integrations.connecting.host import HostSettings
from safekept.integrations.connecting.plan import Plan, plan_connect, plan_disconnect
from safekept.integrations.connecting.program import Program

#: Hosts whose hooks are entries in a JSON file, with that file below the user's directory.
JSON_HOSTS = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/hooks.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/hooks/safekept.json",
}


def program_in(directory: object, name: str = "bin") -> Program:
    """A program called `safekept` that is there and does nothing."""
    place = os.path.join(str(directory), name)
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, "safekept")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o755)
    return Program((path,))


def connect(context: UserContext, host: HostSettings, program: Program, scope: str | None = None) -> Plan:
    plan = plan_connect(context, host, program, host.scope(context) if scope is None else scope)
    carry_out(context, plan)
    return plan


def disconnect(context: UserContext, host: HostSettings, scope: str | None = None) -> Plan:
    plan = plan_disconnect(context, host, host.scope(context) if scope is None else scope)
    carry_out(context, plan)
    return plan


def write(path: str, content: bytes, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def tree(directory: str) -> Mapping[str, bytes | str]:
    """Everything below a directory, by name: bytes of files, targets of links, directories."""
    found: dict[str, bytes | str] = {}
    for above, directories, files in os.walk(directory):
        for name in [*directories, *files]:
            path = os.path.join(above, name)
            short = os.path.relpath(path, directory)
            if os.path.islink(path):
                found[short] = os.readlink(path)
            else:
                found[short] = "directory" if name in directories else read(path) or b""
    return found
