"""Gemini CLI's conversations: `tmp/<project>/chats/session-<time>-<start of id>.jsonl`, formerly `.json`.

Seen in homes of Gemini CLI 0.61.0. `projects.json` says which directory has which name below `tmp`; a
conversation comes back under the name that its directory has now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .reader import Message
from .transcripts import AgentFiles, Files, Told, document, text_of, when

_TRANSCRIPT = re.compile(r"tmp/([^/]+)/chats/session-[^/]+\.jsonl?")
_PROJECTS = "projects.json"
_ROLES = {"user": "user", "gemini": "assistant"}


class GeminiFiles(AgentFiles):
    """Those of `~/.gemini`."""

    directory, below = "tmp", ("tmp",)

    def is_transcript(self, path: str) -> bool:
        return bool(_TRANSCRIPT.fullmatch(path))

    def belongs(self, path: str, transcript: str, session: str) -> bool:
        project = "/".join(transcript.split("/")[:2])
        return path == f"{project}/.project_root" or path.startswith(
            (
                f"{project}/{session}/",
                f"{project}/chats/{session}/",
                f"{project}/logs/session-{session}.",
                f"{project}/tool-outputs/session-{session}/",
            )
        )

    def placed(self, path: str, stored: Files, live: Files) -> str:
        top, _, rest = path.partition("/")
        name, _, inner = rest.partition("/")
        if top != "tmp" or not inner:
            return path
        return f"tmp/{_name_now(name, stored, live)[0]}/{inner}"

    def listed(self, transcript: str, session: str, stored: Files, live: Files) -> Mapping[str, bytes]:
        name, directory = _name_now(transcript.split("/")[1], stored, live)
        there = document(live.chunks(_PROJECTS))
        projects = _projects(live)
        if not directory or projects.get(directory) == name:
            return {}
        merged = {**there, "projects": {**projects, directory: name}}
        return {_PROJECTS: json.dumps(merged, indent=2, ensure_ascii=False).encode()}

    def messages(self, path: str, records: Iterator[Mapping[str, Any]], told: Told) -> Iterator[Message]:
        """A later line with the id of a message replaces it, and `$set` replaces what it names."""
        said: dict[str, Mapping[str, Any]] = {}
        for record in records:
            changed = record.get("$set")
            head = changed if isinstance(changed, dict) else record
            told.id = str(head.get("sessionId") or told.id)
            told.named = str(head.get("summary") or told.named)
            told.started = told.started or when(head.get("startTime"))
            if isinstance(whole := head.get("messages"), list):
                said = {str(one.get("id")): one for one in whole if isinstance(one, dict)}
            elif head.get("type") in _ROLES:
                said[str(head.get("id"))] = head
        for one in said.values():
            yield from _said(one)


def _said(one: Mapping[str, Any]) -> Iterator[Message]:
    time, text = when(one.get("timestamp")), text_of(one.get("content"))
    if text and not text.lstrip().startswith("<session_context>"):
        yield Message(_ROLES.get(str(one.get("type")), ""), text, time, "")
    calls = one.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            shown = call.get("resultDisplay")
            yield Message("tool", shown if isinstance(shown, str) else "", time, str(call.get("name") or ""))


def _projects(files: Files) -> dict[str, str]:
    found = document(files.chunks(_PROJECTS)).get("projects")
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _name_now(name: str, stored: Files, live: Files) -> tuple[str, str]:
    """What the project of this stored name is called in the live home, and where it lies; "" where that
    is not known."""
    directory = next((key for key, value in _projects(stored).items() if value == name), "")
    if not directory:
        directory = b"".join(stored.chunks(f"tmp/{name}/.project_root")).decode("utf-8", "replace").strip()
    now = _projects(live)
    if not directory or now.get(directory):
        return now.get(directory, name), directory
    taken, free, number = set(now.values()), name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free, directory
