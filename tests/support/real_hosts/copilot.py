"""Copilot CLI: `copilot -p`, with a provider of its own by the environment, and without GitHub."""

from __future__ import annotations

import os

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import chat


class Copilot(host.RealHost):
    name, package, program = "copilot", "@github/copilot", "copilot"
    wire = chat

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(path):
                return "view", {"path": path}
            case Write(path, content):
                return "create", {"path": path, "file_text": content}
            case Edit(path, old, new):
                return "edit", {"path": path, "old_str": old, "new_str": new}
            case Shell(command, background):
                mode = "async" if background else "sync"
                return "bash", {"command": command, "description": "work", "mode": mode}
            case Delegate(prompt):
                given = {"description": "a part", "prompt": prompt, "agent_type": "general-purpose"}
                return "task", {**given, "name": "part"}
            case Seek(_) | Await(_):
                return None
            case Use(tool, arguments, _):
                return f"safekept-{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        # Its `create` makes no directories; this is where the scenes write new files.
        os.makedirs(os.path.join(ground.project, "lib"), exist_ok=True)
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "scripted",
        }

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["--continue"] if again else []
        return [self.program, "-p", prompt, *more, "--allow-all-tools", "--allow-all-paths"]

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"type": "local", "command": command[0], "args": command[1:], "tools": ["*"]}
        path = os.path.join(ground.user, ".copilot", "mcp-config.json")
        host.write_json(path, {"mcpServers": {"safekept": server}})
