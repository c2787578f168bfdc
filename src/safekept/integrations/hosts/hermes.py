"""Hermes Agent's shell hooks (`hooks:` in config.yaml): the second way in, beside the plugin.

Contract: agent/shell_hooks.py of hermes-agent 0.19.0. Exit codes never block; what is written to standard
error goes to its log. Standard output stays empty, but for what the agent itself has to know: `context`
there reaches the model. Its
`on_session_end` is the end of a turn, `on_session_finalize` that of the session. What a tool can change is
decided as in the plugin; what only Hermes itself can tell (the `cd` of its terminal) is not known here.
"""

from __future__ import annotations

import os
from dataclasses import replace

from ..calls import Call
from ..hermes.plugin.places import MEANS_NOTHING, in_words, skill
from ..hermes.plugin.tools import Touch, reason, touched
from .answers import Answer, as_json, to_stderr
from .event import Event, fit_path
from .host import Host, Tools, said

KINDS = {
    "pre_tool_call": "before",
    "post_tool_call": "after",
    "pre_llm_call": "turn",
    "on_session_end": "end",
    "subagent_stop": "after",
    "on_session_start": "session-start",
    "on_session_finalize": "session-end",
    "on_session_reset": "session-end",
} | dict.fromkeys(
    (
        "transform_tool_result transform_terminal_output transform_llm_output post_llm_call pre_api_request "
        "post_api_request api_request_error pre_verify subagent_start pre_gateway_dispatch "
        "pre_approval_request post_approval_response kanban_task_claimed kanban_task_completed "
        "kanban_task_blocked"
    ).split(),
    "nothing",
)
TOOLS = Tools(frozenset(), frozenset(), {})


def common(event: Event, cwd: str) -> Call:
    extra = event.part("extra")
    return Call(
        "nothing",
        "hermes",
        directory=_directories(event, cwd)[0],
        session=event.word("session_id"),
        turn=extra.word("turn_id") or extra.word("parent_turn_id"),
        agent=extra.word("child_session_id"),
    )


def refine(call: Call, event: Event) -> Call:
    """What the tool may touch, and where it really works."""
    if call.kind == "turn":
        return replace(call, words=said(event.part("extra").text("user_message")))
    if call.kind not in ("before", "after") or event.name == "subagent_stop":
        return call
    touch = touched(call.tool, event.part("tool_input").fields)
    if call.kind == "after":
        ran = event.part("extra").text("status") != "blocked"
        ended = ran and touch.shell and not touch.background
        return replace(call, kind="after" if ended else "nothing", shell=touch.shell)
    if touch.nothing:
        return replace(call, kind="nothing", shell=False)
    home = event.environment.get("HERMES_HOME", "").strip() or os.path.join(event.user_home, ".hermes")
    words = reason(call.tool, touch)
    call = replace(
        call,
        shell=touch.shell,
        reason=words,
        out_of_reach="" if touch.on_host else in_words(event.environment.get("TERMINAL_ENV", "")),
    )
    if touch.in_home:
        found = [os.path.join(home, name) for name in touch.of_home]
        found += skill(touch.skill, touch.category, home) if touch.skill else []
        return replace(call, paths=tuple(map(fit_path, found)), home=home)
    directories = _directories(event, call.directory)
    workdir = _expanded(touch.workdir, event)
    if workdir and "\0" not in workdir:
        call = replace(call, directory=os.path.normpath(os.path.join(call.directory, workdir)))
    return replace(call, paths=_named(touch, directories, event))


def _named(touch: Touch, directories: list[str], event: Event) -> tuple[str, ...]:
    """A relative path is relative to the first directory, as far as can be told from outside; the
    same name below the others is kept too, since one too many costs nothing."""
    names = [fit_path(_expanded(name, event)) for name in touch.named]
    more = [
        os.path.join(place, name) for name in names for place in directories[1:] if not os.path.isabs(name)
    ]
    return tuple(
        dict.fromkeys((*names, *(path for path in more if "\0" not in path and os.path.lexists(path))))
    )


def _directories(event: Event, cwd: str) -> list[str]:
    """Where its tools may work: as configured, else where Hermes itself is."""
    named = event.environment.get("TERMINAL_CWD", "").strip()
    configured = "" if named.lower() in MEANS_NOTHING else _expanded(named, event)
    here = fit_path(event.text("cwd")) or cwd
    found = [configured] if os.path.isabs(configured) and os.path.isdir(configured) else []
    return list(dict.fromkeys([*found, here]))


def _expanded(path: str, event: Event) -> str:
    return event.user_home + path[1:] if event.user_home and (path == "~" or path.startswith("~/")) else path


def answer(event: str, words: str) -> Answer:
    return to_stderr(words)


def add_context(answer: Answer, event: str, text: str) -> Answer:
    return replace(answer, stdout=as_json(context=text).stdout)


HOST = Host("hermes", KINDS, TOOLS, common, answer, refine=refine, add_context=add_context, prompt="")
