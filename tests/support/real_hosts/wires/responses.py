"""The Responses API of OpenAI, as Codex speaks it. A call with a text for arguments is a custom tool's."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any


def asks(path: str) -> bool:
    return path.endswith("/responses")


def said(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for item in request.get("input", ()):
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            content = item["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            yield from (("user", part["text"]) for part in parts if "text" in part)
        elif kind in ("function_call", "custom_tool_call", "tool_search_call"):
            yield "calls", item["call_id"].rpartition("_")[0]  # those of one answer are together


def written(path: str, request: dict[str, Any], text: str, calls: list[tuple[str, Any]]) -> tuple[str, bytes]:
    answer = uuid.uuid4().hex
    items: list[dict[str, Any]] = []
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        items.append({"type": "message", "id": f"msg_{answer}", "role": "assistant", "content": [part]})
    for id, (called, given) in calls:
        space, _, name = called.rpartition(".")
        base = {"id": f"fc_{id}", "call_id": id, "status": "completed"}
        if name == "tool_search":
            items.append({"type": "tool_search_call", **base, "execution": "client", "arguments": given})
        elif isinstance(given, str):
            items.append({"type": "custom_tool_call", **base, "name": name, "input": given})
        else:
            items.append(
                {
                    "type": "function_call",
                    **base,
                    "name": name,
                    "namespace": space or None,
                    "arguments": json.dumps(given),
                }
            )
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": f"resp_{answer}"}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": {"id": f"resp_{answer}", "usage": usage}})
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "text/event-stream", "".join(lines).encode()
