"""What each tool of Hermes can change: named files, anything (like a shell), the home, or nothing.

A tool that is not known here (of another plugin, of an MCP server, of a newer Hermes) is taken for one
that can change anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .patches import named_in

#: They change no file of the user's: they look, ask, or act somewhere else.
HARMLESS = frozenset(
    """
    read_file search_files read_terminal close_terminal skill_view skills_list session_search todo
    todo_list clarify web_search web_extract x_search vision_analyze video_analyze image_generate
    video_generate xai_video_edit xai_video_extend send_message project_create project_list
    project_switch desktop_project browser_back browser_cdp browser_click browser_console browser_dialog
    browser_get_images browser_navigate browser_press browser_scroll browser_snapshot browser_type
    browser_vision discord discord_admin feishu_doc_read feishu_drive_add_comment
    feishu_drive_list_comment_replies feishu_drive_list_comments feishu_drive_reply_comment
    ha_call_service ha_get_state ha_list_entities ha_list_services kanban_attach kanban_attach_url
    kanban_attachments kanban_block kanban_comment kanban_complete kanban_create kanban_heartbeat
    kanban_link kanban_list kanban_show kanban_unblock yb_query_group_info yb_query_group_members
    yb_search_sticker yb_send_dm yb_send_sticker
    """.split()
)
_LOOKING = {
    "process": frozenset({"list", "poll", "log", "wait", "kill", "close"}),
    "cronjob": frozenset({"list"}),
}
#: What tools are called from 0.21 on.
_RENAMED = {"process_manage": "process", "cronjob_manage": "cronjob"}
_LONGEST_COMMAND = 60
_BACK = ("rollback", "roll_back", "undo")


@dataclass(frozen=True)
class Touch:
    """What one call of a tool can change."""

    named: tuple[str, ...] = ()  # as the tool was given them
    text: bool = False  # named in a patch text: the shell of the tool opens them
    shell: bool = False  # anything
    workdir: str = ""  # where a command was told to run
    skill: str = ""  # a skill of the home, by name
    category: str = ""
    of_home: tuple[str, ...] = ()  # below the home
    command_text: str = ""  # the command or code
    background: bool = False  # the command goes on when the tool has ended
    on_host: bool = False  # runs beside Hermes itself, whatever the back end of its terminal

    @property
    def nothing(self) -> bool:
        return not (self.named or self.shell or self.skill or self.of_home)

    @property
    def in_home(self) -> bool:
        return bool(self.skill or self.of_home)


NOTHING = Touch()
ANYTHING = Touch((), False, True)


def touched(tool: str, arguments: object) -> Touch:
    """What this call can change."""
    args: Mapping[str, Any] = arguments if isinstance(arguments, Mapping) else {}
    tool = _RENAMED.get(tool, tool)
    if tool in HARMLESS or _text(args, "action").strip().lower() in _LOOKING.get(tool, ()):
        return NOTHING
    if tool == "write_file":
        return Touch(named=_names(args, "path"))
    if tool == "text_to_speech":
        return Touch(named=_names(args, "output_path"), on_host=True)
    if tool == "patch":
        text = _text(args, "patch")
        if text and _text(args, "mode") != "replace":
            named = (*_names(args, "path"), *named_in(text))
            return Touch(named=named, text=True) if named else ANYTHING
        return Touch(named=_names(args, "path"))
    if tool == "skill_manage":
        return Touch(skill=_text(args, "name") or ".", category=_text(args, "category"), on_host=True)
    if tool == "cronjob":
        return Touch(of_home=("cron/jobs.json",), on_host=True)
    if tool == "memory":
        return Touch(of_home=("memories/MEMORY.md", "memories/USER.md"), on_host=True)
    command_text = _text(args, "command") or _text(args, "code") or _text(args, "data")
    inside = tool in ("terminal", "execute_code", "process")
    return replace(
        ANYTHING,
        workdir=_text(args, "workdir"),
        command_text=command_text,
        background=args.get("background") is True,
        on_host=not inside,
    )


def reason(tool: str, touch: Touch) -> str:
    """`before write_file`, `before terminal: rm -rf build`."""
    words = " ".join(touch.command_text.split())[:_LONGEST_COMMAND] if tool != "execute_code" else ""
    return f"before {tool}: {words}" if words else f"before {tool}"


def goes_back(tool: str, command: str) -> bool:
    """Whether the agent itself asks safekept for a rollback: by a command, or by a tool of its server."""
    command_text = f"{tool} {command}"
    return "safekept" in command_text and any(word in command_text for word in _BACK)


def _text(args: Mapping[str, Any], name: str) -> str:
    value = args.get(name)
    return value if isinstance(value, str) else ""


def _names(args: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = _text(args, name)
    return (value,) if value and "\0" not in value else ()
