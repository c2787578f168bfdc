"""What each host says to its hook program around one action of the bad agent, in its documented JSON."""

from __future__ import annotations

from collections.abc import Callable

from support.bad_agent.deeds import Action

Said = dict[str, object]


class Speech:
    """The events around one action; `tools` are (name, input) pairs, for the action's kind."""

    def __init__(self, session: str, turn: str, project: str) -> None:
        self.session, self.turn, self.project = session, turn, project

    def full(self, path: str) -> str:
        return f"{self.project}/{path}"


def claude_code(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    common = {
        "session_id": speech.session,
        "prompt_id": speech.turn,
        "transcript_path": "/nowhere/t.jsonl",
        "cwd": speech.project,
        "permission_mode": "default",
    }
    if action.kind == "edit":
        tool, given = "Write", {"file_path": speech.full(action.path), "content": action.text}
    else:
        text = f"apply_patch <<'EOF'\n{action.patch('codex')}EOF" if action.steps else action.command
        tool, given = "Bash", {"command": text, "description": "…", "timeout": 120000}
    call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_{speech.turn}"}
    before = [
        {**common, "hook_event_name": "UserPromptSubmit", "prompt": "do it"},
        {**common, "hook_event_name": "PreToolUse", **call},
    ]
    after = [
        {**common, "hook_event_name": "PostToolUse", **call, "tool_response": {"success": True}},
        {**common, "hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "done"},
    ]
    return before, after


def codex(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    before, after = claude_code(speech, action)
    for event in (*before, *after):
        del event["prompt_id"]
        event |= {"turn_id": speech.turn, "model": "m", "transcript_path": None}
        if "tool_name" not in event:
            continue
        if action.steps:
            event |= {"tool_name": "apply_patch", "tool_input": {"command": action.patch("codex")}}
        elif action.kind == "edit":
            lines = "".join(f"+{line}\n" for line in action.text.splitlines())
            envelope = f"*** Begin Patch\n*** Update File: {action.path}\n@@\n{lines}*** End Patch\n"
            event |= {"tool_name": "apply_patch", "tool_input": {"command": envelope}}
        else:
            event["tool_input"] = {"command": action.command}
    return before, after


def gemini(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    common = {
        "session_id": speech.session,
        "transcript_path": "/nowhere/t.json",
        "cwd": speech.project,
        "timestamp": "2026-11-15T12:00:00Z",
    }
    if action.kind == "edit":
        tool, given = "write_file", {"file_path": speech.full(action.path), "content": action.text}
    else:
        tool, given = "run_shell_command", {"command": action.patch() if action.steps else action.command}
    call = {"tool_name": tool, "tool_input": given}
    before = [
        {**common, "hook_event_name": "BeforeAgent", "prompt": "do it"},
        {**common, "hook_event_name": "BeforeTool", **call},
    ]
    answer = {"llmContent": "", "returnDisplay": ""}
    after = [
        {**common, "hook_event_name": "AfterTool", **call, "tool_response": answer},
        {**common, "hook_event_name": "AfterAgent", "prompt": "do it", "prompt_response": "done"},
    ]
    return before, after


def hermes(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    extra = {"task_id": "", "tool_call_id": "c", "turn_id": speech.turn, "api_request_id": ""}
    common = {"session_id": speech.session, "cwd": speech.project}
    tool, given = hermes_tool(action)
    call = {"tool_name": tool, "tool_input": given}
    nothing = {"tool_name": None, "tool_input": None}
    before = [
        {"hook_event_name": "pre_llm_call", **nothing, **common, "extra": extra},
        {"hook_event_name": "pre_tool_call", **call, **common, "extra": extra},
    ]
    done = {**extra, "result": "{}", "duration_ms": 1, "status": "ok"}
    after = [
        {"hook_event_name": "post_tool_call", **call, **common, "extra": done},
        {"hook_event_name": "on_session_end", **nothing, **common, "extra": extra},
    ]
    return before, after


def hermes_tool(action: Action) -> tuple[str, dict[str, object]]:
    """The tool and its arguments, with paths relative to the directory it works in."""
    if action.kind == "edit":
        return "write_file", {"path": action.path, "content": action.text}
    if action.kind == "patch":
        return "patch", {"mode": "patch", "patch": action.patch()}
    if action.kind == "code":
        return "execute_code", {"code": action.text}
    return "terminal", {"command": action.text}


def cursor(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    common = {
        "conversation_id": speech.session,
        "generation_id": speech.turn,
        "cursor_version": "2.4.0",
        "workspace_roots": [speech.project],
    }
    if action.kind == "edit":
        given = {"file_path": speech.full(action.path), "content": action.text}
        tool = {"tool_name": "Write", "tool_input": given, "tool_use_id": "t"}
        first, second = {"hook_event_name": "preToolUse", **tool}, {"hook_event_name": "postToolUse", **tool}
    else:
        command = {"command": action.patch() if action.steps else action.command, "cwd": speech.project}
        first = {"hook_event_name": "beforeShellExecution", **command}
        second = {"hook_event_name": "afterShellExecution", **command, "output": "", "duration": 1}
    before = [
        {**common, "hook_event_name": "beforeSubmitPrompt", "prompt": "do it"},
        {**common, **first},
    ]
    return before, [{**common, **second}, {**common, "hook_event_name": "stop", "status": "completed"}]


def opencode(speech: Speech, action: Action) -> tuple[list[Said], list[Said]]:
    common = {"sessionID": speech.session, "directory": speech.project, "worktree": speech.project}
    if action.kind == "edit":
        tool, given = "write", {"filePath": speech.full(action.path), "content": action.text}
    elif action.kind == "patch":
        tool, given = "apply_patch", {"patchText": action.patch("codex")}
    else:
        tool, given = "bash", {"command": action.command}
    call = {"tool": tool, "callID": "c", "args": given}
    before = [
        {**common, "hook": "chat.message", "messageID": speech.turn},
        {**common, "hook": "tool.execute.before", **call},
    ]
    return before, [{**common, "hook": "tool.execute.after", **call}, {**common, "hook": "session.idle"}]


HOSTS: dict[str, Callable[[Speech, Action], tuple[list[Said], list[Said]]]] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini": gemini,
    "hermes": hermes,
    "cursor": cursor,
    "opencode": opencode,
}
