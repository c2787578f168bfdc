"""Codex's conversations: `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`.

Seen in homes of Codex 0.166.0. It puts a transcript that it finds into its own database, so its resume list
has one as soon as it is there (seen with 0.166.0); the name that its user gave a conversation is a line of
`session_index.jsonl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .reader import Message
from .transcripts import AgentFiles, Files, Told, field, records, text_of, when

_TRANSCRIPT = re.compile(r"(?:sessions/.*|archived_sessions)/rollout-[^/]*?([0-9a-f-]{36})\.jsonl")
_INDEX = "session_index.jsonl"
#: What Codex itself says in the person's place before the first prompt.
_NOT_THE_PERSON = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")


class CodexFiles(AgentFiles):
    """Those of `~/.codex`."""

    directory, below = "sessions", ("sessions", "archived_sessions")

    def is_transcript(self, path: str) -> bool:
        return bool(_TRANSCRIPT.fullmatch(path))

    def belongs(self, path: str, transcript: str, session: str) -> bool:
        return False

    def names(self, files: Files) -> Mapping[str, str]:
        found = records(files.chunks(_INDEX))  # the last line of a conversation is its name now
        return {str(one.get("id") or ""): str(one.get("thread_name") or "") for one in found}

    def listed(self, transcript: str, session: str, stored: Files, live: Files) -> Mapping[str, bytes]:
        name = self.names(stored).get(session)
        if not name or self.names(live).get(session):
            return {}
        there = b"".join(live.chunks(_INDEX))
        if there and not there.endswith(b"\n"):
            there += b"\n"
        line = next(one for one in reversed([*records(stored.chunks(_INDEX))]) if one.get("id") == session)
        return {_INDEX: there + json.dumps(line, ensure_ascii=False).encode() + b"\n"}

    def messages(self, path: str, records: Iterator[Mapping[str, Any]], told: Told) -> Iterator[Message]:
        told.id = path.removesuffix(".jsonl")[-36:]
        for record in records:
            kind, body = record.get("type"), record.get("payload")
            if not isinstance(body, dict):
                continue
            if kind == "session_meta":
                told.source = str(body.get("cwd") or "")
                told.started = when(body.get("timestamp"))
                above = field(body, "source", "subagent", "thread_spawn", "parent_thread_id")
                told.parent = str(above or body.get("forked_from_id") or "")
            elif kind == "response_item":
                said = _said(body, when(record.get("timestamp")))
                if said is not None:
                    yield said


def _said(body: Mapping[str, Any], time: float) -> Message | None:
    kind, role = body.get("type"), str(body.get("role") or "")
    if kind == "message" and role in ("user", "assistant"):
        text = text_of(body.get("content"))
        own = role == "user" and text.lstrip().startswith(_NOT_THE_PERSON)
        return None if own or not text else Message(role, text, time, "")
    if kind in ("function_call", "custom_tool_call"):
        given = str(body.get("arguments") or body.get("input") or "")
        return Message("assistant", given, time, str(body.get("name") or ""))
    if kind in ("function_call_output", "custom_tool_call_output"):
        output = body.get("output")
        return Message("tool", output if isinstance(output, str) else text_of(output), time, "")
    return None
