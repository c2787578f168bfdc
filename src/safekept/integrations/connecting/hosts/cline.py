"""Cline: scripts of ours in its hooks directory, of the user or of one project, each named for what happens.

Its user's directory is `.cline`, which CLINE_DIR moves. Scripts of others for the same event, with another
ending or none, run beside ours.
"""

from __future__ import annotations

import os

from safekept.actions.base.context import UserContext

from ..host import SHARED, HostSettings, OwnFile
from ..program import Program, calls_us, split_line

_MARK = b"# Written by `safekept connect cline`"
_SCRIPT = """\
#!/bin/sh
# Written by `safekept connect cline`; `safekept connect cline --remove` takes it away.
exec COMMAND
"""
#: The last one stands for all: without it nothing is kept.
_EVENTS = (
    "TaskStart",
    "TaskResume",
    "TaskComplete",
    "TaskError",
    "TaskCancel",
    "SessionShutdown",
    "PostToolUse",
    "PreToolUse",
)


def script(program: Program) -> bytes:
    return _SCRIPT.replace("COMMAND", program.line("cline")).encode()


def _read(content: bytes) -> tuple[str, ...]:
    lines = content.decode(errors="replace").splitlines()
    words = split_line(lines[-1])[1:] if lines else ()
    return words if calls_us(words, "cline") else ()


def directory(context: UserContext) -> str:
    own = context.caller.environment.get("CLINE_DIR", "")
    return own or os.path.join(context.places.user_home, ".cline")


def files(context: UserContext, project: str) -> list[OwnFile]:
    above = os.path.join(project, ".cline") if project else directory(context)
    paths = [os.path.join(above, "hooks", f"{event}.sh") for event in _EVENTS]
    return [OwnFile(path, script, _MARK, _read, 0o755 if project else 0o700) for path in paths]


def notes(context: UserContext, project: str) -> tuple[str, ...]:
    return (
        "Sessions that run now take it up with their next start",
        *((SHARED,) if project else ()),
    )


HOST = HostSettings("cline", "Cline", ("cline",), directory, files, notes)
