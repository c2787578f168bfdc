"""`generateContent` of Google's API, as Gemini CLI speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def asks(path: str) -> bool:
    return ":generateContent" in path or ":streamGenerateContent" in path


def said(request: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for number, content in enumerate(request.get("contents", ())):
        for part in content.get("parts", ()):
            if "text" in part and content.get("role") == "user":
                yield "user", part["text"]
            elif "functionCall" in part:
                yield "calls", str(number)


def written(path: str, request: dict[str, Any], text: str, calls: list[tuple[str, Any]]) -> tuple[str, bytes]:
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += [{"functionCall": {"id": id, "name": name, "args": given}} for id, (name, given) in calls]
    document = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
        "modelVersion": "scripted",
    }
    if ":streamGenerateContent" not in path:
        return "application/json", json.dumps(document).encode()
    return "text/event-stream", f"data: {json.dumps(document)}\r\n\r\n".encode()
