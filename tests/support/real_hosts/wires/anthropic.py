"""The Messages API of Anthropic, as Claude Code speaks it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any


def asks(path: str) -> bool:
    return path.partition("?")[0].endswith("/v1/messages")


def said(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for message in request.get("messages", ()):
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            if part["type"] == "text" and message["role"] == "user":
                yield "user", part["text"]
            elif part["type"] == "tool_use":
                yield "calls", part["id"].rpartition("_")[0]  # those of one answer are together


def written(path: str, request: dict[str, Any], text: str, calls: list[tuple[str, Any]]) -> tuple[str, bytes]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    parts += [
        {"type": "tool_use", "id": f"toolu_{id}", "name": name, "input": given} for id, (name, given) in calls
    ]
    message = {
        "id": f"msg_{uuid.uuid4().hex}",  # one id is one message to Claude Code, however often it comes
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "scripted"),
        "content": parts,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }
    if not request.get("stream"):
        return "application/json", json.dumps(message).encode()
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for index, part in enumerate(parts):
        if part["type"] == "text":
            empty, delta = {**part, "text": ""}, {"type": "text_delta", "text": part["text"]}
        else:
            given = json.dumps(part["input"])
            empty, delta = {**part, "input": {}}, {"type": "input_json_delta", "partial_json": given}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ends = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ends, "usage": {"output_tokens": 10}})
    events.append({"type": "message_stop"})
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "text/event-stream", "".join(lines).encode()
