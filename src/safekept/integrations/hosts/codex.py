"""Codex: hooks.json or `[hooks]` of config.toml, the events and shapes of Claude Code with a turn of its own.

Contract: https://developers.openai.com/codex/hooks and the schemas in codex-rs/hooks/schema/generated.
`Bash` stands for every shell-like tool; it and `apply_patch` carry their text in `tool_input.command`.
Answers deny unknown fields: `systemMessage` alone, or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from . import claude_code
from .answers import SILENT, Answer, as_json, with_context
from .event import Event
from .host import Host, Tools

#: Their output is context for the model, or (PermissionRequest) decides about a permission.
_UNANSWERED = frozenset({"SessionStart", "UserPromptSubmit", "SubagentStart", "PermissionRequest"})

KINDS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "UserPromptSubmit": "turn",
    "Stop": "end",
    "StopFailure": "end",
    "Interrupt": "end",
    "SubagentStop": "after",
    "SessionStart": "session-start",
    "SessionEnd": "session-end",
} | dict.fromkeys(
    (
        "SubagentStart PermissionRequest PreCompact PostCompact Notification PreModelRequest PostModelRequest"
    ).split(),
    "nothing",
)

_PATCH = ("command", "input", "patch")
TOOLS = Tools(
    reads=frozenset(
        (
            "update_plan view_image web_search read_file list_dir grep_files request_user_input "
            "list_mcp_resources list_mcp_resource_templates read_mcp_resource wait_agent close_agent"
        ).split()
    ),
    writes=frozenset({"Write", "Edit"}),
    patches={"apply_patch": _PATCH, "Write": _PATCH, "Edit": _PATCH},
)


def common(event: Event, cwd: str) -> Call:
    return replace(claude_code.common(event, cwd, "codex"), turn=event.word("turn_id"))


def refine(call: Call, event: Event) -> Call:
    # The text of a patch is no command: its first line would say nothing.
    return replace(call, reason=f"before {call.tool}") if call.tool == "apply_patch" and call.reason else call


def answer(event: str, words: str) -> Answer:
    if not words or event in _UNANSWERED:
        return SILENT
    return as_json(systemMessage=words)


HOST = Host("codex", KINDS, TOOLS, common, answer, _UNANSWERED, refine, with_context)
