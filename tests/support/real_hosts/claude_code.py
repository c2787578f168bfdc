"""Claude Code: `claude -p`, its key and its server by the environment."""

from __future__ import annotations

import glob
import os

from . import host
from .deeds import Await, Deed, Delegate, Edit, Read, Seek, Shell, Use, Write
from .ground import Ground
from .model import Call, Model
from .wires import anthropic


class ClaudeCode(host.RealHost):
    name, package, program = "claude-code", "@anthropic-ai/claude-code", "claude"
    wire = anthropic

    def spell(self, deed: Deed) -> Call | None:
        match deed:
            case Read(path):
                return "Read", {"file_path": path}
            case Write(path, content):
                return "Write", {"file_path": path, "content": content}
            case Edit(path, old, new):
                return "Edit", {"file_path": path, "old_string": old, "new_string": new}
            case Shell(command, background):
                return "Bash", {"command": command, "description": "work", "run_in_background": background}
            case Delegate(prompt):
                return "Agent", {
                    "description": "a part",
                    "prompt": prompt,
                    "subagent_type": "general-purpose",
                }
            case Seek(_) | Await(_):
                return None  # all its tools are offered at once, and a subagent is waited for
            case Use(tool, arguments, _):
                return f"mcp__safekept__{tool}", dict(arguments)

    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        os.makedirs(os.path.join(ground.user, ".claude"))
        return {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "IS_SANDBOX": "1",  # root may skip the permissions
            "ENABLE_TOOL_SEARCH": "false",  # tools of servers are offered at once,
            "MCP_CONNECTION_NONBLOCKING": "false",  # after all of them have started,
            "MCP_CONNECT_TIMEOUT_MS": str(host.STARTED * 1000),  # however long that takes
        }

    def command(self, prompt: str, again: bool = False) -> list[str]:
        more = ["-c"] if again else []
        return [self.program, "-p", prompt, *more, "--dangerously-skip-permissions"]

    def resume(self, prompt: str, session: str) -> list[str]:
        return [*self.command(prompt), "--resume", session]

    def listed(self, ground: Ground) -> str:
        """It lists them only to a person: what it lists is these files."""
        return " ".join(self._transcripts(ground))

    def delete(self, ground: Ground, session: str) -> None:
        (path,) = (path for path in self._transcripts(ground) if session in path)
        os.unlink(path)

    def _transcripts(self, ground: Ground) -> list[str]:
        return glob.glob(os.path.join(ground.user, ".claude", "projects", "*", "*.jsonl"))

    def add_server(self, ground: Ground, command: list[str]) -> None:
        server = {"type": "stdio", "command": command[0], "args": command[1:]}
        host.write_json(os.path.join(ground.user, ".claude.json"), {"mcpServers": {"safekept": server}})
