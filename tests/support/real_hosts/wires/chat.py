"""Chat completions of OpenAI, as opencode and Qwen Code speak them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any


def asks(path: str) -> bool:
    return path.endswith("/chat/completions")


def said(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for number, message in enumerate(request.get("messages", ())):
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        if message["role"] == "user":
            yield from (("user", part["text"]) for part in parts if "text" in part)
        elif message.get("tool_calls"):
            yield "calls", str(number)


def written(path: str, request: dict[str, Any], text: str, calls: list[tuple[str, Any]]) -> tuple[str, bytes]:
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {
                "index": index,
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for index, (id, (name, given)) in enumerate(calls)
        ]
    ends = "tool_calls" if calls else "stop"
    facts = {"id": f"chat_{uuid.uuid4().hex}", "created": 1, "model": request.get("model", "scripted")}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    if not request.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": ends}
        document = {**facts, "object": "chat.completion", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(document).encode()
    chunk = {**facts, "object": "chat.completion.chunk"}
    parts = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": ends}], "usage": usage},
    ]
    lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode()
