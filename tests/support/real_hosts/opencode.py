"""opencode: `opencode run`, with a provider of its own that speaks like OpenAI."""

from __future__ import annotations

import os

from . import host
from .deeds import Deed, Delegate, Edit, Read, Shell, Use, Write
from .ground import Ground
from .installed import PACKAGES
from .model import Call, Model
from .wires import chat


class Opencode(host.RealHost):
    name, package, program = "opencode", "opencode-ai", "opencode"
    wire = chat

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(path):
                return "read", {"filePath": path}
            case Write(path, content):
                return "write", {"filePath": path, "content": content}
            case Edit(path, old, new):
                return "edit", {"filePath": path, "oldString": old, "newString": new}
            case Shell(command, _):
                return "bash", {"command": command, "description": "work"}
            case Delegate(prompt):
                return "task", {"description": "a part", "prompt": prompt, "subagent_type": "general"}
            case Use(tool, arguments, _):
                return f"safekept_{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"scripted": {"name": "scripted", "tool_call": True}},
        }
        settings = {
            "provider": {"scripted": provider},
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
        }
        host.write_json(self._settings(ground), settings)
        # With a plugin it would fetch this at each start.
        package = os.path.join(PACKAGES, "@opencode-ai")
        if os.path.isdir(package):
            modules = os.path.join(ground.user, ".config", "opencode", "node_modules")
            os.makedirs(modules)
            os.symlink(package, os.path.join(modules, "@opencode-ai"))
        return {}

    def _settings(self, ground: Ground) -> str:
        return os.path.join(ground.user, ".config", "opencode", "opencode.json")

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["-c"] if again else []
        return [self.program, "run", prompt, *more]

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"type": "local", "command": command}
        host.change_json(self._settings(ground), mcp={"safekept": server})
