"""Copilot CLI: the events of Claude Code and the names of its tools, with arguments and answers of its own.

Contract: https://docs.github.com/en/copilot/reference/hooks-reference and what 1.0.102 does. Before a tool
any exit code but 0 is a no, and nothing that a hook says is shown to the person; `additionalContext` of a
prompt reaches the model. A subagent has a session of its own, and names the one that it works for.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from .answers import Answer, as_json, to_stderr
from .event import Event, fit_path
from .host import Host, Tools, agent_of, arguments

KINDS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "SubagentStop": "after",
    "UserPromptSubmit": "turn",
    "Stop": "end",
    "ErrorOccurred": "end",
    "SessionStart": "session-start",
    "SessionEnd": "session-end",
} | dict.fromkeys("SubagentStart PreCompact PermissionRequest Notification".split(), "nothing")

#: By the names that it has for them itself, too: which of the two it says has changed before.
TOOLS = Tools(
    reads=frozenset(
        (
            "Read view Glob glob Grep grep rg AskUserQuestion ask_user WebFetch web_fetch WebSearch "
            "web_search TodoWrite update_todo report_intent ExitPlanMode exit_plan_mode task_complete "
            "read_bash list_bash read_agent list_agents sql session_store_sql "
            "fetch_copilot_cli_documentation"
        ).split()
    ),
    writes=frozenset({"Edit", "edit", "Write", "create"}),
    patches=dict.fromkeys(("apply_patch", "ApplyPatch"), ("input", "patch", "command")),
)


def common(event: Event, cwd: str) -> Call:
    return Call(
        "nothing",
        "copilot",
        directory=fit_path(event.text("cwd")) or cwd,
        session=event.word("parent_agent_id") or event.word("session_id"),
        agent=agent_of(event),
    )


def refine(call: Call, event: Event) -> Call:
    if call.kind == "end" and event.fields.get("recoverable") is True:
        return replace(call, kind="nothing")  # it tries again
    if call.kind == "after" and arguments(event).text("mode") == "async":
        return replace(call, kind="nothing")  # the command goes on
    if call.agent and call.kind in ("turn", "end", "session-start", "session-end"):
        # A subagent's run is a part of its caller's turn; its end is told by `SubagentStop`, too.
        return replace(call, kind="nothing")
    return call


def answer(event: str, words: str) -> Answer:
    return to_stderr(words)


def add_context(answer: Answer, event: str, text: str) -> Answer:
    return replace(answer, stdout=as_json(additionalContext=text).stdout)


HOST = Host("copilot", KINDS, TOOLS, common, answer, refine=refine, add_context=add_context)
