"""Qwen Code: `qwen -p`, its key and its server by the environment."""

from __future__ import annotations

import os

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import chat


class Qwen(host.RealHost):
    name, package, program = "qwen", "@qwen-code/qwen-code", "qwen"
    wire = chat

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(path):
                return "read_file", {"file_path": path}
            case Write(path, content):
                return "write_file", {"file_path": path, "content": content}
            case Edit(path, old, new):
                return "edit", {"file_path": path, "old_string": old, "new_string": new}
            case Shell(command, background):
                return "run_shell_command", {
                    "command": command,
                    "description": "work",
                    "is_background": background,
                }
            case Delegate(prompt):
                given = {"description": "a part", "prompt": prompt, "subagent_type": "general-purpose"}
                return "agent", given
            case Seek(_) | Await(_):
                return None
            case Use(tool, arguments, _):
                return f"mcp__safekept__{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        host.write_json(self._settings(ground), settings)
        return {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"}

    def _settings(self, ground: Ground) -> str:
        return os.path.join(ground.user, ".qwen", "settings.json")

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["--continue"] if again else []
        return [self.program, "-p", prompt, *more, "--yolo"]

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"command": command[0], "args": command[1:], "trust": True, "timeout": host.STARTED * 1000}
        host.change_json(self._settings(ground), mcpServers={"safekept": server})
