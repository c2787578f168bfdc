"""Qwen Code: the events and answers of Claude Code, the tools of Gemini CLI, from which it comes.

Contract: https://qwenlm.github.io/qwen-code-docs (hooks, as of 0.24.4) and what 0.24.4 sends. Exit 2 stops a
tool, any other code does not. `UserPromptSubmit` comes before each request of the model; `prompt_id` says
which turn it belongs to.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from . import claude_code
from .answers import with_context
from .event import Event
from .host import Host, Tools

KINDS = claude_code.KINDS | dict.fromkeys(("SessionDelete", "TodoCreated", "TodoCompleted"), "nothing")

TOOLS = Tools(
    reads=frozenset(
        (
            "read_file zoom_image grep_search glob list_directory lsp todo_write exit_plan_mode "
            "enter_plan_mode web_fetch web_search ask_user_question cron_list list_agents task_stop "
            "task_create task_update task_list team_plan_approval request_shutdown send_message "
            "structured_output tool_search read_mcp_resource report_findings get_goal update_goal "
            "propose_goal display_image"
        ).split()
    ),
    writes=frozenset({"edit", "write_file", "notebook_edit"}),
    patches={},
)


def common(event: Event, cwd: str) -> Call:
    return claude_code.common(event, cwd, "qwen")


def refine(call: Call, event: Event) -> Call:
    """Only what a person said begins a turn; further requests of the model come with an empty prompt."""
    return replace(call, kind="nothing") if call.kind == "turn" and not event.text("prompt") else call


HOST = Host("qwen", KINDS, TOOLS, common, claude_code.answer, claude_code.HOST.mute, refine, with_context)
