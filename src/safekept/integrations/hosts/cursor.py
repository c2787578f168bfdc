"""Cursor: hooks.json of the user or the project; also Cursor running the hooks of Claude Code.

Contract: https://cursor.com/docs/hooks (as of 2026-10-07). For the hooks that decide about a permission an
answer that fits their schema grants or denies it, and one that does not fit, on some builds an empty one
too, blocks the tool. What neither grants nor blocks is a hook that failed: any exit code but 0 and 2, with
which "the action proceeds". So those end with 1 and nothing is ever written to standard output; words go
to standard error, which the Hooks panel shows.

User hooks run in `~/.cursor`, so the directory comes from the event. Before 2.x there was no preToolUse:
the prompt takes a point of its own, and a turn that only edits files can be undone there too.
"""

from __future__ import annotations

import os
from dataclasses import replace

from ..calls import Call
from .answers import Answer, to_stderr
from .event import Event, fit_path, reason
from .host import Host, Tools, said

KINDS = {
    "preToolUse": "before",
    "beforeShellExecution": "before",
    "beforeMCPExecution": "before",
    "beforeSubmitPrompt": "before",
    "postToolUse": "after",
    "postToolUseFailure": "after",
    "afterShellExecution": "after",
    "afterMCPExecution": "after",
    "afterFileEdit": "after",
    "subagentStop": "after",
    "stop": "end",
    "sessionStart": "session-start",
    "sessionEnd": "session-end",
} | dict.fromkeys(
    (
        "subagentStart beforeReadFile beforeTabFileRead afterTabFileEdit preCompact afterAgentResponse "
        "afterAgentThought workspaceOpen"
    ).split(),
    "nothing",
)
#: An answer to these decides whether the tool may run.
PERMISSION = frozenset(
    (
        "preToolUse beforeShellExecution beforeMCPExecution beforeReadFile beforeTabFileRead subagentStart"
    ).split()
)
_NEITHER = "safekept grants and denies nothing: with exit code 1 the tool goes its usual way"
#: Events of one tool each, which need not be named in them.
_SHELL = frozenset({"beforeShellExecution", "afterShellExecution"})
_MCP = frozenset({"beforeMCPExecution", "afterMCPExecution"})

TOOLS = Tools(
    reads=frozenset(
        (
            "Read Grep Glob LS List Search SemanticSearch ReadLints TodoWrite WebSearch WebFetch FetchRules "
            "AskQuestion SwitchMode TabRead ListMcpResources FetchMcpResource"
        ).split()
    ),
    writes=frozenset({"Write", "StrReplace", "Edit", "MultiEdit", "Delete", "EditNotebook", "NotebookEdit"}),
    patches={"ApplyPatch": ("patch", "input", "command")},
)


def common(event: Event, cwd: str) -> Call:
    given = event.part("tool_input")
    roots = event.texts("workspace_roots")
    directory = given.path("working_directory", "cwd") or event.path("cwd")
    base = fit_path(roots[0]) if roots else ("" if os.path.basename(cwd) == ".cursor" else cwd)
    if base and "\0" not in directory:
        directory = os.path.join(base, directory) if directory else base
    tool = "Shell" if event.name in _SHELL else ""
    return Call(
        "nothing",
        "cursor",
        tool=f"MCP:{event.word('tool_name')}" if event.name in _MCP else tool,
        directory=directory,
        session=event.word("conversation_id") or event.word("session_id"),
        turn=event.word("generation_id"),
        agent=event.word("subagent_type"),
    )


def refine(call: Call, event: Event) -> Call:
    if call.kind == "nothing":
        return call
    if event.name == "beforeSubmitPrompt":
        return replace(
            call, paths=_other_roots(call, event), reason="before the turn", words=said(event.text("prompt"))
        )
    if call.kind == "before" and call.shell:
        command = event.text("command") or event.part("tool_input").text("command")
        words = command if event.name not in _MCP else ""
        return replace(call, paths=(*call.paths, *_other_roots(call, event)), reason=reason(call.tool, words))
    return call


def _other_roots(call: Call, event: Event) -> tuple[str, ...]:
    """A workspace may have several folders, and a command may reach any of them."""
    return tuple(
        fit_path(root) for root in event.texts("workspace_roots")[:8] if fit_path(root) != call.directory
    )


def answer(event: str, words: str) -> Answer:
    if event in KINDS and event not in PERMISSION:
        return to_stderr(words)
    return replace(to_stderr(words or _NEITHER), exit=1)  # also where it is unknown which event it was


HOST = Host("cursor", KINDS, TOOLS, common, answer, refine=refine)
