"""Cline: `cline PROMPT`, with a provider of its own that speaks like OpenAI."""

from __future__ import annotations

import os
import shlex

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import chat


class Cline(host.RealHost):
    name, package, program = "cline", "cline", "cline"
    wire = chat

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(path):
                return "read_files", {"files": [{"path": path}]}
            case Write(path, content):
                return "editor", {"path": path, "new_text": content}
            case Edit(path, old, new):
                return "editor", {"path": path, "old_text": old, "new_text": new}
            case Shell(command, background):
                # It has no background of its own.
                behind = f"nohup sh -c {shlex.quote(command)} >/dev/null 2>&1 &"
                return "run_commands", {"commands": [behind if background else command]}
            case Delegate(prompt):
                return "spawn_agent", {"systemPrompt": "You do a part.", "task": prompt}
            case Seek(_) | Await(_):
                return None
            case Use(tool, arguments, _):
                return f"safekept__{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        settings = {
            "provider": "openai-compatible",
            "apiKey": "none",
            "model": "scripted",
            "baseUrl": f"{model.url}/v1",
        }
        kept = {"settings": settings, "updatedAt": "2026-11-18T00:00:00.000Z", "tokenSource": "manual"}
        document = {"version": 1, "lastUsedProvider": "openai-compatible", "providers": {}}
        document["providers"] = {"openai-compatible": kept}
        host.write_json(self._settings(ground, "providers.json"), document)
        # By itself: the process that it would otherwise leave behind belongs to no test.
        return {"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"}

    def _settings(self, ground: Ground, name: str) -> str:
        return os.path.join(ground.user, ".cline", "data", "settings", name)

    def command(self, prompt: str, again: bool = False) -> list[str]:
        assert not again, "it goes on with a conversation in its terminal interface alone"
        return [self.program, prompt, "--auto-approve", "true"]

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"command": command[0], "args": command[1:], "timeout": host.STARTED}
        host.write_json(
            self._settings(ground, "cline_mcp_settings.json"), {"mcpServers": {"safekept": server}}
        )
