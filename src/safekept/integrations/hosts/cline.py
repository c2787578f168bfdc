"""Cline: scripts in its hooks directory, named for what happens; JSON in and (only when needed) out.

Contract: https://docs.cline.bot/customization/hooks and what the command line of 3.0.65 sends. Only a
`cancel` in JSON on standard output stops a tool; no exit code does. It waits for the scripts before and
after a tool; those of a run's beginning and end it leaves behind, and hears nothing of them. A prompt begins
a run.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from .answers import Answer, to_stderr
from .event import Event, fit_path
from .host import Host, Tools

KINDS = {
    "tool_call": "before",
    "tool_result": "after",
    "agent_start": "turn",
    "agent_resume": "turn",
    "agent_end": "end",
    "agent_error": "end",
    "agent_abort": "end",
    "session_shutdown": "session-end",
} | dict.fromkeys(("prompt_submit", "pre_compact"), "nothing")

TOOLS = Tools(
    reads=frozenset(
        "read_files search_codebase fetch_web_content web_search ask_question submit_and_exit".split()
    ),
    writes=frozenset({"editor"}),
    patches={"apply_patch": ("input", "command")},
    path_keys=("path",),
)
#: What it has been told to do, before and after it was done.
_TOLD = ("tool_call", "tool_result")


def _tool(event: Event) -> Event:
    return next((event.part(name) for name in _TOLD if name in event.fields), Event({}, " "))


def arguments(event: Event) -> Event:
    """With the commands as one text: a call may have several, and they run at the same time."""
    tool = _tool(event)
    given = tool.part("input")
    if text := tool.text("input"):
        return Event({"command": text}, " ")
    commands = given.command("commands") or given.command("cmd")
    return Event({**given.fields, "command": commands}, " ") if commands else given


def common(event: Event, cwd: str) -> Call:
    roots = event.texts("workspaceRoots")
    return Call(
        "nothing",
        "cline",
        tool=_tool(event).word("name"),
        directory=fit_path(roots[0]) if roots else cwd,
        session=event.part("sessionContext").word("rootSessionId") or event.word("taskId"),
        agent=event.word("agent_id") if event.text("parent_agent_id") else "",
    )


def refine(call: Call, event: Event) -> Call:
    """A subagent's run is a part of its caller's turn: it begins none and ends none."""
    return call if not call.agent or call.kind in ("before", "after") else replace(call, kind="nothing")


def answer(event: str, words: str) -> Answer:
    return to_stderr(words)


HOST = Host("cline", KINDS, TOOLS, common, answer, refine=refine, arguments=arguments, prompt="")
