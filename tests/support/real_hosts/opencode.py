"""opencode: `opencode run`, with a provider of its own that speaks like OpenAI."""

from __future__ import annotations

import os
import shlex

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .installed import version_of
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
            case Shell(command, background):
                # It has no background of its own.
                behind = f"nohup sh -c {shlex.quote(command)} >/dev/null 2>&1 &"
                return "bash", {"command": behind if background else command, "description": "work"}
            case Delegate(prompt):
                return "task", {"description": "a part", "prompt": prompt, "subagent_type": "general"}
            case Seek(_) | Await(_):
                return None  # all its tools are offered at once, and a subagent is waited for
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
        # With any plugin it fetches a package at its first start, which ours does not need: it looks as if
        # it had done so.
        directory = os.path.dirname(self._settings(ground))
        fetched = {"dependencies": {"@opencode-ai/plugin": version_of(self.package)}}
        os.mkdir(os.path.join(directory, "node_modules"))
        host.write_json(os.path.join(directory, "package.json"), fetched)
        lock = {"lockfileVersion": 3, "requires": True, "packages": {"": fetched}}
        host.write_json(os.path.join(directory, "package-lock.json"), lock)
        return {}

    def _settings(self, ground: Ground) -> str:
        return os.path.join(ground.user, ".config", "opencode", "opencode.json")

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["-c"] if again else []
        return [self.program, "run", prompt, *more]

    def resume(self, prompt: str, session: str) -> list[str]:
        return [*self.command(prompt), "-s", session]

    def listed(self, ground: Ground) -> str:
        return ground.launch(self, [self.program, "session", "list"]).communicate(timeout=300)[0]

    def delete(self, ground: Ground, session: str) -> None:
        ground.launch(self, [self.program, "session", "delete", session]).communicate(timeout=300)

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"type": "local", "command": command, "timeout": host.STARTED * 1000}
        host.change_json(self._settings(ground), mcp={"safekept": server})
