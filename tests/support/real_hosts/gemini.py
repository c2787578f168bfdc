"""Gemini CLI: `gemini -p`, its key and its server by the environment."""

from __future__ import annotations

import os

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import generate_content


class Gemini(host.RealHost):
    name, package, program = "gemini", "@google/gemini-cli", "gemini"
    wire = generate_content

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(_):
                return None  # it edits what it has not read, and reads nothing that git ignores
            case Write(path, content):
                return "write_file", {"file_path": path, "content": content}
            case Edit(path, old, new):
                given = {"file_path": path, "old_string": old, "new_string": new, "instruction": "do it"}
                return "replace", given
            case Shell(command, background):
                return "run_shell_command", {"command": command, "is_background": background}
            case Delegate(prompt):
                return "invoke_agent", {"agent_name": "generalist", "prompt": prompt}
            case Seek(_) | Await(_):
                return None  # all its tools are offered at once, and a subagent is waited for
            case Use(tool, arguments, _):
                return f"mcp_safekept_{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        host.write_json(self._settings(ground), settings)
        return {"GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "none"}

    def _settings(self, ground: Ground) -> str:
        return os.path.join(ground.user, ".gemini", "settings.json")

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["-r", "latest"] if again else []
        return [self.program, "-p", prompt, *more, "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"]

    def resume(self, prompt: str, session: str) -> list[str]:
        return [*self.command(prompt), "-r", session]

    def listed(self, ground: Ground) -> str:
        return self._said(ground, "--list-sessions")

    def delete(self, ground: Ground, session: str) -> None:
        assert "Deleted session" in (said := self._said(ground, "--delete-session", session)), said

    def _said(self, ground: Ground, *words: str) -> str:
        said, _ = ground.launch(self, [self.program, *words, "--skip-trust"]).communicate(timeout=300)
        return said

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"command": command[0], "args": command[1:], "trust": True, "timeout": host.STARTED * 1000}
        host.change_json(self._settings(ground), mcpServers={"safekept": server})
