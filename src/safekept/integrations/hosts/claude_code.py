"""Claude Code: hooks in settings.json, one process per event, JSON in and (only when needed) out.

Contract: https://code.claude.com/docs/en/hooks (as of 2.1.240). Exit 0 with nothing on standard output
lets the call go its usual way, permission prompt included; `systemMessage` is shown to the person and not
to the model. Plain text of SessionStart and UserPromptSubmit reaches the model, so those two are never
answered with words for the person; what the agent itself has to know goes into `additionalContext`.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from .answers import SILENT, Answer, as_json, with_context
from .event import Event, fit_path
from .host import Host, Tools, agent_of

#: Whatever these print may be read by the model.
_INTO_CONTEXT = frozenset(
    {"SessionStart", "UserPromptSubmit", "UserPromptExpansion", "SubagentStart", "Setup"}
)

KINDS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "after",
    "PostToolBatch": "after",
    "UserPromptSubmit": "turn",
    "Stop": "end",
    "StopFailure": "end",
    "SubagentStop": "after",
    "SessionStart": "session-start",
    "SessionEnd": "session-end",
} | dict.fromkeys(
    (
        "SubagentStart Notification PermissionRequest PermissionDenied PreCompact PostCompact FileChanged "
        "CwdChanged ConfigChange InstructionsLoaded TaskCreated TaskCompleted TeammateIdle WorktreeCreate "
        "WorktreeRemove Elicitation ElicitationResult Setup UserPromptExpansion MessageDisplay"
    ).split(),
    "nothing",
)

TOOLS = Tools(
    reads=frozenset(
        (
            "Read Glob Grep LS NotebookRead WebFetch WebSearch TodoWrite TodoRead AskUserQuestion "
            "EnterPlanMode ExitPlanMode BashOutput TaskOutput KillShell KillBash TaskStop TaskCreate TaskGet "
            "TaskList TaskUpdate ToolSearch ListMcpResourcesTool ReadMcpResourceTool LSP CronList ListAgents"
        ).split()
    ),
    writes=frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"}),
    patches={},
)


def common(event: Event, cwd: str, host: str = "claude-code") -> Call:
    return Call(
        "nothing",
        host,
        directory=fit_path(event.text("cwd")) or cwd,
        session=event.word("session_id"),
        turn=event.word("prompt_id"),
        agent=agent_of(event),
    )


def refine(call: Call, event: Event) -> Call:
    """A turn ends while its subagents go on in the background: it is over when none runs any more, which a
    later `Stop` tells. A mark now could lie between a point and the change of a subagent, which would count
    as the person's own."""
    tasks = event.fields.get("background_tasks")
    if call.kind != "end" or not isinstance(tasks, list):
        return call
    works = any(isinstance(task, dict) and task.get("type") == "subagent" for task in tasks)
    return replace(call, kind="nothing") if works else call


def answer(event: str, words: str) -> Answer:
    if not words or event in _INTO_CONTEXT:
        return SILENT
    return as_json(systemMessage=words)


HOST = Host(
    "claude-code", KINDS, TOOLS, common, answer, _INTO_CONTEXT, refine=refine, add_context=with_context
)
