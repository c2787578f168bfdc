"""opencode: its plugins are JavaScript, so a shim of ours pipes JSON of our own making.

Contract (ours, both ways; `docs/reference/hooks.md`): `hook` is opencode's name of what happened, with
`tool`, `sessionID`, `callID`, `args`, `directory`, `worktree`, and for `chat.message` a `messageID` and the
`prompt`, as far as its first line may reach.
The answer is nothing, or an object: `message` for the shim to show, `context` of `chat.message` for the
model. The shim never throws, so nothing blocks.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

from ..calls import Call
from .answers import SILENT, Answer, as_json
from .event import Event, fit_path
from .host import Host, Tools

KINDS = {
    "tool.execute.before": "before",
    "tool.execute.after": "after",
    "chat.message": "turn",
    "session.idle": "end",
    "session.error": "end",
    "session.created": "session-start",
    "session.deleted": "session-end",
} | dict.fromkeys("file.edited session.updated session.compacted permission.ask".split(), "nothing")

TOOLS = Tools(
    reads=frozenset(
        (
            "read grep glob list ls webfetch websearch codesearch todowrite todoread question lsp "
            "plan_enter plan_exit invalid"
        ).split()
    ),
    writes=frozenset({"write", "edit", "multiedit"}),
    patches={"patch": ("patchText",), "apply_patch": ("patchText",)},
    path_keys=("filePath", "file_path", "path"),
)


def common(event: Event, cwd: str) -> Call:
    return Call(
        "nothing",
        "opencode",
        directory=fit_path(event.text("directory") or event.text("worktree")) or cwd,
        session=event.word("sessionID"),
        agent=event.word("agent"),
    )


def refine(call: Call, event: Event) -> Call:
    if call.kind == "turn":
        return replace(call, turn=event.word("messageID"))  # the tools that follow share it
    elsewhere = event.part("args").path("workdir") if call.shell else ""
    if not elsewhere or "\0" in elsewhere:
        return call
    return replace(call, directory=os.path.normpath(os.path.join(call.directory, elsewhere)))


def answer(event: str, words: str) -> Answer:
    return as_json(message=words) if words else SILENT


def add_context(answer: Answer, event: str, text: str) -> Answer:
    return as_json(**json.loads(answer.stdout or b"{}"), context=text)


HOST = Host("opencode", KINDS, TOOLS, common, answer, refine=refine, add_context=add_context)
