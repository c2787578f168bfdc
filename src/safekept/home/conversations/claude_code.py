"""Claude Code's conversations: `projects/<directory>/<id>.jsonl`; its resume list is that directory.

Seen in homes of Claude Code 2.1.325. What its subagents said, long outputs, the files that its own rewind
needs and its lists of things to do lie under the id of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .reader import Message
from .transcripts import AgentFiles, Told, field, text_of, when

_TRANSCRIPT = re.compile(r"projects/[^/]+/[0-9a-f-]{36}\.jsonl")


class ClaudeCodeFiles(AgentFiles):
    """Those of `~/.claude`."""

    directory, below = "projects", ("projects",)
    beside = ("file-history", "todos", "tasks")

    def is_transcript(self, path: str) -> bool:
        return bool(_TRANSCRIPT.fullmatch(path))

    def belongs(self, path: str, transcript: str, session: str) -> bool:
        return path.startswith(
            (
                transcript.removesuffix(".jsonl") + "/",
                f"file-history/{session}/",
                f"tasks/{session}/",
                f"todos/{session}",
            )
        )

    def messages(self, path: str, records: Iterator[Mapping[str, Any]], told: Told) -> Iterator[Message]:
        told.id = path.rpartition("/")[2].removesuffix(".jsonl")
        for record in records:
            kind = record.get("type")
            if kind == "custom-title":
                told.named = str(record.get("customTitle") or "")
            elif kind in ("summary", "ai-title") and not told.named:
                told.named = str(record.get("summary") or record.get("aiTitle") or "")
            elif kind in ("user", "assistant") and not record.get("isMeta"):
                told.source = told.source or str(record.get("cwd") or "")
                yield from _said(
                    str(kind), field(record, "message", "content"), when(record.get("timestamp"))
                )


def _said(role: str, content: object, time: float) -> Iterator[Message]:
    text = text_of(content, "text")
    if text:
        yield Message(role, text, time, "")
    for part in content if isinstance(content, list) else ():
        if field(part, "type") == "tool_use":
            yield Message(role, str(part.get("input") or ""), time, str(part.get("name") or ""))
        elif field(part, "type") == "tool_result":
            yield Message("tool", text_of(part.get("content")), time, "")
