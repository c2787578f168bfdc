"""Gemini CLI: hooks in settings.json; standard output must be one JSON object and nothing else.

Contract: https://geminicli.com/docs/hooks/reference. It names no turn, so BeforeAgent starts one.
`systemMessage` is shown in the terminal; `{}` says that there is nothing to say.
"""

from __future__ import annotations

from dataclasses import replace

from ..calls import Call
from .answers import Answer, as_json, with_context
from .event import Event, fit_path
from .host import PATH_KEYS, Host, Tools

#: These take no `systemMessage`; it is ignored or asks for a retry.
_MUTE = frozenset({"BeforeModel", "AfterModel", "BeforeToolSelection"})

KINDS = {
    "BeforeTool": "before",
    "AfterTool": "after",
    "BeforeAgent": "turn",
    "AfterAgent": "end",
    "SessionStart": "session-start",
    "SessionEnd": "session-end",
} | dict.fromkeys("BeforeModel AfterModel BeforeToolSelection Notification PreCompress".split(), "nothing")

TOOLS = Tools(
    reads=frozenset(
        (
            "read_file read_many_files list_directory glob grep_search search_file_content ripgrep "
            "google_web_search web_fetch write_todos ask_user enter_plan_mode exit_plan_mode "
            "get_internal_docs list_background_processes read_background_output "
            "tracker_get_task tracker_list_tasks tracker_visualize complete_task update_topic"
        ).split()
    ),
    writes=frozenset({"write_file", "replace", "edit"}),
    patches={},
    path_keys=PATH_KEYS,
)


def common(event: Event, cwd: str) -> Call:
    directory = fit_path(event.text("cwd")) or cwd
    return Call("nothing", "gemini", directory=directory, session=event.word("session_id"))


def refine(call: Call, event: Event) -> Call:
    """A command may run in another directory of the workspace."""
    if not call.shell:
        return call
    given = event.part("tool_input")
    elsewhere = given.path("dir_path", "directory")
    return replace(call, directory=_joined(call.directory, elsewhere)) if elsewhere else call


def _joined(directory: str, path: str) -> str:
    import os

    return os.path.normpath(os.path.join(directory, path)) if "\0" not in path else directory


def answer(event: str, words: str) -> Answer:
    return as_json(systemMessage=words) if words and event not in _MUTE else as_json()


HOST = Host("gemini", KINDS, TOOLS, common, answer, _MUTE, refine, with_context)
